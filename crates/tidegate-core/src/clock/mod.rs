//! Clocks: time is an argument, not a global.
//!
//! Every component that waits takes a [`Clock`]: the system's, or a [`ManualClock`] that a test
//! advances. Inside the runtime a point in time is a `u64`: nanoseconds since the clock's origin,
//! saturating at `u64::MAX`, which means "never". In the public API it is a `Duration` or an
//! `Instant`.
//!
//! * `moment`: nanoseconds, and their origin.
//! * `sleeper`: [`Sleeper`], which a clock can wake.
//! * `manual`: [`ManualClock`].
//! * `handle`: [`Clock`].
//! * `fast`, `coarse`: [`FastClock`] and [`CoarseClock`], which are cheaper to read.
//! * `ticker`: [`Ticker`], periodic ticks of the system's clock, or steps of a test.
//!
//! Each module uses only the modules listed before it.

mod coarse;
mod fast;
mod handle;
mod manual;
mod moment;
mod sleeper;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;
mod ticker;

pub use self::coarse::CoarseClock;
pub use self::fast::FastClock;
pub use self::handle::Clock;
pub use self::manual::{ClockMember, ManualClock};
pub use self::moment::as_nanos;
pub(crate) use self::moment::origin;
pub use self::sleeper::Sleeper;
pub use self::ticker::{ManualTicker, Ticker, TickerStop};

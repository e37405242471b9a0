//! Time as an argument.
//!
//! Everything that waits takes a [`Clock`]: the system's, or a [`ManualClock`] that a test turns
//! by hand. Inside the runtime a moment is a `u64`: nanoseconds since the clock's origin,
//! saturating at `u64::MAX`, which means "never". At the edges it is `Duration` and `Instant`.
//!
//! * `moment`: nanoseconds, and where they start.
//! * `sleeper`: [`Sleeper`], what a clock wakes.
//! * `manual`: [`ManualClock`]; `settle` is its wait that a cancel token ends.
//! * `handle`: [`Clock`].
//! * `fast`, `coarse`: [`FastClock`] and [`CoarseClock`], which read the time for less.
//! * `ticker`: [`Ticker`], periodic ticks on a clock.
//!
//! Each knows only those before it; `settle` alone knows cancel tokens, which know clocks.

mod coarse;
mod fast;
mod handle;
mod manual;
mod moment;
mod settle;
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

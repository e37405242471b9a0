//! Handlers in a row: events go in from first to last, operations go out from last to first.
//!
//! A handler's method runs to its end before anything that it passed on or wrote goes further:
//! what it says lies on a stack, in order, and is carried out when it has returned, each thing
//! with all that follows from it before the next. So a handler is never entered twice, nothing
//! recurses, and the order is the one that direct calls would have.
//!
//! A handler that does not care about an event is skipped: which ones it cares about is learned
//! from the methods that it did not write, the first time each would be called.

mod chain;
mod change;
mod check;
mod context;
mod handler;
mod head;
mod levels;
mod lodged;
mod parts;
mod places;
mod stage;

pub(crate) use self::chain::Pipeline;
pub use self::change::{Assembly, Change, Handler};
pub use self::check::PipelineError;
pub(crate) use self::check::{Head, Name};
pub use self::context::{HandlerContext, InboundContext, OutboundContext};
pub use self::handler::{Deregistered, Inbound, InputShutdown, Outbound, Registered, UserEvent};
pub(crate) use self::handler::{Erased, Held, InEvent, InputEnd, OutOp, Own};
pub(crate) use self::parts::{Action, Parts, Record};
pub(crate) use self::stage::Back;

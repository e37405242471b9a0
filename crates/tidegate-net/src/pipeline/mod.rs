//! Handlers in a row: events go in from first to last, operations go out from last to first.
//!
//! A handler's method runs to its end before anything that it passed on or wrote goes further:
//! what it says lies on a stack, in order, and is carried out when it has returned, each thing
//! with all that follows from it before the next. So a handler is never entered twice, nothing
//! recurses, and the order is the one that direct calls would have.
//!
//! A handler that does not care about an event is skipped: which ones it cares about is learned
//! from the methods that it did not write, the first time each would be called.
//!
//! From bottom to top, each file knows only those before it, except the four that belong together:
//!
//! * `shape`, `check`, `plan`: what is known of handlers without calling them.
//! * `stack`, `parts`, `context`, `erased`: the events in flight, what the handlers of a chain
//!   share, what one of them can do with it, and a handler without its types. These know each
//!   other: a handler is called with a context, and changes of handlers are among the events.
//! * `handler`, `adapter`: what users implement, and how that is called.
//! * `chain`: the pipeline; `head`, `levels` and `places` are the rest of its methods.
//! * `stage`: a handler on an executor of its own.
//! * `assembly`, `change`: building a pipeline, and changing it.
//!
//! Knows the [`channel`](crate::channel), which is generic over it.

mod adapter;
mod assembly;
mod chain;
mod change;
mod check;
mod context;
mod erased;
mod handler;
mod head;
mod levels;
mod parts;
mod places;
mod plan;
mod shape;
mod stack;
mod stage;

pub use self::assembly::{Assembly, Handler};
pub(crate) use self::assembly::{Initialiser, assemble};
pub(crate) use self::chain::Pipeline;
pub use self::change::Change;
pub(crate) use self::check::Head;
pub use self::check::PipelineError;
pub use self::context::HandlerContext;
pub(crate) use self::erased::{Checked, Erased};
pub use self::handler::{Inbound, InboundContext, Outbound, OutboundContext};
pub(crate) use self::parts::Parts;
#[cfg(test)]
pub(crate) use self::stack::Action;

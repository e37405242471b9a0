//! The pipeline of a channel: an ordered chain of handlers. Events travel in, from the first
//! handler to the last; operations travel out, from the last to the first.
//!
//! A handler's method returns before anything that it passed on or wrote travels further. Each call
//! pushes its actions on a stack. The pipeline then carries them out in the order of the calls,
//! each together with everything that follows from it. So a handler is never re-entered, nothing
//! recurses, and the order is the same as with direct calls.
//!
//! A handler that does not implement the method for an event is skipped. The pipeline learns this
//! the first time that the default method runs.
//!
//! The files, from bottom to top. Each uses only the files before it, except for the second group:
//!
//! * `shape`, `check`, `plan`: what is known about handlers without calling them.
//! * `stack`, `pipeline_state`, `context`, `erased`: the events in flight, the state that the
//!   handlers of a chain share, the context of one handler, and a type-erased handler. These four
//!   depend on each other: a handler is called with a context, and pending changes of handlers are
//!   on the stack.
//! * `output`: memory of the loop that a handler writes into; it and `pipeline_state` use each other.
//! * `neighbour`: writes of a handler to another channel of its loop.
//! * `handler`, `adapter`: the traits that users implement, and how their methods are called.
//! * `chain`: the pipeline; `head`, `levels` and `places` hold the rest of its methods.
//! * `assembly`, `change`: building a pipeline, and changing it.
//!
//! The pipeline uses the [`channel`](crate::channel), which is generic over the pipeline.

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
mod neighbour;
mod output;
mod pipeline_state;
mod places;
mod plan;
mod shape;
mod stack;

pub use self::assembly::{Handler, PipelineBuilder};
pub(crate) use self::assembly::{Initialiser, assemble};
pub(crate) use self::chain::Pipeline;
pub use self::change::PipelineChange;
pub(crate) use self::check::Head;
pub use self::check::PipelineError;
pub use self::context::HandlerContext;
pub(crate) use self::erased::{Checked, Erased};
pub use self::handler::{
    Direction, Inbound, InboundContext, Inwards, Outbound, OutboundContext, Outwards, TypedContext,
};
pub use self::neighbour::Neighbour;
pub(crate) use self::pipeline_state::PipelineState;
#[cfg(test)]
pub(crate) use self::stack::Action;

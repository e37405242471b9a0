//! Bounds the work that follows from one event.
//!
//! Events travel from the first handler to the last and operations from the last to the first, so
//! each of them ends by itself. Two things can loop: an operation that causes an event (a handler
//! fires one, a write is refused, a handler panics), and a handler that changes the chain whenever
//! it is added. Each of these begins a level, which ends when everything that followed from it is
//! done. The nesting depth of levels is bounded, which bounds the stack. The total number of levels
//! is bounded too, which bounds the time. A chain that exceeds a bound is cut: its pending actions
//! are dropped and its channel is closed.

use tidegate_core::internal::contain;
use tidegate_promise::Failure;

use super::chain::Pipeline;
use super::erased::HandlerStorage;
use super::pipeline_state::PipelineState;
use super::stack::Action;
use crate::channel::{Flags, refuse_write};
use crate::errors::NetError;

/// The maximum nesting depth of levels.
const MOST_DEEP: u16 = 256;
/// The maximum number of levels that follow from one event.
const MOST_LEVELS: u32 = 1 << 20;

impl<E: ?Sized + HandlerStorage> Pipeline<E> {
    /// Begins a level. Returns `false` if there are too many levels; the chain is cut then.
    #[cold]
    pub(super) fn begin_level(&mut self) -> bool {
        let parts = &mut self.parts;
        parts.levels += 1;
        let endless = parts.depth >= MOST_DEEP || parts.levels > MOST_LEVELS;
        if endless || parts.io.state.flags.any(Flags::CUT) {
            self.cut(Failure::new(NetError::HandlerLoop));
            return false;
        }
        parts.depth += 1;
        parts.stack.push(Action::Level);
        true
    }

    /// Drops all pending actions and closes the channel with the error `why`.
    #[cold]
    fn cut(&mut self, why: Failure) {
        self.parts.give_up(&why);
        if self.parts.io.state.flags.any(Flags::CUT) {
            return;
        }
        self.parts.io.state.flags.set(Flags::CUT);
        if !self.parts.io.state.is_closed() {
            self.unhandled(why);
        }
    }
}

impl PipelineState {
    /// Empties the stack and fails the promises of pending writes. Handlers that are being added or
    /// removed stay as they are: the channel is about to close, which removes all handlers.
    fn give_up(&mut self, why: &Failure) {
        self.depth = 0;
        while let Some(action) = self.stack.pop() {
            // Messages and events are user values: their `Drop` may panic.
            let _ = contain(|| match action {
                Action::Write { msg, promise, .. } => {
                    self.io.arrived(&msg);
                    refuse_write(msg, promise, why.clone());
                }
                Action::FlushWith { promise, .. } | Action::FlushMark { promise } => {
                    let _ = promise.fail(why.clone());
                }
                other => drop(other),
            });
        }
    }
}

//! Why everything that follows from one event comes to an end.
//!
//! Events go from the first handler to the last and operations from the last to the first, so
//! either comes to an end by itself. What can go round in a circle is an operation that causes an
//! event (a handler fires one, a write is refused, a handler panics), or a handler that changes the
//! chain whenever it is added. Each of these begins a level, which ends when all that followed from
//! it is done. Levels within levels are bounded, which bounds the stack, and so are all levels
//! together, which bounds the time; a chain that goes beyond is cut, and its channel is closed.
//! The chain of a handler on an executor of its own has no circle: what it says goes back by mail.

use tidegate_core::contain;
use tidegate_promise::Failure;

use super::chain::Pipeline;
use super::erased::Held;
use super::parts::Parts;
use super::stack::Action;
use crate::channel::Flags;
use crate::errors::NetError;

/// Levels within levels.
const MOST_DEEP: u16 = 256;
/// Levels that follow from one event.
const MOST_LEVELS: u32 = 1 << 20;

impl<E: ?Sized + Held> Pipeline<E> {
    /// Begins a level; false if there are too many, and the chain is cut.
    #[cold]
    pub(super) fn begin_level(&mut self) -> bool {
        let parts = &mut self.parts;
        parts.levels += 1;
        let endless = parts.depth >= MOST_DEEP || parts.levels > MOST_LEVELS;
        if endless || parts.io.state.flags.any(Flags::CUT) {
            self.cut(Failure::new(NetError::Endless));
            return false;
        }
        parts.depth += 1;
        parts.stack.push(Action::Level);
        true
    }

    /// Gives up everything that is on its way, and has the channel closed for `why`.
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

impl Parts {
    /// Empties the stack. Handlers that are on their way in or out stay as they are: the end of the
    /// channel is near, which takes all of them out.
    fn give_up(&mut self, why: &Failure) {
        self.depth = 0;
        while let Some(action) = self.stack.pop() {
            // What is dropped here is the user's, and may panic.
            let _ = contain(|| match action {
                Action::Write { msg, promise, .. } => {
                    self.io.arrived(&msg);
                    if let Some(promise) = promise {
                        let _ = promise.fail(why.clone());
                    }
                }
                other => drop(other),
            });
        }
    }
}

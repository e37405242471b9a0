//! Inserts handlers into a chain and removes them.

use tidegate_core::internal::contain;
use tidegate_promise::Failure;

use super::chain::Pipeline;
use super::check::Name;
use super::erased::{HandlerStorage, StoredHandler};
use super::pipeline_state::HandlerEntry;
use super::plan::ChangeOp;
use super::stack::Action;
use crate::channel::{ChannelPipeline as _, HandlerEvent};

impl<E: ?Sized + HandlerStorage> Pipeline<E> {
    /// Calls `added` of every handler, first to last, as one step: their actions are carried out
    /// after the last call.
    pub(super) fn add_all(&mut self) {
        let ids: Vec<_> = self.parts.metas.iter().map(|meta| meta.id).collect();
        let mut said = Vec::new();
        for id in ids {
            if let Err(panic) = contain(|| self.step_own(id, HandlerEvent::Added)) {
                self.contain(panic);
            }
            said.extend(self.parts.stack.entries().drain(..).rev());
        }
        self.parts.stack.entries().extend(said.into_iter().rev());
        self.run();
    }

    /// Removes every handler, last to first.
    pub(super) fn take_all_out(&mut self) {
        while let Some(meta) = self.parts.metas.last() {
            self.take_out(meta.id);
        }
    }

    /// Removes one handler immediately.
    pub(super) fn take_out(&mut self, id: u32) {
        self.remove(id);
        self.run();
        // The handler is still there if the chain was cut during its removal.
        self.drop_handler(id);
    }

    pub(super) fn apply(&mut self, what: ChangeOp<StoredHandler>) {
        let names = self.parts.metas.iter().map(|meta| &meta.name);
        let Ok(mut at) = what.place.find(names) else {
            return;
        };
        if what.place.removes() {
            self.remove(self.parts.metas[at].id);
            // A new handler is placed behind the old one, so that it receives what the old one
            // passes on in `removed`. Its `added` runs before that.
            at += 1;
        }
        if let Some((name, handler)) = what.insert {
            self.insert(at, name, handler);
        }
    }

    fn insert(&mut self, at: usize, name: Name, handler: StoredHandler) {
        let Some(made) = handler.take() else { return };
        let shape = made.shape();
        let Some(handler) = E::store(made) else {
            return;
        };
        let meta = HandlerEntry::new(name, shape, self.parts.take_id());
        let id = meta.id;
        self.parts.metas.insert(at, meta);
        self.parts.update_masks();
        self.handlers.insert(at, handler);
        self.make_way(at);
        let what = HandlerEvent::Added;
        self.parts.stack.push(Action::HandlerEvent { id, what });
    }

    /// Begins the removal of a handler. From now on only `removed` is called, and only if `added`
    /// was.
    pub(super) fn remove(&mut self, id: u32) {
        let Some(at) = self.find(id) else { return };
        let meta = &mut self.parts.metas[at];
        meta.name = Name::Borrowed("");
        meta.mask = 0;
        self.parts.update_masks();
        self.parts.stack.push(Action::Drop { id });
        let what = HandlerEvent::Removed;
        self.parts.stack.push(Action::HandlerEvent { id, what });
    }

    pub(super) fn drop_handler(&mut self, id: u32) {
        let Some(at) = self.find(id) else { return };
        self.parts.io.clear_deadlines_of(id);
        self.parts.metas.remove(at);
        self.parts.update_masks();
        let handler = self.handlers.remove(at);
        self.each_place(|place, _| *place -= u32::from(*place as usize > at));
        // `Drop` is user code: its panic must not be attributed to another handler.
        if let Err(panic) = contain(|| drop(handler)) {
            self.report(&Failure::from_panic_of("the drop of a handler", panic));
        }
    }

    /// Corrects the positions of all actions on the stack after a handler was inserted at `new`. An
    /// inbound action for that position reaches the new handler first. An outbound action of the
    /// handler that was at `new`, and is behind it now, passes through the new handler.
    fn make_way(&mut self, new: usize) {
        self.each_place(|place, out| {
            let behind = *place as usize + usize::from(out) > new;
            *place += u32::from(behind);
        });
    }

    /// Calls `look` with the position of each action on the stack, and with `true` if the action is
    /// outbound.
    fn each_place(&mut self, mut look: impl FnMut(&mut u32, bool)) {
        for action in self.parts.stack.entries() {
            match action {
                Action::Read { at, .. } | Action::In { at, .. } | Action::Return { at, .. } => {
                    look(at, false);
                }
                Action::Write { at, .. }
                | Action::Out { at, .. }
                | Action::FlushWith { at, .. } => look(at, true),
                Action::FlushMark { .. }
                | Action::Level
                | Action::HandlerEvent { .. }
                | Action::Drop { .. }
                | Action::PipelineChange(_) => {}
            }
        }
    }
}

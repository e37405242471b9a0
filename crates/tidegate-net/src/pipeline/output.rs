//! The output of a handler: memory of the loop that the handler writes into.
//!
//! At most one output is open in a chain, that of the running handler. Meanwhile `base`, where the
//! actions of that handler begin on the stack, has the value [`OPEN`]. So each check whether the
//! handler has pending actions also finds the open output, at no cost for handlers without one.
//!
//! The content becomes a write at the place of the first call of `output`: before the handler's next
//! operation, or when its method returns. Events that the handler fired in between stay behind it.
//! A panic of the handler drops the content.

use bytes::BytesMut;

use super::pipeline_state::{CurrentCall, OPEN, PipelineState};
use super::stack::Action;
use crate::message::Msg;

impl PipelineState {
    /// Returns the memory that the running handler writes into.
    #[inline]
    pub(super) fn output(&mut self) -> &mut BytesMut {
        let length = self.stack.len();
        let lent = self.io.lent.as_ref();
        let goes_on = lent.is_some_and(|lent| lent.begun_at.1 as usize == length);
        if !(self.base == OPEN && goes_on) {
            self.open_output();
        }
        self.io.lent.get_or_insert_default().output()
    }

    #[inline(never)]
    fn open_output(&mut self) {
        self.close_output();
        let length = u32::try_from(self.stack.len()).expect("fewer actions than that");
        let lent = self.io.lent.get_or_insert_default();
        lent.begin_output();
        lent.begun_at = (self.base, length);
        self.base = OPEN;
    }

    /// Makes a write of the open output, if there is one.
    #[inline]
    pub(super) fn close_output(&mut self) {
        if self.base == OPEN {
            self.write_output();
        }
    }

    /// Makes a write of the open output, if there is one. Returns `true` if the handler has no
    /// pending actions after that.
    pub(super) fn output_was_all(&mut self) -> bool {
        self.base == OPEN && {
            self.write_output();
            self.has_no_pending_actions()
        }
    }

    #[inline(never)]
    fn write_output(&mut self) {
        let Some(lent) = &mut self.io.lent else {
            return;
        };
        let (base, length) = lent.begun_at;
        self.base = base;
        let Some(content) = lent.take_output() else {
            return;
        };
        let (at, msg) = (self.running, Msg::Bytes(content));
        let is_last = self.stack.len() == length as usize;
        // A write that an outbound handler makes of another one gets its promise from the stack.
        if is_last && (self.doing != CurrentCall::Write || self.promise.is_none()) {
            return self.write(at, msg, None);
        }
        self.io.leave_with(&msg);
        let promise = None;
        let write = Action::Write { at, msg, promise };
        self.stack.entries().insert(length as usize, write);
        self.io.look_at_marks();
    }

    /// Drops the open output, because its handler has panicked.
    #[cold]
    pub(super) fn drop_output(&mut self) {
        if self.base == OPEN
            && let Some(lent) = &mut self.io.lent
        {
            self.base = lent.begun_at.0;
            lent.output().clear();
        }
    }
}

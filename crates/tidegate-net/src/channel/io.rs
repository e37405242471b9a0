//! What a channel has apart from its socket and its handlers: what both reach.
//!
//! What waits to be sent, what the handlers asked for, and what others were told of that. The pipeline
//! owns it, so that a handler's context is one pointer; the channel carries out what was asked for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tidegate_core::SignalBlock;
use tidegate_promise::{Completion, Failure, Promise, promise_on};

use super::datagram::Outbox;
use super::event::OutOp;
use super::handle::Channel;
use super::mail::Mail;
use super::options::ChannelOptions;
use super::shared::Shared;
use super::timers;
use super::write_queue::{ENTRY_OVERHEAD, WriteQueue};
use crate::errors::NetError;
use crate::message::Msg;

/// What is left open on purpose, for a test to look at.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) inbound: VecDeque<Msg>,
    pub(crate) outbound: VecDeque<Msg>,
    pub(crate) errors: Vec<Failure>,
}

/// Parts of a word.
pub(crate) mod bits {
    /// Handlers elsewhere for whom too much waits.
    pub(crate) const HOLDS: u16 = (1 << 4) - 1;
    /// A handler wants to hear of the peer's end before the channel is closed for it.
    pub(crate) const TELL_INPUT_END: u16 = 1 << 4;
    /// The user wants the channel to read on its own.
    pub(crate) const READS_WISHED: u16 = 1 << 5;
    /// What decides whether the channel reads on its own: wished for, and nothing against it.
    pub(crate) const READS: u16 = READS_WISHED | HOLDS | ENDS;
    /// The channel speaks in datagrams, not in bytes.
    pub(crate) const DATAGRAMS: u16 = 1 << 6;
    /// The sending half ends behind what was written so far.
    pub(crate) const OUTPUT_ENDS: u16 = 1 << 7;
    /// The channel ends, now or behind what was written so far: it reads no more, and takes no more
    /// writes.
    pub(crate) const ENDS: u16 = 1 << 8;
    /// The handlers know that a write was refused, and none was taken since.
    pub(crate) const REFUSAL_TOLD: u16 = 1 << 9;
    /// What the handlers do has no end: nothing that follows from it is carried out any more.
    pub(crate) const CUT: u16 = 1 << 10;
    /// A write for which nobody waits came after the end, and no flush has told so.
    pub(crate) const LOST: u16 = 1 << 11;
    /// What makes a write unusual.
    pub(crate) const UNUSUAL: u16 = OUTPUT_ENDS | DATAGRAMS | ENDS | REFUSAL_TOLD;
}

/// A channel without its handlers and its socket.
pub(crate) struct ChannelIo {
    pub(crate) queue: WriteQueue,
    /// Here too, so that a message need not touch what other threads look at.
    pub(crate) options: Arc<ChannelOptions>,
    pub(crate) shared: Arc<SignalBlock<Shared>>,
    /// Datagrams to send, where the channel speaks in them.
    pub(crate) outbox: Option<Box<Outbox>>,
    pub(crate) record: Option<Arc<Mutex<Record>>>,
    /// What writes on the stack, and those that handlers hold, count for.
    in_flight: usize,
    /// What other threads were last shown.
    published: usize,
    published_writable: bool,
    /// Flags of the user's that are not set.
    user_flags: u32,
    pub(crate) unread: u32,
    /// Less waits than the marks allow; and what the handlers were last told.
    low_enough: bool,
    told_writable: bool,
    /// It was not writable for a while since then.
    dipped: bool,
    pub(crate) flush_wanted: bool,
    pub(crate) close_wanted: bool,
    pub(crate) close_when_flushed: bool,
    pub(crate) shutdown_wanted: bool,
    /// Reads on its own: wished for, and no handler holds it up.
    pub(crate) auto_read: bool,
    /// What does not matter to a message, as [`bits`].
    pub(crate) bits: u16,
    pub(crate) read_wanted: bool,
    pub(crate) closed: bool,
    pub(crate) close_cause: Option<Failure>,
}

impl ChannelIo {
    pub(crate) fn new(shared: Arc<SignalBlock<Shared>>) -> Self {
        let options = shared.options();
        let auto_read = options.auto_read;
        Self {
            queue: WriteQueue::new(),
            options,
            shared,
            outbox: None,
            record: None,
            in_flight: 0,
            published: 0,
            published_writable: true,
            user_flags: 0,
            unread: 0,
            low_enough: true,
            told_writable: true,
            dipped: false,
            flush_wanted: false,
            close_wanted: false,
            close_when_flushed: false,
            shutdown_wanted: false,
            auto_read,
            bits: if auto_read { bits::READS_WISHED } else { 0 },
            read_wanted: false,
            closed: false,
            close_cause: None,
        }
    }

    /// Whether it ends, so that nothing that comes now is read or written.
    pub(crate) fn ends(&self) -> bool {
        self.bits & bits::ENDS != 0
    }

    pub(crate) fn tells_input_end(&self) -> bool {
        self.bits & bits::TELL_INPUT_END != 0
    }

    /// Lets it speak in datagrams.
    pub(crate) fn take_datagrams(&mut self) {
        self.outbox = Some(Box::default());
        self.bits |= bits::DATAGRAMS;
    }

    /// What a test looks at, if this is one.
    pub(crate) fn recorded(&self) -> Option<MutexGuard<'_, Record>> {
        let record = self.record.as_ref()?;
        Some(record.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cold]
    pub(crate) fn record_read(&self, msg: Msg) {
        if let Some(mut record) = self.recorded() {
            record.inbound.push_back(msg);
        }
    }

    pub(crate) fn channel(&self) -> Channel {
        Channel::of(Arc::clone(&self.shared))
    }

    pub(crate) fn weak(&self) -> Weak<SignalBlock<Shared>> {
        Arc::downgrade(&self.shared)
    }

    pub(crate) fn new_promise(&self) -> (Promise<()>, Completion<()>) {
        promise_on(Arc::clone(self.shared.executor()))
    }

    /// Runs `work` on the channel's loop, `after` from now. `None` if the loop takes no more of it.
    pub(crate) fn schedule(
        &self,
        after: Duration,
        work: impl FnOnce() + Send + 'static,
    ) -> Option<Completion<()>> {
        timers::schedule(&self.shared, after, work)
    }

    /// Counts what a handler keeps for later.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), NetError> {
        let (pending, cap) = (self.pending(), self.options.marks.cap());
        if pending + bytes > cap {
            let size = bytes;
            return Err(NetError::Overfull { size, pending, cap });
        }
        self.in_flight += bytes;
        self.look_at_marks();
        Ok(())
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.look_at_marks();
    }

    /// Shows a handler elsewhere how the channel stands.
    pub(crate) fn mirror(&mut self) {
        self.in_flight = self.shared.pending();
        self.low_enough = self.shared.is_writable();
    }

    /// Counts a write that is on its way through the handlers.
    pub(crate) fn leave_with(&mut self, msg: &Msg) {
        self.in_flight += msg.size() + ENTRY_OVERHEAD;
    }

    /// Notes that a write has left the stack.
    pub(crate) fn arrived(&mut self, msg: &Msg) {
        self.in_flight = self.in_flight.saturating_sub(msg.size() + ENTRY_OVERHEAD);
    }

    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.queue.pending() + self.in_flight
    }

    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        self.low_enough && self.user_flags == 0 && !self.closed && !self.ends()
    }

    pub(crate) fn bytes_before_unwritable(&self) -> usize {
        let high = self.options.marks.high();
        if self.is_writable() {
            high.saturating_add(1).saturating_sub(self.pending())
        } else {
            0
        }
    }

    pub(crate) fn set_user_writable(&mut self, flag: u8, writable: bool) -> Result<(), NetError> {
        if !(1..=31).contains(&flag) {
            return Err(NetError::BadFlag(flag));
        }
        if writable {
            self.user_flags &= !(1 << flag);
        } else {
            self.user_flags |= 1 << flag;
            self.dipped = true;
        }
        Ok(())
    }

    /// Compares what waits with the marks: above the high one is too much, below the low one is
    /// little enough again.
    #[inline]
    pub(crate) fn look_at_marks(&mut self) {
        if self.low_enough && self.queue.is_empty() && self.in_flight == 0 {
            return;
        }
        let marks = &self.options.marks;
        let pending = self.pending();
        if pending > marks.high() {
            self.low_enough = false;
            self.dipped = true;
        } else if pending < marks.low() || pending == 0 {
            self.low_enough = true;
        }
    }

    /// Whether nothing waits, nobody has asked for anything, and everybody knows: nearly always.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm_but_for(self.flush_wanted, self.queue.pending())
    }

    /// Whether all that is left to do is to send one entry for which nobody waits.
    #[inline]
    pub(crate) fn has_one_to_send(&self) -> bool {
        self.is_calm_but_for(false, 0) && self.queue.has_one()
    }

    #[inline(always)]
    fn is_calm_but_for(&self, flush_wanted: bool, queued: usize) -> bool {
        let asked = flush_wanted
            | self.close_wanted
            | self.close_when_flushed
            | self.shutdown_wanted
            | self.dipped
            | self.closed;
        let writable = self.low_enough & self.told_writable & self.published_writable;
        let waiting = self.published | queued | self.in_flight | self.user_flags as usize;
        !asked & writable & (waiting == 0)
    }

    /// Whether the handlers asked for anything, or have to be told something.
    #[inline]
    pub(crate) fn has_wishes(&self) -> bool {
        // No short cuts: one look at neighbours is quicker than eight that may end early.
        let asked = self.flush_wanted
            | self.close_wanted
            | self.close_when_flushed
            | self.shutdown_wanted
            | self.dipped
            | !self.low_enough;
        asked || self.is_writable() != self.told_writable
    }

    /// What the handlers have to be told of writability, if anything.
    pub(crate) fn writability_news(&mut self) -> Option<bool> {
        // A handler that saw the channel unwritable waits to be told, even if that is over.
        let dipped = std::mem::take(&mut self.dipped) && self.told_writable;
        let writable = self.is_writable() && !dipped;
        if writable == self.told_writable || self.closed || self.ends() {
            return None;
        }
        self.told_writable = writable;
        Some(writable)
    }

    /// Shows other threads how things stand; true if that is news.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        let (pending, writable) = (self.pending(), self.is_writable());
        let changed = pending != self.published || writable != self.published_writable;
        if changed {
            (self.published, self.published_writable) = (pending, writable);
            self.shared.publish(pending, writable);
        }
        changed
    }

    pub(crate) fn set_auto_read(&mut self, yes: bool) {
        if self.bits & bits::READS_WISHED != 0 && !yes {
            // A wish from before is one of those that end here.
            self.read_wanted = false;
        }
        self.bits &= !bits::READS_WISHED;
        self.bits |= if yes { bits::READS_WISHED } else { 0 };
        self.auto_read = self.bits & bits::READS == bits::READS_WISHED;
    }

    #[inline]
    pub(crate) fn out_head(&mut self, op: OutOp) {
        match op {
            OutOp::Flush => self.flush_head(),
            OutOp::Close => self.close_head(),
            OutOp::CloseWhenFlushed => self.close_flushed_head(),
            OutOp::ShutdownOutput => self.shutdown_head(),
            OutOp::Read => self.read_wanted = !self.ends(),
        }
    }

    #[inline]
    pub(crate) fn flush_head(&mut self) {
        self.queue.flush();
        self.flush_wanted = true;
    }

    /// Has `promise` completed when the operating system has all that has come so far.
    pub(crate) fn flush_for(&mut self, promise: Promise<()>) {
        if self.bits & bits::LOST != 0 {
            self.bits &= !bits::LOST;
            return drop(promise.fail(Failure::new(self.why_late())));
        }
        let free = match &mut self.outbox {
            Some(outbox) => outbox.push_flush(promise),
            None => self.queue.push_mark(promise),
        };
        match free {
            // Nothing waits.
            Some(promise) => drop(promise.succeed(())),
            None => self.flush_head(),
        }
    }

    /// Closes as soon as the running handlers have returned.
    #[cold]
    pub(crate) fn close_head(&mut self) {
        self.close_wanted = true;
        self.end();
    }

    /// Closes behind what was written before.
    #[cold]
    pub(crate) fn close_flushed_head(&mut self) {
        // Even if a handler holds its flushes back.
        self.flush_head();
        self.close_when_flushed = true;
        self.end();
    }

    /// Bounds the time that the rest may take which is to be sent before the end: from the moment
    /// that somebody asks for the end, since handlers may hold that back with what they hold.
    #[cold]
    pub(crate) fn set_deadline(&self) {
        let after = self.options.close_timeout;
        if after.is_zero() || self.closed || self.shared.has_deadline() {
            return;
        }
        let channel = self.weak();
        let ring = move || {
            if let Some(channel) = channel.upgrade() {
                // Refused: it is closed.
                let _ = Shared::post(&channel, Mail::CloseDeadline, true);
            }
        };
        // A loop that takes no more timers is on its way out, and closes its channels.
        if let Some(timer) = self.schedule(after, ring) {
            self.shared.set_deadline(timer);
        }
    }

    /// Nothing is read any more, and nothing more is taken to be written.
    fn end(&mut self) {
        self.bits |= bits::ENDS;
        self.shared.set_ends();
        self.auto_read = false;
        self.read_wanted = false;
    }

    #[cold]
    fn shutdown_head(&mut self) {
        // What was written before goes before, even if a handler holds its flushes back.
        self.flush_head();
        self.shutdown_wanted = true;
        self.bits |= bits::OUTPUT_ENDS;
    }

    /// Why a write is not taken that comes after the end.
    pub(crate) fn why_late(&self) -> NetError {
        match self.closed || self.ends() {
            true => NetError::Closed(self.close_cause.clone()),
            false => NetError::OutputShut,
        }
    }

    /// Notes that a write for which nobody waits came too late: the next flush that is waited for
    /// fails.
    pub(crate) fn lose(&mut self) {
        self.bits |= bits::LOST;
    }

    /// Reads no more on its own until [`Parts::release_reads`], whatever anybody wishes.
    pub(crate) fn hold_reads(&mut self) {
        // Of more than that many some let go early: still better than never.
        if self.bits & bits::HOLDS < bits::HOLDS {
            self.bits += 1;
        }
        self.auto_read = false;
    }

    /// Answers whether it reads on its own from now on.
    pub(crate) fn release_reads(&mut self) -> bool {
        if self.bits & bits::HOLDS > 0 {
            self.bits -= 1;
        }
        self.auto_read = self.bits & bits::READS == bits::READS_WISHED;
        self.auto_read
    }
}

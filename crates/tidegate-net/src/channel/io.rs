//! The state that the socket and the handlers of a channel share: pending data, requests of the
//! handlers, and the state last shown to handlers and other threads.
//!
//! The pipeline owns it, so that a handler's context is one pointer. The channel carries out the
//! requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::internal::{SignalBlock, lock};
use tidegate_promise::{Completion, Failure, Promise, promise_on};

use super::channel_request::ChannelRequest;
use super::datagram::Outbox;
use super::deadlines::Deadlines;
use super::event::OutOp;
use super::handle::Channel;
use super::options::ChannelOptions;
use super::peer_progress::PeerProgress;
use super::shared::Shared;
use super::state::{Flags, Output, RequestedEnd, State};
use super::timers::{self, HandlerTimers, TimedWork};
use super::write_queue::{ENTRY_OVERHEAD, WriteQueue};
use crate::errors::NetError;
use crate::message::Msg;
use crate::sys::Lent;

/// Messages and errors that reached an end of the pipeline, kept for a test to inspect.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) inbound: VecDeque<Msg>,
    pub(crate) outbound: VecDeque<Msg>,
    pub(crate) errors: Vec<Failure>,
}

/// Flags that keep a channel from being calm: see [`ChannelIo::is_calm`].
const UNCALM: Flags = Flags::FLUSH
    .union(Flags::DIPPED)
    .union(Flags::ABOVE_MARKS)
    .union(Flags::REPORTED_UNWRITABLE)
    .union(Flags::SHOWN_UNWRITABLE);

/// State that most channels do not need.
#[derive(Debug, Default)]
pub(super) struct Rare {
    pub(super) deadlines: Deadlines,
    pub(super) timers: HandlerTimers,
    /// What the peer had acknowledged when deadlines were last due, where that is known.
    pub(super) peer_progress: Option<PeerProgress>,
    /// What a test inspects, if the channel has no socket.
    record: Option<Arc<Mutex<Record>>>,
}

/// A channel without its handlers and its socket.
pub(crate) struct ChannelIo {
    pub(crate) queue: WriteQueue,
    /// Kept here too, so that handling a message does not touch memory that other threads read.
    pub(crate) options: Arc<ChannelOptions>,
    pub(crate) shared: Arc<SignalBlock<Shared>>,
    /// Datagrams to send, if the channel uses datagrams.
    pub(crate) outbox: Option<Box<Outbox>>,
    /// The loop's memory for handlers, while they may run. `None` between two turns, and before one
    /// has used it.
    pub(crate) lent: Option<Box<Lent>>,
    /// `None` until it is needed.
    pub(super) rare: Option<Box<Rare>>,
    /// Counted size of the writes on the stack and of those that handlers hold.
    in_flight: usize,
    /// Pending size that other threads were last shown.
    published: usize,
    /// User-defined writability flags that are off, as bits.
    user_flags: u32,
    pub(crate) unread: u32,
    pub(crate) state: State,
    pub(crate) close_cause: Option<Failure>,
}

impl ChannelIo {
    pub(crate) fn new(shared: Arc<SignalBlock<Shared>>) -> Self {
        let options = shared.options();
        let state = State::new(options.auto_read, options.half_closure);
        Self {
            queue: WriteQueue::new(),
            options,
            shared,
            outbox: None,
            lent: None,
            rare: None,
            in_flight: 0,
            published: 0,
            user_flags: 0,
            unread: 0,
            state,
            close_cause: None,
        }
    }

    /// Makes the channel use datagrams.
    pub(crate) fn take_datagrams(&mut self) {
        self.outbox = Some(Box::default());
        self.state.flags.set(Flags::DATAGRAMS);
    }

    /// Makes the channel record what reaches its ends, for a test.
    pub(crate) fn set_record(&mut self, record: Arc<Mutex<Record>>) {
        self.rare.get_or_insert_default().record = Some(record);
    }

    pub(crate) fn is_recorded(&self) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| rare.record.is_some())
    }

    /// Returns the record for a test, if there is one.
    pub(crate) fn recorded(&self) -> Option<MutexGuard<'_, Record>> {
        let record = self.rare.as_ref()?.record.as_ref()?;
        Some(lock(record))
    }

    #[cold]
    pub(crate) fn record_read(&self, msg: Msg) {
        if let Some(mut record) = self.recorded() {
            record.inbound.push_back(msg);
        }
    }

    pub(crate) fn peer_progress(&self) -> Option<PeerProgress> {
        self.rare.as_ref()?.peer_progress
    }

    /// Records that the operating system holds `held` bytes, where it says so.
    pub(crate) fn record_held(&mut self, held: Option<u64>) {
        let sent = self.queue.written();
        self.rare.get_or_insert_default().peer_progress = held.map(|held| PeerProgress {
            acknowledged: sent.saturating_sub(held),
            held,
        });
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

    /// Runs `work` for `handler` on the channel's loop after a delay of `after`. Returns `None` if the
    /// channel is closed or the loop accepts no more timers.
    pub(crate) fn schedule(
        &mut self,
        handler: u32,
        after: Duration,
        work: TimedWork,
    ) -> Option<Completion<()>> {
        if self.state.is_closed() {
            return None;
        }
        let (done, link) = timers::schedule_linked(&self.shared, after, work)?;
        let rare = self.rare.get_or_insert_default();
        rare.timers.add(handler, link);
        Some(done)
    }

    /// Returns the memory of bytes that a handler has consumed to the loop. Drops bytes that are not
    /// the loop's, and bytes of which another part is in use.
    pub(crate) fn give_back(&mut self, bytes: Bytes) {
        drop(self.lent.get_or_insert_default().give_back(bytes));
    }

    /// Counts bytes that a handler keeps for later. Fails if the cap would be exceeded.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), NetError> {
        let (pending, cap) = (self.pending(), self.options.marks.cap());
        if pending.saturating_add(bytes) > cap {
            let size = bytes;
            return Err(NetError::WriteQueueFull { size, pending, cap });
        }
        self.in_flight += bytes;
        self.look_at_marks();
        Ok(())
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.look_at_marks();
    }

    /// Counts a write that is on its way through the handlers.
    pub(crate) fn leave_with(&mut self, msg: &Msg) {
        self.in_flight += msg.size() + ENTRY_OVERHEAD;
    }

    /// Returns `true` if the channel is below its water marks, and stays there with this write.
    #[inline]
    pub(crate) fn stays_writable_with(&self, msg: &Msg) -> bool {
        let unsent = self.unsent().saturating_add(msg.size() + ENTRY_OVERHEAD);
        !self.state.flags.any(Flags::ABOVE_MARKS) && unsent <= self.options.marks.high()
    }

    /// Subtracts a write that has left the stack.
    pub(crate) fn arrived(&mut self, msg: &Msg) {
        self.in_flight = self.in_flight.saturating_sub(msg.size() + ENTRY_OVERHEAD);
    }

    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.queue.pending() + self.in_flight
    }

    /// Returns what counts for the water marks: the pending size, and the unsent bytes of files.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.pending().saturating_add(self.queue.file_bytes())
    }

    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        let state = &self.state;
        let over = state.ends() | state.is_closed();
        !state.flags.any(Flags::ABOVE_MARKS) && self.user_flags == 0 && !over
    }

    pub(crate) fn bytes_before_unwritable(&self) -> usize {
        let high = self.options.marks.high();
        if self.is_writable() {
            high.saturating_add(1).saturating_sub(self.unsent())
        } else {
            0
        }
    }

    pub(crate) fn set_user_writable(&mut self, flag: u8, writable: bool) -> Result<(), NetError> {
        if !(1..=31).contains(&flag) {
            return Err(NetError::InvalidFlag(flag));
        }
        if writable {
            self.user_flags &= !(1 << flag);
        } else {
            self.user_flags |= 1 << flag;
            self.state.flags.set(Flags::DIPPED);
        }
        Ok(())
    }

    /// Notifies the handlers once the channel is writable, even if it has been for them all the time.
    pub(crate) fn note_seen_unwritable(&mut self) {
        self.state.flags.set(Flags::DIPPED);
    }

    /// Compares the pending size with the water marks. Above the high mark the channel becomes
    /// unwritable, below the low mark it becomes writable again.
    #[inline]
    pub(crate) fn look_at_marks(&mut self) {
        let above = self.state.flags.any(Flags::ABOVE_MARKS);
        if !above && self.queue.is_empty() && self.in_flight == 0 {
            return;
        }
        let marks = &self.options.marks;
        let pending = self.unsent();
        if pending > marks.high() {
            self.state
                .flags
                .set(Flags::ABOVE_MARKS.union(Flags::DIPPED));
        } else if pending < marks.low() || pending == 0 {
            self.state.flags.clear(Flags::ABOVE_MARKS);
        }
    }

    /// Returns `true` if nothing is pending, nothing was requested, and handlers and other threads
    /// know the current state. Nearly always the case.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        let state = &self.state;
        // No short-circuit evaluation: one look at neighbouring fields is faster than several
        // branches.
        let requested = state.flags.any(UNCALM) | state.has_end_to_do() | state.is_closed();
        let queued = self.queue.pending() | self.in_flight;
        let waiting = self.published | queued | self.user_flags as usize;
        !requested & (waiting == 0)
    }

    /// Returns `true` if the handlers requested anything or have to be notified of something.
    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        const REQUESTED: Flags = Flags::FLUSH.union(Flags::DIPPED).union(Flags::ABOVE_MARKS);
        let requested = self.state.flags.any(REQUESTED) | self.state.has_end_to_do();
        requested || self.is_writable() != self.reported_writable()
    }

    /// Returns the writability that was last reported to the handlers.
    fn reported_writable(&self) -> bool {
        !self.state.flags.any(Flags::REPORTED_UNWRITABLE)
    }

    /// Returns the new writability, if the handlers have to be notified of it.
    pub(crate) fn writability_news(&mut self) -> Option<bool> {
        let reported = self.reported_writable();
        // A handler that saw the channel unwritable waits for a notification, even if the channel
        // is writable again.
        let dipped = self.state.flags.take(Flags::DIPPED) && reported;
        let writable = self.is_writable() && !dipped;
        if writable == reported || self.state.is_closed() || self.state.ends() {
            return None;
        }
        self.state.flags.put(Flags::REPORTED_UNWRITABLE, !writable);
        Some(writable)
    }

    /// Publishes pending size and writability to other threads. Returns `true` if they have
    /// changed.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        let (pending, writable) = (self.pending(), self.is_writable());
        let shown = !self.state.flags.any(Flags::SHOWN_UNWRITABLE);
        let changed = pending != self.published || writable != shown;
        match changed {
            true => {
                self.published = pending;
                self.state.flags.put(Flags::SHOWN_UNWRITABLE, !writable);
                self.shared.publish(pending, writable);
            }
            false => self.shared.pending.forget_taken(),
        }
        changed
    }

    #[inline]
    pub(crate) fn request_op(&mut self, op: OutOp) {
        match op {
            OutOp::Flush => self.request_flush(),
            OutOp::Close => self.request_close(),
            OutOp::CloseWhenFlushed => self.request_close_when_flushed(),
            OutOp::ShutdownOutput => self.request_shutdown(),
            OutOp::Read => self.state.flags.put(Flags::READ, !self.state.ends()),
        }
    }

    #[inline]
    pub(crate) fn request_flush(&mut self) {
        self.queue.flush();
        self.state.flags.set(Flags::FLUSH);
    }

    /// Requests another flush if flushed data is not sent yet.
    pub(crate) fn flush_rest(&mut self) {
        if self.queue.has_flushed() {
            self.state.flags.set(Flags::FLUSH);
        }
    }

    /// Like `flush_rest`, and also for waiting datagrams. Called when the socket accepts data
    /// again.
    pub(crate) fn resume_flush(&mut self) {
        if self.queue.has_flushed() || self.outbox.is_some() {
            self.state.flags.set(Flags::FLUSH);
        }
    }

    /// Registers `promise` to complete when the operating system has taken everything written so
    /// far.
    pub(crate) fn flush_for(&mut self, promise: Promise<()>) {
        if self.state.is_closed() || self.state.flags.take(Flags::LOST) {
            return drop(promise.fail(Failure::new(self.why_late())));
        }
        let free = match &mut self.outbox {
            Some(outbox) => outbox.push_flush(promise),
            None => self.queue.push_mark(promise),
        };
        match free {
            // Nothing is pending.
            Some(promise) => drop(promise.succeed(())),
            None => self.request_flush(),
        }
    }

    /// Requests a close as soon as the running handlers have returned.
    #[cold]
    pub(crate) fn request_close(&mut self) {
        self.end(RequestedEnd::Now);
    }

    /// Requests a close that drops what is not sent, even if it was flushed, and resets the
    /// connection.
    #[cold]
    pub(crate) fn request_abort(&mut self) {
        self.state.flags.set(Flags::ABORTED);
        self.request_close();
    }

    /// Requests a close after everything that was written before.
    #[cold]
    pub(crate) fn request_close_when_flushed(&mut self) {
        // Flushes even if a handler holds its flushes back.
        self.request_flush();
        self.end(RequestedEnd::WhenFlushed);
    }

    /// Limits the time for sending the rest before the close. The time runs from the request to
    /// close, since handlers may hold the close back together with their data.
    #[cold]
    pub(crate) fn set_deadline(&self) {
        if !self.state.is_closed() && !self.shared.has_deadline() {
            self.restart_deadline();
        }
    }

    /// Starts the time limit of [`ChannelIo::set_deadline`] anew.
    pub(crate) fn restart_deadline(&self) {
        let after = self.options.close_timeout;
        if !after.is_zero() {
            self.close_after(after);
        }
    }

    /// Limits the time until the channel is closed to `after` from now, in place of an earlier limit.
    #[cold]
    pub(super) fn close_after(&self, after: Duration) {
        let channel = self.weak();
        let ring = move || {
            if let Some(channel) = channel.upgrade() {
                // Refused: the channel is closed.
                let _ = Shared::post(&channel, ChannelRequest::CloseDeadline, true);
            }
        };
        // A loop that accepts no more timers is shutting down, and closes its channels.
        if let Some(timer) = timers::schedule(&self.shared, after, Box::new(ring)) {
            self.shared.set_deadline(timer);
        }
    }

    /// Requests `end`: from now on nothing is read and no write is accepted.
    fn end(&mut self, end: RequestedEnd) {
        self.state.request_end(end);
        self.shared.set_ends();
    }

    #[cold]
    fn request_shutdown(&mut self) {
        // What was written before is sent first, even if a handler holds its flushes back.
        self.request_flush();
        self.state.output = Output::Ending;
    }

    /// Returns the error for a write that comes after the end.
    pub(crate) fn why_late(&self) -> NetError {
        match self.state.is_closed() || self.state.ends() {
            true => NetError::Closed(self.close_cause.clone()),
            false if self.state.takes_writes() => NetError::WriteLost,
            false => NetError::OutputShut,
        }
    }

    /// Records that a write without a promise was refused or came too late: the next flush with a
    /// promise fails.
    pub(crate) fn mark_lost_write(&mut self) {
        self.state.flags.set(Flags::LOST);
    }
}

//! What a channel has apart from its handlers: what they reach through their contexts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tidegate_core::{Blocking, SignalBlock};
use tidegate_loop::EventLoop;
use tidegate_promise::{Completion, Failure, Promise, promise_on};

use super::change::What;
use super::check::{Head, Name};
use super::handler::{InEvent, OutOp, Own, Shape, mask};
use super::lodged::Lodged;
use crate::channel::write_queue::{ENTRY_OVERHEAD, WriteQueue};
use crate::channel::{Channel, ChannelOptions, Outbox, Shared};
use crate::errors::NetError;
use crate::message::Msg;

/// Something on its way through the chain. `at` is the first handler that an inbound event may
/// reach, and the one behind the first that an outbound one may reach.
#[derive(Debug)]
pub(crate) enum Action {
    Read {
        at: u32,
        msg: Msg,
    },
    In {
        at: u32,
        event: InEvent,
    },
    Write {
        at: u32,
        msg: Msg,
        promise: Option<Promise<()>>,
    },
    Out {
        at: u32,
        op: OutOp,
    },
    /// An event that something on its way out has caused: a level of its own begins with it.
    Return {
        at: u32,
        event: InEvent,
    },
    /// Everything that followed from the beginning of a level is done.
    Level,
    Own {
        id: u32,
        what: Own,
    },
    /// Takes the handler out that has been told of its removal.
    Drop {
        id: u32,
    },
    Change(Box<What<Lodged>>),
}

/// What a chain knows of one of its handlers.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) name: Name,
    pub(crate) shape: &'static Shape,
    pub(crate) id: u32,
    /// What it cares about, as far as is known.
    pub(crate) mask: u16,
    pub(crate) life: Life,
}

/// How far a handler's life in a chain has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It was not told that it was added.
    New,
    Added,
    /// It was told that it was removed.
    Removed,
}

impl Meta {
    /// Notes that the handler is about to hear `what`; false if it must not.
    pub(super) fn may_hear(&mut self, what: Own) -> bool {
        let (from, to) = match what {
            Own::Added => (Life::New, Life::Added),
            Own::Removed => (Life::Added, Life::Removed),
            Own::Timer(_) => (Life::Added, Life::Added),
        };
        let may = self.life == from;
        if may {
            self.life = to;
        }
        may
    }
}

/// What a handler was doing when it panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Nothing,
    Event,
    Error,
    Write,
    /// Another operation on its way out.
    Out,
    Added,
    Removed,
    Timer,
}

impl Doing {
    pub(super) fn own(what: Own) -> Self {
        match what {
            Own::Added => Self::Added,
            Own::Removed => Self::Removed,
            Own::Timer(_) => Self::Timer,
        }
    }
}

/// What is left open on purpose, for a test to look at.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) inbound: std::collections::VecDeque<Msg>,
    pub(crate) outbound: std::collections::VecDeque<Msg>,
    pub(crate) errors: Vec<Failure>,
}

/// Parts of a word.
pub(super) mod bits {
    /// Handlers elsewhere for whom too much waits.
    pub(in crate::pipeline) const HOLDS: u16 = (1 << 4) - 1;
    /// A handler wants to hear of the peer's end before the channel is closed for it.
    pub(in crate::pipeline) const TELL_INPUT_END: u16 = 1 << 4;
    /// The user wants the channel to read on its own.
    pub(in crate::pipeline) const READS_WISHED: u16 = 1 << 5;
    /// What decides whether the channel reads on its own: wished for, and nothing against it.
    pub(in crate::pipeline) const READS: u16 = READS_WISHED | HOLDS | ENDS;
    /// The channel speaks in datagrams, not in bytes.
    pub(in crate::pipeline) const DATAGRAMS: u16 = 1 << 6;
    /// The sending half ends behind what was written so far.
    pub(in crate::pipeline) const OUTPUT_ENDS: u16 = 1 << 7;
    /// The channel ends, now or behind what was written so far: it reads no more, and takes no more
    /// writes.
    pub(in crate::pipeline) const ENDS: u16 = 1 << 8;
    /// The handlers know that a write was refused, and none was taken since.
    pub(in crate::pipeline) const REFUSAL_TOLD: u16 = 1 << 9;
    /// What the handlers do has no end: nothing that follows from it is carried out any more.
    pub(in crate::pipeline) const CUT: u16 = 1 << 10;
    /// A write for which nobody waits came after the end, and no flush has told so.
    pub(in crate::pipeline) const LOST: u16 = 1 << 11;
    /// What makes a write unusual.
    pub(in crate::pipeline) const UNUSUAL: u16 = OUTPUT_ENDS | DATAGRAMS | ENDS | REFUSAL_TOLD;
}

/// A channel without its handlers and its socket.
pub(crate) struct Parts {
    pub(crate) metas: Vec<Meta>,
    /// What any handler cares about.
    cares: u16,
    /// What the handlers together may do to their thread.
    pub(super) blocking: Blocking,
    pub(crate) stack: Vec<Action>,
    /// Where on the stack the running handler's own actions begin.
    pub(super) base: u32,
    pub(super) running: u32,
    /// Levels that have begun and not ended, and how many have begun since nothing ran.
    pub(super) depth: u16,
    pub(super) levels: u32,
    pub(super) doing: Doing,
    next_id: u32,
    /// The chain as it will be after the changes on the stack.
    #[expect(clippy::box_collection, reason = "hardly ever there, and then shortly")]
    pub(super) planned: Option<Box<Vec<(Name, &'static Shape)>>>,
    /// The promise of the write that an outbound handler is busy with.
    pub(super) promise: Option<Promise<()>>,
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
    pub(super) bits: u16,
    pub(crate) read_wanted: bool,
    /// The handlers have heard that a read is complete.
    pub(super) completed: bool,
    pub(crate) closed: bool,
    pub(crate) close_cause: Option<Failure>,
}

impl Parts {
    pub(crate) fn new(shared: Arc<SignalBlock<Shared>>) -> Self {
        let options = shared.options();
        let auto_read = options.auto_read;
        Self {
            metas: Vec::new(),
            cares: 0,
            blocking: Blocking::Never,
            stack: Vec::new(),
            base: 0,
            running: 0,
            depth: 0,
            levels: 0,
            doing: Doing::Nothing,
            next_id: 0,
            planned: None,
            promise: None,
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
            completed: false,
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

    pub(crate) fn head(&self) -> Head {
        if self.record.is_some() {
            Head::Anything
        } else if self.outbox.is_some() {
            Head::DATAGRAMS
        } else {
            Head::BYTES
        }
    }

    /// What a test looks at, if this is one.
    pub(super) fn recorded(&self) -> Option<MutexGuard<'_, Record>> {
        let record = self.record.as_ref()?;
        Some(record.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cold]
    pub(super) fn record_read(&self, msg: Msg) {
        if let Some(mut record) = self.recorded() {
            record.inbound.push_back(msg);
        }
    }

    pub(super) fn take_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn name(&self, at: u32) -> &str {
        self.metas.get(at as usize).map_or("", |meta| &meta.name)
    }

    pub(super) fn id(&self, at: u32) -> u32 {
        self.metas.get(at as usize).map_or(0, |meta| meta.id)
    }

    pub(super) fn channel(&self) -> Channel {
        Channel::of(Arc::clone(&self.shared))
    }

    pub(super) fn weak(&self) -> Weak<SignalBlock<Shared>> {
        Arc::downgrade(&self.shared)
    }

    pub(super) fn new_promise(&self) -> (Promise<()>, Completion<()>) {
        promise_on(Arc::clone(self.shared.executor()))
    }

    /// Runs `work` on the channel's loop, `after` from now. `None` if the loop takes no more of it.
    pub(crate) fn schedule(
        &self,
        after: Duration,
        work: impl FnOnce() + Send + 'static,
    ) -> Option<Completion<()>> {
        match self.shared.roam() {
            Some(roam) => roam.timers()?.schedule(after, work).ok(),
            None => {
                let home = super::stage::home().or_else(EventLoop::current)?;
                home.schedule(after, work).ok()
            }
        }
    }

    #[inline]
    pub(super) fn push(&mut self, action: Action) {
        self.stack.push(action);
    }

    /// Handler `at` is about to be called; answers where what it will say begins.
    #[inline(always)]
    pub(super) fn begin_call(&mut self, at: usize, doing: Doing) -> usize {
        let base = self.stack.len();
        self.base = base as u32;
        self.running = at as u32;
        self.doing = doing;
        base
    }

    /// The event to be carried out when a handler passes one on. Inbound events go from first to last
    /// and operations from last to first, so only an event that an operation causes can make a circle.
    #[inline]
    pub(super) fn fired(&self, at: u32, event: InEvent) -> Action {
        match self.doing {
            Doing::Write | Doing::Out => Action::Return { at, event },
            _ => Action::In { at, event },
        }
    }

    /// Whether the running handler has said nothing yet that is still to be carried out.
    #[inline(always)]
    pub(super) fn is_first_word(&self) -> bool {
        self.stack.len() == self.base as usize
    }

    pub(super) fn never(&mut self, at: u32, event: u16) {
        if let Some(meta) = self.metas.get_mut(at as usize) {
            meta.mask &= !event;
            self.sum_up();
        }
    }

    /// The handlers have changed, or what they care about has.
    pub(super) fn sum_up(&mut self) {
        let masks = self.metas.iter().map(|meta| meta.mask);
        self.cares = masks.fold(0, |all, mask| all | mask);
        let kinds = self.metas.iter().map(|meta| meta.shape.blocking);
        self.blocking = kinds.max().unwrap_or(Blocking::Never);
    }

    /// Whether a handler nearer to the socket than `at` cares about `event`.
    #[inline]
    pub(super) fn is_watched(&self, at: u32, event: u16) -> bool {
        self.cares & event != 0 && self.is_watched_by_one(at, event)
    }

    #[inline(never)]
    fn is_watched_by_one(&self, at: u32, event: u16) -> bool {
        self.metas[..at as usize]
            .iter()
            .any(|meta| meta.mask & event != 0)
    }

    /// A write by handler `at`: straight into the queue where nobody stands between.
    pub(super) fn write(&mut self, at: u32, msg: Msg, promise: Option<Promise<()>>) {
        if self.is_first_word() && !self.is_watched(at, mask::WRITE) {
            self.write_head(msg, promise);
        } else {
            self.hand_on(at, msg, promise);
        }
    }

    pub(super) fn hand_on(&mut self, at: u32, msg: Msg, promise: Option<Promise<()>>) {
        self.in_flight += msg.size() + ENTRY_OVERHEAD;
        self.stack.push(Action::Write { at, msg, promise });
        self.look_at_marks();
    }

    /// Counts what a handler keeps for later.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), NetError> {
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
    pub(super) fn mirror(&mut self) {
        self.in_flight = self.shared.pending();
        self.low_enough = self.shared.is_writable();
    }

    /// Notes that a write has left the stack.
    pub(super) fn arrived(&mut self, msg: &Msg) {
        self.in_flight = self.in_flight.saturating_sub(msg.size() + ENTRY_OVERHEAD);
    }

    pub(super) fn out(&mut self, at: u32, op: OutOp) {
        if self.is_first_word() && !self.is_watched(at, op.bit()) {
            self.out_head(op);
        } else {
            self.stack.push(Action::Out { at, op });
        }
    }

    /// A flush by handler `at`.
    pub(super) fn flush(&mut self, at: u32) {
        if self.is_first_word() && !self.is_watched(at, mask::FLUSH) {
            self.flush_head();
        } else {
            let op = OutOp::Flush;
            self.stack.push(Action::Out { at, op });
        }
    }

    #[inline]
    pub(super) fn pending(&self) -> usize {
        self.queue.pending() + self.in_flight
    }

    #[inline]
    pub(super) fn is_writable(&self) -> bool {
        self.low_enough && self.user_flags == 0 && !self.closed && !self.ends()
    }

    pub(super) fn bytes_before_unwritable(&self) -> usize {
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
        let waiting =
            self.published | queued | self.in_flight | self.user_flags as usize | self.stack.len();
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
        asked || !self.stack.is_empty() || self.is_writable() != self.told_writable
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

    pub(super) fn forget_plan(&mut self) {
        if self.planned.is_some() {
            self.planned = None;
        }
    }
}

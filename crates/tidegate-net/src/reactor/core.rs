//! The reactor of one loop: its poller, the events to deliver, and the sources that they are for.
//!
//! One reactor serves pinned and roaming loops. [`Place`] says where its sources live, which is all
//! that differs here: their type, and whether those of a batch may wait for each other. A source is
//! taken out of its slot to handle an event, and is away until it is put back. What happens in
//! between is in `pinned`, where the loop's thread runs the source, and in `roaming`, where the
//! source moves into a task.
//!
//! # Invariants
//!
//! * A source handles one event at a time; readiness that comes meanwhile is kept in its slot.
//! * No readiness is dropped, unless its token is stale: then it is counted.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Clock, Dump};
use tidegate_loop::{Pinned, Roaming};

use super::batch::Batch;
use super::io_context::IoContext;
use super::polling::{PollOutcome, Polling};
use super::source::{IoHandle, IoSource, Next, refuse, watch};
use crate::events::{EventQueue, Slab, Taken};
use crate::source::Control;
use crate::sys::{BorrowedFd, Change, Readiness, Ready, Token};

/// Where the sources of a reactor live.
pub(crate) trait Place {
    /// The type of an event source.
    type Source: ?Sized + IoSource;
}

impl Place for Pinned {
    type Source = dyn IoSource;
}

impl Place for Roaming {
    type Source = dyn IoSource + Send;
}

/// The reactor of one loop.
pub(crate) struct Reactor<P: Place> {
    polling: Polling,
    queue: EventQueue,
    sources: Slab<Box<P::Source>>,
    batch: Batch,
}

impl<P: Place> Reactor<P> {
    /// Creates a reactor that shares no token with a reactor of a lower `generation`.
    pub(super) fn new(polling: Polling, generation: u32) -> Self {
        Self {
            polling,
            queue: EventQueue::new(),
            sources: Slab::new(generation),
            batch: Batch::default(),
        }
    }

    /// Returns the poller for the next reactor, and the generation at which its tokens start.
    pub(super) fn into_polling(self) -> (Polling, u32) {
        let generation = self.sources.next_first();
        (self.polling, generation)
    }

    pub(super) fn polling(&self) -> &Polling {
        &self.polling
    }

    /// Returns the number of sources, in their slots or away.
    pub(super) fn len(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of events to deliver, without polling.
    pub(super) fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Polls without waiting, unless events of the last poll are still to be delivered.
    pub(super) fn look(&mut self) -> PollOutcome {
        let Polling {
            poller, counters, ..
        } = &mut self.polling;
        let polled = self
            .queue
            .poll(&mut **poller, Some(Duration::ZERO), counters);
        self.polled(polled)
    }

    /// Waits for events, a wake-up or nanosecond `deadline` of `clock`. Does not wait if events are
    /// ready.
    pub(super) fn wait(&mut self, clock: &Clock, deadline: Option<u64>) -> PollOutcome {
        if self.queue.len() > 0 {
            return self.look();
        }
        let Polling {
            poller,
            waker,
            counters,
            ..
        } = &mut self.polling;
        let queue = &mut self.queue;
        let mut polled = Ok(0);
        clock.sleep_until(waker, deadline, |timeout| {
            polled = queue.poll(&mut **poller, timeout, counters);
        });
        let outcome = self.polled(polled);
        self.polling.waited(clock);
        outcome
    }

    #[inline]
    fn polled(&mut self, polled: io::Result<usize>) -> PollOutcome {
        self.polling.polled(polled, self.queue.take_selected())
    }

    /// Returns the events of user-defined sources that the last polls have found.
    pub(super) fn take_selected(&mut self) -> Vec<Ready> {
        self.polling.poller.take_selected()
    }

    /// Reserves a slot for a source that is about to be created.
    pub(super) fn reserve(&mut self) -> Token {
        self.sources.reserve()
    }

    /// Makes the poller watch `source`, and puts it into its reserved slot.
    ///
    /// # Errors
    ///
    /// The error of the poller, with the source, which is notified by [`Unwatched::into_error`].
    pub(super) fn register(
        &mut self,
        token: Token,
        mut source: Box<P::Source>,
    ) -> Result<(), Unwatched<P>> {
        let watched = match source.io() {
            Some(io) => self.polling.poller.register(io, token),
            None => Ok(()),
        };
        if let Err(why) = watched {
            self.sources.remove(token);
            return Err(Unwatched { why, source });
        }
        let _ = self.sources.put(token, source);
        self.count();
        Ok(())
    }

    /// Returns the next event to deliver. `io_context` is `None` while sources are away that could
    /// use it.
    #[inline]
    pub(super) fn next(&mut self, io_context: Option<&mut IoContext>) -> Option<Ready> {
        if self.batch.is_over() {
            self.begin_batch(io_context);
        }
        self.batch.deliver_one();
        self.queue.next()
    }

    #[inline(never)]
    fn begin_batch(&mut self, io_context: Option<&mut IoContext>) {
        self.batch.begin(&self.queue, &mut self.sources, io_context);
    }

    /// Returns the next event to deliver, if it belongs to the same batch as the last one.
    #[inline]
    pub(super) fn peek_in_batch(&self) -> Option<Ready> {
        match self.batch.is_over() && self.queue.polled_len() > 0 {
            true => None,
            false => self.queue.peek(),
        }
    }

    /// Returns the source of `token`, if it is in its slot.
    #[inline]
    pub(super) fn peek(&self, token: Token) -> Option<&P::Source> {
        self.sources.peek(token).map(|source| &**source)
    }

    /// Takes the source of an event out of its slot. A source that is away gets the readiness when
    /// it comes back; an event for a source that is gone is counted.
    #[inline]
    pub(super) fn take(&mut self, ready: Ready) -> Option<Box<P::Source>> {
        match self.sources.take(ready.token, ready.readiness) {
            Taken::Present(source) => return Some(source),
            Taken::Away => {}
            Taken::Stale => self.polling.counters.stale.add(1),
        }
        None
    }

    /// Puts a source back and handles what it wants next. Returns the source if it leaves, to be
    /// dropped by the caller.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        token: Token,
        source: Box<P::Source>,
        next: Next,
    ) -> Option<Box<P::Source>> {
        if next == Next::Leave {
            self.remove(token);
            return Some(source);
        }
        match self.sources.put(token, source) {
            Ok(missed) => {
                if next != Next::Stay || !missed.is_none() {
                    self.queue_again(token, next, missed);
                }
                None
            }
            Err(source) => Some(source),
        }
    }

    /// Takes a source that is in its slot out, for a moment in which it handles no event.
    pub(super) fn borrow_source(&mut self, token: Token) -> Option<Box<P::Source>> {
        match self.sources.take(token, Readiness::NONE) {
            Taken::Present(source) => Some(source),
            Taken::Away | Taken::Stale => None,
        }
    }

    /// Returns a source that is in its slot.
    pub(super) fn source_mut(&mut self, token: Token) -> Option<&mut P::Source> {
        self.sources.get_mut(token).map(|source| &mut **source)
    }

    fn queue_again(&mut self, token: Token, next: Next, missed: Readiness) {
        let mut readiness = missed;
        if let Next::Again(more) = next {
            readiness |= more;
            self.polling.counters.requeued.add(1);
        }
        if let Next::Watch(yes) = next
            && let Some(source) = self.sources.get_mut(token)
        {
            watch(&mut *self.polling.poller, &mut **source, token, yes);
            readiness |= Readiness::REQUESTS;
        }
        self.queue.push_again(Ready { token, readiness });
    }

    /// Delivers `ready` after the next poll.
    pub(super) fn push_again(&mut self, ready: Ready) {
        self.queue.push_again(ready);
    }

    /// Queues `readiness` for `token`, and makes one more queued event due before the next poll.
    pub(super) fn push_due(&mut self, token: Token, readiness: Readiness) {
        self.queue.push_due(token, readiness);
    }

    /// Frees the slot of a source.
    pub(super) fn remove(&mut self, token: Token) {
        self.sources.remove(token);
        self.count();
    }

    fn count(&self) {
        let registered = self.len() as u64;
        self.polling.counters.registered.set(registered);
    }

    /// Returns `true` if `token` names a source, in its slot or away.
    pub(super) fn contains(&mut self, token: Token) -> bool {
        self.sources.slot_exists(token)
    }

    /// Returns the tokens of all sources, in their slots or away.
    pub(super) fn tokens(&self) -> Vec<Token> {
        self.sources.tokens()
    }

    /// Returns the tokens of the sources that are away.
    pub(super) fn away(&self) -> Vec<Token> {
        let mut tokens = self.sources.tokens();
        tokens.retain(|token| self.sources.peek(*token).is_none());
        tokens
    }

    /// Returns the handles of the sources that are in their slots and have one.
    pub(super) fn handles(&self) -> Vec<Arc<dyn IoHandle>> {
        let present = self.sources.present();
        present.filter_map(|source| source.handle()).collect()
    }

    /// Adds the sources to a dump of the reactor. `away` describes one that is not in its slot.
    #[cold]
    pub(super) fn dump(&self, dump: Dump, away: impl Fn(Token, &str) -> Dump) -> Dump {
        let sources = self.sources.iter().map(|(token, source)| {
            let name = format!("#{}", token.slot());
            match source {
                Some(source) => source.dump(&name),
                None => away(token, &name),
            }
        });
        dump.fact("events_to_deliver", self.queue.len())
            .list("sources", self.len(), sources)
    }

    /// Returns the names of the parts of a source in its slot.
    pub(super) fn names(&mut self, token: Token) -> Vec<String> {
        let source = self.sources.get_mut(token);
        source.map_or_else(Vec::new, |source| source.names())
    }
}

impl<P: Place> Control for Reactor<P> {
    fn control(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        change: Change,
    ) -> io::Result<()> {
        self.polling.poller.control(descriptor, token, change)
    }
}

/// A source that the poller cannot watch, and the error.
pub(super) struct Unwatched<P: Place> {
    why: io::Error,
    source: Box<P::Source>,
}

impl<P: Place> Unwatched<P> {
    /// Notifies the source and drops it; called while nothing is borrowed. Returns the error.
    pub(super) fn into_error(self) -> io::Error {
        refuse(self.source, &self.why);
        self.why
    }
}

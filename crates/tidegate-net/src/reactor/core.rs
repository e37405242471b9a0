//! The reactor of one loop: its poller, the events that wait, and the sources that they are for.
//!
//! One reactor serves pinned and roaming loops. [`Place`] says where its sources live, which is all
//! that differs here: what type they have, and whether those of a batch may wait for each other. How a
//! source is told that was taken out, and how it comes back, is the business of the place: of
//! `pinned`, where the loop's thread tells it, or of `roaming`, where a task takes it along.
//!
//! # Invariants
//!
//! * A source is told of one thing at a time; what comes meanwhile waits in its slot.
//! * Nothing ready is dropped, unless its token is stale: then it is counted.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::Clock;
use tidegate_loop::{Pinned, Roaming};

use super::batch::Batch;
use super::desk::Desk;
use super::polling::{Polled, Polling};
use super::source::{EventSource, Next, SourceHandle, refuse, watch};
use crate::events::{EventQueue, Slab, Taken};
use crate::sys::{Readiness, Ready, Token};

/// Where the sources of a reactor live.
pub(crate) trait Place {
    /// An event source there.
    type Source: ?Sized + EventSource;

    /// Whether one thread tells all sources, so that those of a batch may wait for each other.
    const ONE_THREAD: bool;
}

impl Place for Pinned {
    type Source = dyn EventSource;
    const ONE_THREAD: bool = true;
}

impl Place for Roaming {
    type Source = dyn EventSource + Send;
    const ONE_THREAD: bool = false;
}

/// The reactor of one loop.
pub(crate) struct Reactor<P: Place> {
    polling: Polling,
    queue: EventQueue,
    sources: Slab<Box<P::Source>>,
    batch: Batch,
    /// Sources that were away when the poller began anew, and have not come back since.
    strangers: Vec<Token>,
}

impl<P: Place> Reactor<P> {
    /// A reactor none of whose tokens is one of a reactor with a lower `generation`.
    pub(super) fn new(polling: Polling, generation: u32) -> Self {
        Self {
            polling,
            queue: EventQueue::new(),
            sources: Slab::new(generation),
            batch: Batch::new(),
            strangers: Vec::new(),
        }
    }

    /// Returns what the poller is to the next reactor, and the generation of its tokens.
    pub(super) fn into_polling(self) -> (Polling, u32) {
        let generation = self.sources.next_first();
        (self.polling, generation)
    }

    pub(super) fn polling(&self) -> &Polling {
        &self.polling
    }

    /// Returns how many sources there are, at home or away.
    pub(super) fn len(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many events there are to tell, without asking the poller.
    pub(super) fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Asks the poller, without waiting, unless something that it said before is still to tell.
    pub(super) fn look(&mut self) -> Polled {
        let Polling {
            poller, counters, ..
        } = &mut self.polling;
        let polled = self
            .queue
            .poll(&mut **poller, Some(Duration::ZERO), counters);
        self.polled(polled)
    }

    /// Waits for events, a wakeup or nanosecond `deadline` of `clock`; does not wait if something is
    /// ready.
    pub(super) fn wait(&mut self, clock: &Clock, deadline: Option<u64>) -> Polled {
        if self.queue.len() > 0 {
            let polled = self.look();
            return self.waited(polled, clock, deadline);
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
        let polled = self.polled(polled);
        self.waited(polled, clock, deadline)
    }

    #[inline]
    fn polled(&mut self, polled: io::Result<usize>) -> Polled {
        let Polling { care, counters, .. } = &mut self.polling;
        let mut lost = Vec::new();
        let ready = match polled {
            Ok(ready) => {
                care.worked();
                ready
            }
            Err(why) => {
                if care.failed(&why, counters) {
                    lost = self.renew();
                }
                0
            }
        };
        Polled { ready, lost }
    }

    #[inline]
    fn waited(&mut self, mut polled: Polled, clock: &Clock, deadline: Option<u64>) -> Polled {
        let Polling { care, waker, .. } = &mut self.polling;
        if care.waited(polled.ready > 0, &**waker, clock, deadline) {
            polled.lost.append(&mut self.renew());
        }
        polled
    }

    /// Puts a fresh poller in the place of one that fails or spins; if there is none to be had the
    /// old one goes on. Sources at home are moved at once, those that are away when they come back.
    /// Returns the ones that could not be moved.
    #[cold]
    fn renew(&mut self) -> Vec<Token> {
        let homes = self.sources.homes_mut();
        let watched = homes.filter_map(|(token, source)| Some((token, source.io()?)));
        let Polling {
            poller, counters, ..
        } = &mut self.polling;
        let Ok(lost) = poller.renew(watched.collect()) else {
            return Vec::new();
        };
        counters.fresh_pollers.add(1);
        self.strangers = self.away();
        self.forget_old_poller();
        lost
    }

    fn forget_old_poller(&mut self) {
        if self.strangers.is_empty() {
            self.polling.poller.forget();
        }
    }

    /// A source has come back, or has left for good while it was away. If the poller began anew
    /// meanwhile, has the fresh one watch it; false if that cannot be.
    #[inline]
    pub(super) fn adopt(&mut self, token: Token, source: Option<&mut P::Source>) -> bool {
        self.strangers.is_empty() || self.adopt_stranger(token, source)
    }

    #[cold]
    fn adopt_stranger(&mut self, token: Token, source: Option<&mut P::Source>) -> bool {
        let Some(at) = self.strangers.iter().position(|one| *one == token) else {
            return true;
        };
        self.strangers.swap_remove(at);
        let adopted = match source.and_then(EventSource::io) {
            Some(io) => self.polling.poller.adopt(io, token).is_ok(),
            None => true,
        };
        self.forget_old_poller();
        adopted
    }

    /// Reserves a place for a source that is about to be made.
    pub(super) fn reserve(&mut self) -> Token {
        self.sources.reserve()
    }

    /// Has the poller watch `source`, and puts it into the place that was reserved for it.
    ///
    /// # Errors
    ///
    /// What the poller says, with the source, which is told so with [`Unwatched::tell`].
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

    /// Returns the next event to tell. `desk` is there unless sources are away that could use it.
    #[inline]
    pub(super) fn next(&mut self, desk: Option<&mut Desk>) -> Option<Ready> {
        if self.batch.is_over() {
            self.begin_batch(desk);
        }
        self.batch.tell_one();
        self.queue.next()
    }

    #[inline(never)]
    fn begin_batch(&mut self, desk: Option<&mut Desk>) {
        self.batch
            .begin(&mut self.queue, &mut self.sources, desk, P::ONE_THREAD);
    }

    /// Ends a task that told several. Returns bytes to be dropped where nothing is borrowed.
    #[inline]
    pub(super) fn end_batch(&mut self, desk: &mut Desk) -> Vec<Bytes> {
        self.batch.end(&mut self.queue, &mut self.sources, desk);
        desk.batch.take_spent()
    }

    /// Takes the source of an event out of its slot. One that is out is told when it is back; one that
    /// is gone is counted.
    #[inline]
    pub(super) fn take(&mut self, ready: Ready) -> Option<Box<P::Source>> {
        match self.sources.take(ready.token, ready.readiness) {
            Taken::Home(source) => return Some(source),
            Taken::Away => {}
            Taken::Stale => self.polling.counters.stale.add(1),
        }
        None
    }

    /// Takes a source back that wants `next`. Returns it if it leaves, to be dropped by the caller.
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
                if next == Next::SendLate {
                    self.batch.defer(token);
                }
                if !matches!(next, Next::Stay | Next::SendLate) || !missed.is_none() {
                    self.queue_again(token, next, missed);
                }
                None
            }
            Err(source) => Some(source),
        }
    }

    fn queue_again(&mut self, token: Token, next: Next, missed: Readiness) {
        let mut readiness = missed;
        if let Next::Again(more) = next {
            readiness |= more;
            self.polling.counters.again.add(1);
        }
        if let Next::Watch(yes) = next
            && let Some(source) = self.sources.get_mut(token)
        {
            watch(&mut *self.polling.poller, &mut **source, token, yes);
            readiness |= Readiness::MAIL;
        }
        self.queue.push_again(Ready { token, readiness });
    }

    /// Tells `ready` after the next poll.
    pub(super) fn push_again(&mut self, ready: Ready) {
        self.queue.push_again(ready);
    }

    /// Tells `token` of `readiness` before the next poll.
    pub(super) fn push_due(&mut self, token: Token, readiness: Readiness) {
        self.queue.push_due(token, readiness);
    }

    /// Frees the place of a source.
    pub(super) fn remove(&mut self, token: Token) {
        self.sources.remove(token);
        self.count();
    }

    fn count(&self) {
        let registered = self.len() as u64;
        self.polling.counters.registered.set(registered);
    }

    /// Returns `true` if `token` names a source, at home or away.
    pub(super) fn contains(&mut self, token: Token) -> bool {
        self.sources.slot_exists(token)
    }

    /// Returns the tokens of all sources, at home or away.
    pub(super) fn tokens(&self) -> Vec<Token> {
        self.sources.tokens()
    }

    /// Returns the tokens of the sources that are away.
    pub(super) fn away(&self) -> Vec<Token> {
        let mut tokens = self.sources.tokens();
        tokens.retain(|token| self.sources.peek(*token).is_none());
        tokens
    }

    /// Returns the handles of the sources that are at home and have one.
    pub(super) fn handles(&self) -> Vec<Arc<dyn SourceHandle>> {
        let homes = self.sources.homes();
        homes.filter_map(|source| source.handle()).collect()
    }

    /// Returns the names that a source at home goes by.
    pub(super) fn names(&mut self, token: Token) -> Vec<String> {
        let source = self.sources.get_mut(token);
        source.map_or_else(Vec::new, |source| source.names())
    }
}

/// A source that the poller does not watch, and why.
pub(super) struct Unwatched<P: Place> {
    why: io::Error,
    source: Box<P::Source>,
}

impl<P: Place> Unwatched<P> {
    /// Tells the source, and drops it; with nothing borrowed. Returns the reason.
    pub(super) fn tell(self) -> io::Error {
        refuse(self.source, &self.why);
        self.why
    }
}

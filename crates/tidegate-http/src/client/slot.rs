//! The place where a request and its connection meet.
//!
//! A request is plain bytes in the write queue of its channel: no handler takes part, so a handler
//! of the same loop writes them directly. What receives the response is put into the slot of the
//! connection before the first byte is written. The handler of the connection takes it out when the
//! next event arrives.
//!
//! A request of the connection's own loop takes no lock: its receiver goes into a cell which only that
//! loop's thread reaches. A request of another thread goes through a lock.
//!
//! # Invariants
//!
//! * A slot has at most one exchange, from `begin` to `end`. A closed slot never has one again.
//! * The request of an exchange is complete, or nothing is put into the pool: `end` says which.
//! * The numbers of the last exchanges are words of their own: an old one says nothing about a new
//!   exchange, so that no word has to be reset.
//! * No user code runs under the lock.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use bytes::{Bytes, BytesMut};
use tidegate_core::internal::{FastClock, HomeCell, lock};
use tidegate_net::{Channel, Neighbour};

use super::counts::Counts;
use super::failure::Terms;
use super::limits::ConnectionLimits;
use super::pool::{Lease, Pool};
use crate::codec::{BodyEncoder, EncodeError, Method};

/// A connection: its channel, and the slot of its handler. A clone is one reference to both.
pub(super) struct Link<R: Send + 'static>(Arc<LinkParts<R>>);

pub(super) struct LinkParts<R: Send + 'static> {
    pub(super) channel: Channel,
    pub(super) slot: Arc<Slot<R>>,
}

impl<R: Send + 'static> Link<R> {
    pub(super) fn new(channel: Channel, slot: Arc<Slot<R>>) -> Self {
        Self(Arc::new(LinkParts { channel, slot }))
    }

    /// Returns the link of a channel whose handler has stored its slot there.
    pub(super) fn of(channel: &Channel) -> Option<Self> {
        let slot = channel.attribute::<Arc<Slot<R>>>()?;
        Some(Self::new(channel.clone(), slot))
    }

    /// Writes a part of the body of a request. Returns whether the connection takes more for now.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the body becomes longer than declared. The part is not sent.
    pub(super) fn write_part(
        &self,
        encoder: &mut BodyEncoder,
        part: Bytes,
    ) -> Result<bool, EncodeError> {
        let mut line = BytesMut::new();
        encoder.data_prefix(&mut line, part.len())?;
        let connection = Neighbour::of(&self.channel);
        if part.is_empty() {
            // An empty chunk would end the body.
        } else if line.is_empty() {
            connection.write_and_flush(part);
        } else {
            // The chunk ends at once, so that the server can handle it.
            encoder.data_suffix(&mut &mut [0_u8; 2][..]);
            connection.write(line.freeze());
            connection.write(part);
            connection.write_and_flush(Bytes::from_static(b"\r\n"));
        }
        Ok(connection.is_writable())
    }

    /// Writes bytes and sends everything written so far.
    pub(super) fn write_and_flush(&self, bytes: Bytes) {
        Neighbour::of(&self.channel).write_and_flush(bytes);
    }

    /// Closes a new connection that is not used. Its lease ends after it, so that the limit of
    /// connections is exact.
    pub(super) fn close_with(&self, lease: Lease<Self>) {
        self.channel.close().on_complete(move |_| drop(lease));
    }
}

impl<R: Send + 'static> Clone for Link<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Send + 'static> Deref for Link<R> {
    type Target = LinkParts<R>;

    fn deref(&self) -> &LinkParts<R> {
        &self.0
    }
}

/// An event for the handler of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    /// The receiver of this exchange takes more of the body.
    Resume(u64),
    /// The caller of this exchange has left.
    Cancel(u64),
}

/// An event for the handler of an idle connection: it leaves its loop. Dropped if the connection is
/// ending.
pub(super) struct Depart<R: Send + 'static> {
    then: Box<dyn FnOnce(Departure<R>) + Send>,
}

impl<R: Send + 'static> Depart<R> {
    pub(super) fn new(then: impl FnOnce(Departure<R>) + Send + 'static) -> Self {
        Self {
            then: Box::new(then),
        }
    }

    pub(super) fn with(self, departure: Departure<R>) {
        (self.then)(departure);
    }
}

/// A connection that leaves its loop. Its handler is being removed.
pub(super) struct Departure<R: Send + 'static> {
    pub(super) channel: Channel,
    pub(super) lease: Lease<Link<R>>,
    pub(super) record: Record,
}

/// What an idle connection remembers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) limits: ConnectionLimits,
    /// How many requests were sent, and when the first was.
    pub(super) served: u64,
    pub(super) since: u64,
    /// When it ends if it stays idle, in nanoseconds.
    pub(super) idle_until: u64,
}

/// A request that begins, and what receives its response.
pub(super) struct Begun<R: Send + 'static> {
    /// The stream of the connection on which it runs. Not zero.
    pub(super) id: u64,
    /// `HEAD` or `CONNECT`, whose responses differ from others, or `GET` in place of any other.
    pub(super) method: Method<'static>,
    pub(super) receiver: R,
    /// For the error, if it fails.
    pub(super) terms: Terms,
    /// The lease of a connection that was just made.
    pub(super) lease: Option<Lease<Link<R>>>,
    /// It comes from a thread that is no loop of the group, which looks for connections elsewhere.
    pub(super) shared: bool,
}

/// What an upstream tells each of its connections, so that an exchange needs no handle to it.
pub(super) struct Owner<R: Send + 'static> {
    /// What errors call a request, unless the request has a label of its own.
    pub(super) label: Arc<str>,
    pub(super) counts: Arc<Counts>,
    pub(super) clock: Option<FastClock>,
    /// As long as a connection is open, its lease holds the pool.
    pub(super) pool: Weak<Pool<Link<R>>>,
}

/// The slot of one connection.
pub(super) struct Slot<R: Send + 'static> {
    /// The number of the exchange in progress, or zero. Written by the owner of the connection when it
    /// begins, and by its handler when it ends.
    id: AtomicU64,
    /// The number of the last exchange of a handler. Only the owner of the connection touches it.
    last: AtomicU64,
    /// The upstream of the connection, if it has one.
    owner: OnceLock<Arc<Owner<R>>>,
    /// The exchange that the connection has not taken yet: of its own loop, or of another thread.
    begun: HomeCell<RefCell<Option<Begun<R>>>>,
    elsewhere: Mutex<Option<Box<Begun<R>>>>,
    /// There may be one of another thread. Changes under the lock.
    has_elsewhere: AtomicBool,
    /// When the request began or, once it is complete, when that was.
    since: AtomicU64,
    /// The number of the last exchange whose request was written completely.
    complete: AtomicU64,
    /// The number of the last exchange of whose request the rest is not wanted.
    stopped: AtomicU64,
    /// The number of the last exchange of which a part of a response was received, and not the final
    /// head.
    answered: AtomicU64,
    /// Set on the loop of the connection, under the lock.
    closed: AtomicBool,
}

/// How far the request of an exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) complete: bool,
    /// When it began or was complete, in nanoseconds.
    pub(super) since: u64,
}

impl<R: Send + 'static> Slot<R> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            id: AtomicU64::new(0),
            last: AtomicU64::new(0),
            owner: OnceLock::new(),
            begun: HomeCell::default(),
            elsewhere: Mutex::new(None),
            has_elsewhere: AtomicBool::new(false),
            since: AtomicU64::new(0),
            complete: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// Makes this thread, which is that of the connection's loop, the one that needs no lock.
    pub(super) fn settle(&self) {
        let _ = self.begun.get();
    }

    /// Returns `true` on the loop of the connection.
    #[inline]
    pub(super) fn is_home(&self) -> bool {
        self.begun.at_home().is_some()
    }

    /// Returns a number that no earlier exchange of this connection has, and that is not zero. Called by
    /// whoever has made the connection, or has taken it out of the pool, so there is one caller at a time.
    pub(super) fn new_id(&self) -> u64 {
        let id = self.last.load(Ordering::Relaxed) + 1;
        self.last.store(id, Ordering::Relaxed);
        id
    }

    /// Sets the upstream, once: an upstream has connections of its own.
    #[inline]
    pub(super) fn set_owner(&self, owner: &Arc<Owner<R>>) {
        self.owner.get_or_init(|| Arc::clone(owner));
    }

    /// Returns the upstream.
    #[inline]
    pub(super) fn owner(&self) -> Option<&Owner<R>> {
        self.owner.get().map(|owner| &**owner)
    }

    /// Returns the label of the upstream, which may be empty.
    pub(super) fn label(&self) -> &str {
        self.owner().map_or("", |owner| &owner.label)
    }

    /// Begins an exchange. Its request is written after this. `complete`: in one piece.
    ///
    /// # Errors
    ///
    /// The exchange, if the connection is closed or busy.
    pub(super) fn begin(&self, begun: Begun<R>, complete: bool, now: u64) -> Result<(), Begun<R>> {
        if let Some(cell) = self.begun.at_home() {
            if self.is_closed() || self.id() != 0 {
                return Err(begun);
            }
            self.note_begun(begun.id, complete, now);
            *cell.borrow_mut() = Some(begun);
            return Ok(());
        }
        let mut elsewhere = lock(&self.elsewhere);
        if self.is_closed() || self.id() != 0 {
            return Err(begun);
        }
        self.note_begun(begun.id, complete, now);
        *elsewhere = Some(Box::new(begun));
        // Relaxed: the loop learns of the exchange by its bytes, which are written after this.
        self.has_elsewhere.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn note_begun(&self, id: u64, complete: bool, now: u64) {
        self.id.store(id, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
        if complete {
            self.complete.store(id, Ordering::Relaxed);
        }
    }

    /// Puts the exchange that has begun into `place`, which is empty, once. Returns `false` if there is
    /// none. Called on the loop of the connection.
    pub(super) fn take(&self, place: &mut Option<Begun<R>>) -> bool {
        if let Some(cell) = self.begun.at_home() {
            // It is large: this moves it once.
            std::mem::swap(&mut *cell.borrow_mut(), place);
        }
        if place.is_none() {
            *place = self.take_elsewhere().map(|begun| *begun);
        }
        place.is_some()
    }

    /// Returns the exchange that another thread has begun.
    fn take_elsewhere(&self) -> Option<Box<Begun<R>>> {
        if !self.has_elsewhere.load(Ordering::Relaxed) {
            return None;
        }
        let mut elsewhere = lock(&self.elsewhere);
        self.has_elsewhere.store(false, Ordering::Relaxed);
        elsewhere.take()
    }

    /// Notes that the request of exchange `id` is complete.
    pub(super) fn complete(&self, id: u64, now: u64) {
        if self.id() == id {
            self.since.store(now, Ordering::Relaxed);
            // ORDERING: Release pairs with the Acquire in `is_complete`: the connection sees the end of
            // the request in its channel before the next request.
            self.complete.store(id, Ordering::Release);
        }
    }

    /// Returns `true` if the connection takes no more of the request of exchange `id`.
    pub(super) fn is_stopped(&self, id: u64) -> bool {
        self.is_closed() || self.stopped.load(Ordering::Relaxed) == id || self.id() != id
    }

    /// Notes that a part of a response was received, before its final head.
    #[cold]
    pub(super) fn answer_began(&self) {
        self.answered.store(self.id(), Ordering::Relaxed);
    }

    /// Returns `true` if a part of a response to exchange `id` was noted.
    pub(super) fn has_answer(&self, id: u64) -> bool {
        self.answered.load(Ordering::Relaxed) == id
    }

    /// Returns `true` if the connection takes no more exchanges.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn progress(&self) -> Progress {
        Progress {
            complete: self.is_complete(),
            since: self.since.load(Ordering::Relaxed),
        }
    }

    /// Stops the request, because its response has ended, or refuses it. Returns `true` if it is
    /// complete. A request that becomes complete at the same time may count as one that is not.
    pub(super) fn stop(&self) -> bool {
        self.stopped.store(self.id(), Ordering::Relaxed);
        self.is_complete()
    }

    /// Ends the exchange, so that the next one can begin. Called before the connection goes to the pool,
    /// by which another thread that uses it next sees this.
    pub(super) fn end(&self) {
        self.id.store(0, Ordering::Relaxed);
    }

    /// Closes the slot. Returns the exchange that the connection has not taken. Called on the loop of the
    /// connection.
    pub(super) fn close(&self) -> Option<Begun<R>> {
        let mut elsewhere = lock(&self.elsewhere);
        self.closed.store(true, Ordering::Relaxed);
        let late = elsewhere.take();
        drop(elsewhere);
        late.map(|late| *late)
            .or_else(|| self.begun.at_home()?.take())
    }

    fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    fn is_complete(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `complete`.
        self.complete.load(Ordering::Acquire) == self.id()
    }
}

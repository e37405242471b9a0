//! State that the handles of a channel and its loop share.
//!
//! Handles queue requests and raise one signal for them, which the loop never refuses. The loop
//! takes the requests out in order. Bytes count as pending from the moment that their write is
//! queued.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::{SignalBlock, discard_all, lock};
use tidegate_core::{Executor, Unhandled};
use tidegate_promise::{Completion, Failure, Promise, SharedCompletion};

use super::channel_request::{ChannelRequest, refuse};
use super::end::End;
use super::event::InEvent;
use super::home::{Home, WaitHome};
use super::options::ChannelOptions;
use super::peer::Peer;
use super::pending::Pending;
use super::server_connections::ServerConnections;
use super::server_memory::Charge;
use super::spare_requests;
use super::waiters::Waiters;
use super::write_queue::{ENTRY_OVERHEAD, WaterMarks};
use crate::errors::NetError;
use crate::message::Msg;
use crate::reactor::RoamingShared;
use crate::sys::Token;

/// Bits of the field `flags`.
pub(super) mod flag {
    /// The loop watches the socket.
    pub(in crate::channel) const REGISTERED: u8 = 1;
    /// The handlers were notified that their server is draining.
    pub(in crate::channel) const DRAINED: u8 = 2;
    /// A write without a promise was refused, the handlers are notified, and none was accepted
    /// since.
    pub(in crate::channel) const OVERFULL_REPORTED: u8 = 4;
    /// An end was requested: no more writes are accepted.
    pub(in crate::channel) const ENDS: u8 = 8;
    /// The handlers were notified that a drain of their server was announced.
    pub(in crate::channel) const ANNOUNCED: u8 = 16;
    /// The loop is to be told that a writer has seen the channel unwritable.
    pub(in crate::channel) const SEEN_UNWRITABLE: u8 = 32;
    /// A write of a handle without a promise was refused, and no flush has reported it yet.
    pub(in crate::channel) const LOST: u8 = 64;
}

/// The shared state of one channel.
pub(crate) struct Shared {
    /// The token of its registration; 0 until then.
    token: AtomicU64,
    executor: Arc<dyn Executor>,
    /// The link to its loop, if that is a roaming one.
    roam: Option<Arc<WaitHome>>,
    options: Arc<ChannelOptions>,
    peer: Peer,
    local: Option<SocketAddr>,
    origin: Option<Arc<ServerConnections>>,
    /// Includes the message that the channel has taken from a task of its loop and that its handlers
    /// did not get yet.
    pub(super) pending: Pending,
    /// Requests are queued. Written under the lock.
    pub(super) has_requests: AtomicBool,
    writable: AtomicBool,
    active: AtomicBool,
    /// Further state, as bits.
    pub(super) flags: AtomicU8,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    requests: Vec<ChannelRequest>,
    end: End,
    rare: Option<Box<Rare>>,
}

/// A value of the user; `None` once it was taken. Cloning and dropping it is user code, which must
/// not block the channel, so it has a lock of its own.
pub(super) type Attribute = Arc<Mutex<Option<Box<dyn Any + Send>>>>;

/// State that most channels do not need.
#[derive(Default)]
struct Rare {
    attributes: HashMap<TypeId, Attribute>,
    /// Promises that succeed when the channel is writable.
    writers: Waiters,
    /// Promises that succeed when the sending half is closed.
    output_waiters: Waiters,
    /// The timer that limits the wait until everything is sent.
    deadline: Option<Completion<()>>,
    /// What the channel counts for, if its server has a memory cap.
    charge: Option<Charge>,
}

impl Inner {
    fn take_writers(&mut self) -> Vec<Promise<()>> {
        let rare = self.rare.as_deref_mut();
        rare.map(|rare| rare.writers.take()).unwrap_or_default()
    }

    fn take_halves(&mut self) -> Vec<Promise<()>> {
        let rare = self.rare.as_deref_mut();
        rare.map(|rare| rare.output_waiters.take())
            .unwrap_or_default()
    }

    fn charge(&mut self) -> Option<&mut Charge> {
        self.rare.as_deref_mut()?.charge.as_mut()
    }

    fn take_deadline(&mut self) -> Option<Completion<()>> {
        self.rare.as_deref_mut()?.deadline.take()
    }
}

impl Shared {
    pub(crate) fn new(
        home: Home,
        options: Arc<ChannelOptions>,
        (local, peer): (Option<SocketAddr>, Peer),
        origin: Option<Arc<ServerConnections>>,
    ) -> Arc<SignalBlock<Self>> {
        let Home { mut executor, roam } = home;
        let roam = roam.map(|roam| WaitHome::new(Arc::clone(&executor), roam));
        if let Some(home) = &roam {
            executor = Arc::clone(home) as _;
        }
        let block = SignalBlock::new(Self {
            token: AtomicU64::new(0),
            executor,
            roam,
            options,
            peer,
            local,
            origin,
            pending: Pending::default(),
            has_requests: AtomicBool::new(false),
            writable: AtomicBool::new(true),
            active: AtomicBool::new(false),
            flags: AtomicU8::new(flag::REGISTERED),
            inner: Mutex::default(),
        });
        Self::begin_charge(&block);
        block
    }

    pub(crate) fn executor(&self) -> &Arc<dyn Executor> {
        &self.executor
    }

    /// Returns `true` if the channel is on a roaming loop.
    pub(crate) fn roams(&self) -> bool {
        self.roam.is_some()
    }

    pub(crate) fn roam(&self) -> Option<&Arc<RoamingShared>> {
        self.roam.as_ref().map(|home| home.roam())
    }

    /// Returns the place of the channel in the wait record, if its loop is a roaming one.
    pub(crate) fn place(&self) -> Option<ExecutorId> {
        self.roam.as_ref().map(|home| home.place())
    }

    pub(crate) fn options(&self) -> Arc<ChannelOptions> {
        Arc::clone(&self.options)
    }

    pub(crate) fn marks(&self) -> WaterMarks {
        self.options.marks
    }

    pub(crate) fn cap(&self) -> usize {
        self.options.marks.cap()
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.local
    }

    pub(crate) fn origin(&self) -> Option<&Arc<ServerConnections>> {
        self.origin.as_ref()
    }

    /// Returns the place of [`Shared::origin`] in memory.
    pub(super) fn origin_slot(&self) -> &Option<Arc<ServerConnections>> {
        &self.origin
    }

    pub(crate) fn set_token(&self, token: Token) {
        self.token.store(token.bits(), Ordering::Relaxed);
    }

    pub(crate) fn token(&self) -> Token {
        Token::from_bits(self.token.load(Ordering::Relaxed))
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    pub(crate) fn set_active(&self, yes: bool) {
        self.active.store(yes, Ordering::Relaxed);
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & flag::REGISTERED != 0 && self.is_active()
    }

    pub(crate) fn set_registered(&self, yes: bool) {
        self.set_flag(flag::REGISTERED, yes);
    }

    /// Records that the channel ends and accepts no more writes.
    pub(crate) fn set_ends(&self) {
        self.set_flag(flag::ENDS, true);
    }

    /// Returns `true` if the channel accepts no more writes: it is closed, or will be when
    /// everything is sent.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & flag::ENDS != 0 || self.is_closed()
    }

    /// Sets or clears a bit of `flags`. Returns `true` if it was set before.
    pub(super) fn set_flag(&self, what: u8, yes: bool) -> bool {
        let before = match yes {
            true => self.flags.fetch_or(what, Ordering::Relaxed),
            false => self.flags.fetch_and(!what, Ordering::Relaxed),
        };
        before & what != 0
    }

    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.pending.get()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Relaxed) && self.pending() <= self.options.marks.high()
    }

    /// Like `is_writable`, apart from writes that the loop has not taken yet.
    pub(super) fn has_room_on_loop(&self) -> bool {
        self.writable.load(Ordering::Relaxed) && self.pending.on_loop() <= self.options.marks.high()
    }

    /// Returns `true` if everything was sent at the end of the last turn, and how many more bytes may
    /// be pending within the limits of channel and server.
    pub(super) fn stream_room(&self) -> (bool, usize) {
        let of_channel = self.cap().saturating_sub(self.pending());
        let of_server = self.lock().charge().map_or(usize::MAX, |c| c.spare());
        (self.pending.on_loop() == 0, of_channel.min(of_server))
    }

    #[inline]
    pub(crate) fn publish(&self, pending: usize, writable: bool) {
        self.pending.publish(pending);
        self.writable.store(writable, Ordering::Relaxed);
    }

    /// Returns `true` if queued writes raise the pending size above the high-water mark. Called on
    /// the loop, after `publish`.
    pub(crate) fn has_excess_writes(&self) -> bool {
        self.pending.coming() > 0 && self.pending() > self.options.marks.high()
    }

    /// Signals the loop to handle the queued requests.
    pub(crate) fn ring(block: &Arc<SignalBlock<Self>>) {
        if let Some(signal) = block.raise()
            && let Err(refused) = block.executor.signal(signal)
        {
            // The loop has ended: dropping the signal delivers it as orphaned.
            drop(refused);
        }
    }

    /// Queues a request. Signals the loop if `wake` is set or more than the high-water mark is
    /// pending.
    ///
    /// # Errors
    ///
    /// The request, if the channel is closed. Also a write that would exceed the cap or comes after
    /// the end.
    pub(crate) fn post(
        block: &Arc<SignalBlock<Self>>,
        request: ChannelRequest,
        wake: bool,
    ) -> Result<(), ChannelRequest> {
        let excess = Self::enqueue(block, request)?;
        if wake || excess {
            Self::ring(block);
        }
        Ok(())
    }

    /// Queues a request without a signal. Returns `true` if more than the high-water mark is pending.
    ///
    /// # Errors
    ///
    /// As [`Shared::post`].
    pub(super) fn enqueue(
        block: &Arc<SignalBlock<Self>>,
        request: ChannelRequest,
    ) -> Result<bool, ChannelRequest> {
        let (mut exceeded, mut excess) = (None, false);
        {
            let mut inner = block.lock();
            if inner.end.is_closed() {
                drop(inner);
                return Err(request);
            }
            if let ChannelRequest::Write(msg, ..) = &request {
                let counts = msg.size() + ENTRY_OVERHEAD;
                let pending = block.pending();
                let full = pending + counts > block.cap();
                let flags = block.flags.load(Ordering::Relaxed);
                if full || flags & flag::ENDS != 0 {
                    return Err(request);
                }
                // The loop has to take a write above the mark even without a flush, since its handlers
                // have to be notified. It also checks for that when it publishes its part.
                excess = block.pending.add(counts) > block.marks().high();
                exceeded = inner.charge().and_then(|charge| charge.queue(counts));
                if flags & flag::OVERFULL_REPORTED != 0 {
                    // A write is accepted: the next refusal is reported again.
                    block.set_flag(flag::OVERFULL_REPORTED, false);
                }
            } else if let ChannelRequest::Flush(None) = request
                && let Some(ChannelRequest::Flush(None)) = inner.requests.last()
            {
                // A second flush sends nothing more. Refused writes with a flush would queue one each.
                return Ok(false);
            }
            if inner.requests.capacity() == 0 {
                inner.requests = spare_requests::take();
            }
            inner.requests.push(request);
            block.has_requests.store(true, Ordering::Relaxed);
        }
        if let Some(memory) = exceeded {
            memory.close_largest();
        }
        Ok(excess)
    }

    /// Registers `promise` to complete when the channel is writable. Returns it if the channel is
    /// writable or closed.
    pub(crate) fn wait_for_room(&self, promise: Promise<()>) -> Result<(), Promise<()>> {
        let mut inner = self.lock();
        if self.is_writable() || inner.end.is_closed() {
            return Err(promise);
        }
        let abandoned = inner.rare.get_or_insert_default().writers.add(promise);
        drop(inner);
        drop(abandoned);
        Ok(())
    }

    /// Completes the promises that wait for the channel to be writable, if it is.
    pub(crate) fn notify_writers(&self) {
        if !self.is_writable() {
            return;
        }
        let writers = self.lock().take_writers();
        for writer in writers {
            let _ = writer.succeed(());
        }
    }

    /// Registers `promise` to complete when the sending half is closed. Called on the channel's
    /// loop.
    pub(crate) fn wait_for_half(&self, promise: Promise<()>) {
        let mut inner = self.lock();
        let rare = inner.rare.get_or_insert_default();
        let abandoned = rare.output_waiters.add(promise);
        drop(inner);
        drop(abandoned);
    }

    /// Completes the promises that wait for the sending half to be closed.
    pub(crate) fn complete_output_waiters(&self) {
        let output_waiters = self.lock().take_halves();
        for half in output_waiters {
            let _ = half.succeed(());
        }
    }

    /// Returns `true` if a timer limits the wait until everything is sent. Called on the channel's
    /// loop.
    pub(crate) fn has_deadline(&self) -> bool {
        let inner = self.lock();
        inner
            .rare
            .as_ref()
            .is_some_and(|rare| rare.deadline.is_some())
    }

    pub(crate) fn set_deadline(&self, deadline: Completion<()>) {
        let mut inner = self.lock();
        let before = &mut inner.rare.get_or_insert_default().deadline;
        let before = before.replace(deadline);
        drop(inner);
        if let Some(before) = before {
            before.cancel();
        }
    }

    /// Notifies the handlers that a write without a promise was refused, once until a write is
    /// accepted again: a stream with a gap must not go on silently.
    pub(crate) fn post_overfull(block: &Arc<SignalBlock<Self>>, why: NetError) {
        if !block.set_flag(flag::OVERFULL_REPORTED, true) {
            let event = InEvent::Error(Failure::new(why));
            // Refused: the channel is closed, and no handler is left to notify.
            let _ = Self::post(block, ChannelRequest::Fire(event), true);
        }
    }

    /// Takes the queued requests, oldest first.
    pub(crate) fn take_requests(&self) -> Vec<ChannelRequest> {
        let mut inner = self.lock();
        if let Some(charge) = inner.charge() {
            charge.take_queued();
        }
        self.has_requests.store(false, Ordering::Relaxed);
        std::mem::take(&mut inner.requests)
    }

    pub(super) fn set_charge(&self, charge: Charge) {
        self.lock().rare.get_or_insert_default().charge = Some(charge);
    }

    /// Uses what the channel counts for, under its lock; `None` without a cap, or once it ended.
    pub(super) fn with_charge<R>(&self, use_it: impl FnOnce(&mut Option<Charge>) -> R) -> R {
        match &mut self.lock().rare {
            Some(rare) => use_it(&mut rare.charge),
            None => use_it(&mut None),
        }
    }

    /// Records that the loop has taken a write. It stays pending until the end of the turn.
    #[inline]
    pub(super) fn take_write(&self, msg: &Msg) {
        self.pending.take(msg.size() + ENTRY_OVERHEAD);
    }

    /// Returns the completion of the channel's end.
    pub(crate) fn closed(&self) -> SharedCompletion<()> {
        let home = || self.roam.as_ref().map(|home| home.of_end());
        self.lock().end.completion(home)
    }

    /// Returns the cause of the close, if the channel was closed because of an error.
    pub(crate) fn close_cause(&self) -> Option<Failure> {
        self.lock().end.cause()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().end.is_closed()
    }

    /// Reports an error of the channel to the hook for unhandled errors.
    #[cold]
    pub(crate) fn report(&self, what: &dyn fmt::Display) {
        let message = match self.peer.name() {
            Some(peer) => format!("{what}; the peer is {peer}"),
            None => what.to_string(),
        };
        let what = Unhandled::ChannelError { message: &message };
        self.executor.unhandled(&what);
    }

    /// Marks the channel as closed, completes its waiters and refuses its queued requests. No handler is
    /// left.
    pub(crate) fn finish(&self, cause: Option<Failure>) {
        self.close(cause);
        self.end();
    }

    /// Completes [`Shared::closed`]: no handler of the closed channel is left.
    pub(super) fn end(&self) {
        let promise = self.lock().end.end();
        if let Some(promise) = promise {
            let _ = promise.succeed(());
        }
    }

    /// Marks the channel as closed, completes its waiters, except for those of [`Shared::closed`], and
    /// refuses its queued requests.
    pub(super) fn close(&self, cause: Option<Failure>) {
        self.set_active(false);
        self.writable.store(false, Ordering::Relaxed);
        let mut inner = self.lock();
        if !inner.end.close(cause.clone()) {
            return;
        }
        let left = std::mem::take(&mut inner.requests);
        // Nothing is pending any more, and nothing more is accepted.
        self.has_requests.store(false, Ordering::Relaxed);
        self.pending.clear();
        let mut waiting = inner.take_writers();
        waiting.append(&mut inner.take_halves());
        let deadline = inner.take_deadline();
        let rare = inner.rare.as_deref_mut();
        let charge = rare.and_then(|rare| rare.charge.take());
        drop(inner);
        // Before the waiters, so that they find the connection no longer counted.
        self.leave_memory(charge);
        if let Some(origin) = &self.origin {
            origin.connection_closed(self.peer.address());
        }
        if let Some(deadline) = deadline {
            deadline.cancel();
        }
        for one in waiting {
            let _ = one.fail(Failure::new(NetError::Closed(cause.clone())));
        }
        for request in left {
            refuse(request, cause.as_ref());
        }
    }

    pub(crate) fn with_attributes<R>(
        &self,
        use_them: impl FnOnce(&mut HashMap<TypeId, Attribute>) -> R,
    ) -> R {
        let mut inner = self.lock();
        use_them(&mut inner.rare.get_or_insert_default().attributes)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.finish(None);
        let rare = self.lock().rare.take();
        // Values of the user, whose drop may panic.
        discard_all(rare.into_iter().flat_map(|rare| rare.attributes));
    }
}

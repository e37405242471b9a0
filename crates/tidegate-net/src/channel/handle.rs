//! The public handle of a connection.

use std::any::{Any, TypeId};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, Weak};

use tidegate_core::internal::{SignalBlock, lock};
use tidegate_promise::{Completion, Failure, Promise, SharedCompletion, promise_on};

use super::channel_request::{ChannelRequest, refuse, refuse_write};
use super::event::{HandlerEvent, InEvent, UserEvent};
use super::shared::{Attribute, Shared, flag};
use super::write_queue::ENTRY_OVERHEAD;
use crate::awaited::result;
use crate::errors::NetError;
use crate::message::{Message, Msg};
use crate::reactor::IoHandle;

/// A handle of a connection. Clones refer to the same connection, are equal and have the same hash.
/// Dropping all handles leaves the connection open until its peer or its loop ends.
///
/// # Threads
///
/// Can be used from any thread. Requests reach the channel's handlers on its loop, in order; the
/// bytes of a write count as pending at once.
///
/// ```
/// use tidegate_net::EmbeddedChannel;
///
/// let mut embedded = EmbeddedChannel::new(|p| p)?;
/// let channel = embedded.channel();
/// channel.write("hello");
/// let sent = channel.write_and_flush_with(" world");
/// embedded.run();
/// assert_eq!(embedded.sent(), "hello world");
/// sent.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Channel {
    shared: Arc<SignalBlock<Shared>>,
}

impl Channel {
    pub(crate) fn of(shared: Arc<SignalBlock<Shared>>) -> Self {
        Self { shared }
    }

    /// Returns the channel that a source's handle refers to, if the source is a channel.
    pub(crate) fn of_source(handle: Arc<dyn IoHandle>) -> Option<Self> {
        let handle: Arc<dyn Any + Send + Sync> = handle;
        handle.downcast().ok().map(Self::of)
    }

    pub(crate) fn shared(&self) -> &Arc<SignalBlock<Shared>> {
        &self.shared
    }

    /// Writes a message that the last outbound handler takes; without one, bytes or text. Does not
    /// report the outcome. Nothing is sent before a flush. A message that would exceed the cap, or
    /// that the handler does not take, is refused, and the handlers receive an error event:
    /// [`NetError::WriteQueueFull`] or [`NetError::TypeMismatch`].
    ///
    /// Vectors and slices of bytes are written as [`Bytes`](crate::Bytes). Text stays text for a
    /// handler that takes a `String`, and becomes bytes everywhere else.
    pub fn write<M: Message>(&self, message: M) {
        self.post_write(ChannelRequest::write(message, None));
    }

    /// Writes a message like [`Channel::write`]. The completion succeeds when the operating system
    /// has taken what the handlers made of the message. It fails if the message is refused, or the
    /// channel is closed before. Cancelling it before the flush takes the message back.
    pub fn write_with<M: Message>(&self, message: M) -> Completion<()> {
        let (promise, done) = self.new_promise();
        self.post_write(ChannelRequest::write(message, Some(promise)));
        done
    }

    /// Returns a completion that succeeds when the channel is writable, at once if it already is.
    /// Otherwise flushes what was written so far, since nothing else would make room. The
    /// completion fails if the channel is closed.
    pub fn writable(&self) -> Completion<()> {
        let (promise, room) = self.new_promise();
        match self.shared.wait_for_room(promise) {
            Ok(()) => self.flush(),
            Err(promise) if self.shared.is_closed() => {
                let why = NetError::Closed(self.close_cause());
                let _ = promise.fail(Failure::new(why));
            }
            Err(promise) => drop(promise.succeed(())),
        }
        room
    }

    /// Writes a message like [`Channel::write`] and sends everything written so far.
    pub fn write_and_flush<M: Message>(&self, message: M) {
        self.write(message);
        self.flush();
    }

    /// Writes a message like [`Channel::write_with`] and sends everything written so far.
    pub fn write_and_flush_with<M: Message>(&self, message: M) -> Completion<()> {
        let done = self.write_with(message);
        self.flush();
        done
    }

    /// Sends what was written so far.
    pub fn flush(&self) {
        self.post(ChannelRequest::Flush(None));
    }

    /// Sends what was written so far. The completion succeeds when the operating system has taken
    /// all of it that the handlers did not hold back. It fails if a write without a completion was
    /// refused or came after the end, and no flush has failed for that yet.
    pub fn flush_with(&self) -> Completion<()> {
        let (promise, done) = self.new_promise();
        if self.shared.set_flag(flag::LOST, false) {
            self.flush();
            let why = match self.shared.refuses_writes() {
                true => NetError::Closed(self.close_cause()),
                false => NetError::WriteLost,
            };
            let _ = promise.fail(Failure::new(why));
        } else {
            self.post(ChannelRequest::Flush(Some(promise)));
        }
        done
    }

    /// Closes the channel. The completion succeeds when the channel is closed. Data that is not
    /// sent by then fails, and so do later writes.
    pub fn close(&self) -> SharedCompletion<()> {
        let closed = self.closed();
        self.post(ChannelRequest::Close);
        closed
    }

    /// Closes the channel and resets its connection: the peer reads an error instead of the end.
    /// Data that is not sent is lost, including data that the operating system holds. Handlers cannot
    /// hold the close back, and what they write because of it is not sent: TLS sends no `close_notify`.
    /// On a transport without resets the peer reads the end.
    pub fn abort(&self) -> SharedCompletion<()> {
        let closed = self.closed();
        self.post(ChannelRequest::Abort);
        closed
    }

    /// Closes the channel even if its handlers hold the close back.
    pub(crate) fn force_close(&self) {
        self.post(ChannelRequest::ForceClose);
    }

    /// Closes the channel as soon as everything written so far is sent. The completion succeeds
    /// when the channel is closed. From now on no handler gets what is received, and later writes fail
    /// with [`NetError::Closed`]. If unread bytes wait then, or have come meanwhile, only the sending half
    /// is closed at first, so that the peer can read to the end: the channel drops what comes, until the
    /// peer ends or [`LINGER_TIME`](crate::ChannelOptions::LINGER_TIME) is over. A handler that expects
    /// more later calls [`linger_on_close`](crate::HandlerContext::linger_on_close). Data that cannot be sent within
    /// [`close_timeout`](crate::ChannelOptions::close_timeout) fails: the channel is then closed
    /// with a [`NetError::CloseTimeout`].
    pub fn close_when_flushed(&self) -> SharedCompletion<()> {
        let closed = self.closed();
        self.post(ChannelRequest::CloseWhenFlushed);
        closed
    }

    /// Closes the sending half; the peer reads the end after everything written so far. The
    /// completion succeeds when the half is closed, and fails if the channel is closed before.
    /// Later writes fail with [`NetError::OutputShut`]. The request can be cancelled until the
    /// channel's loop starts to carry it out.
    pub fn shutdown_output(&self) -> Completion<()> {
        let (promise, done) = self.new_promise();
        self.post(ChannelRequest::ShutdownOutput(promise));
        done
    }

    /// Takes the channel off its loop. The poller does not watch its socket: nothing is read or
    /// sent, and a close by the peer goes unnoticed. The channel stays open, with its handlers,
    /// their timers and its pending data, until it is [registered](Channel::register) again or
    /// closed. Its handlers receive a [`Deregistered`](crate::Deregistered) event after the one
    /// that they handle now.
    ///
    /// The completion succeeds at once if the channel is already off its loop. It fails if the
    /// channel is closed or not yet connected. The request can be cancelled until the channel's
    /// loop starts to carry it out; the channel then stays on its loop.
    ///
    /// ```
    /// use tidegate_net::EmbeddedChannel;
    ///
    /// let mut embedded = EmbeddedChannel::new(|p| p)?;
    /// let channel = embedded.channel();
    /// let off = channel.deregister();
    /// channel.write_and_flush("later");
    /// embedded.run();
    /// off.wait()?;
    /// assert_eq!((channel.is_registered(), embedded.sent().len()), (false, 0));
    /// let on = channel.register();
    /// embedded.run();
    /// on.wait()?;
    /// assert_eq!(embedded.sent(), "later");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deregister(&self) -> Completion<()> {
        self.set_registered(false)
    }

    /// Puts a channel that was [taken off its loop](Channel::deregister) back; it continues to read
    /// and send. Its handlers receive a [`Registered`](crate::Registered) event.
    ///
    /// The completion fails if the channel is on its loop, if it is closed, or with the error of
    /// the poller.
    pub fn register(&self) -> Completion<()> {
        self.set_registered(true)
    }

    /// Hands the socket of an idle TCP connection over to the caller, for example to
    /// [adopt](crate::Client::adopt_on) it on another event loop. The channel is closed, the
    /// connection stays open. Bytes that the peer sends meanwhile stay in the socket, which is in
    /// non-blocking mode.
    ///
    /// The channel must have no handlers and nothing to send. A handler that gives its connection
    /// away first stops reading, so that no byte is lost, and then removes itself.
    ///
    /// The completion fails with [`NetError::NotReleased`] if the channel is not idle or is no TCP
    /// connection; the channel stays as it is then. The request can be cancelled until the channel's
    /// loop starts to carry it out.
    ///
    /// ```
    /// use std::net::TcpListener;
    /// use tidegate_net::Client;
    ///
    /// let group = tidegate_net::pinned("io", 2)?;
    /// let peer = TcpListener::bind("127.0.0.1:0")?;
    /// let client = Client::builder(&group).build();
    /// let channel = client.connect(peer.local_addr()?).wait()?;
    /// channel.set_auto_read(false);
    /// let socket = channel.release().wait()?;
    /// let elsewhere = group.loops().next();
    /// let channel = client.adopt_on(elsewhere, socket).wait()?;
    /// assert_eq!(channel.loop_name(), elsewhere.name());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release(&self) -> Completion<TcpStream> {
        let (promise, released) = promise_on(Arc::clone(self.shared.executor()));
        self.post(ChannelRequest::HandOver(promise));
        released
    }

    fn set_registered(&self, on: bool) -> Completion<()> {
        let (promise, done) = self.new_promise();
        self.post(ChannelRequest::Register(on, promise));
        done
    }

    /// Returns a completion that succeeds when the channel is closed, for any reason, and its handlers
    /// were notified and removed. Only the channel can complete it.
    pub fn closed(&self) -> SharedCompletion<()> {
        self.shared.closed()
    }

    /// Returns the cause of the close, if the channel was closed because of an error.
    pub fn close_cause(&self) -> Option<Failure> {
        self.shared.close_cause()
    }

    /// Sets whether the channel reads on its own or only on request.
    pub fn set_auto_read(&self, yes: bool) {
        self.post(ChannelRequest::AutoRead(yes));
    }

    /// Requests one read. Needed only if the channel does not read on its own.
    pub fn read(&self) {
        self.post(ChannelRequest::Read);
    }

    /// Sends a user-defined event through the handlers.
    pub fn fire_event(&self, event: impl Any + Send) {
        self.post(ChannelRequest::Fire(InEvent::User(UserEvent::new(event))));
    }

    /// Sends an error through the handlers.
    pub fn fire_error(&self, why: Failure) {
        self.post(ChannelRequest::Fire(InEvent::Error(why)));
    }

    /// Sets one of 31 user-defined writability flags: see
    /// [`HandlerContext::set_user_writable`](crate::HandlerContext::set_user_writable). Ignores a
    /// number that is not a flag.
    pub fn set_user_writable(&self, flag: u8, writable: bool) {
        self.post(ChannelRequest::UserWritable(flag, writable));
    }

    /// Returns `true` if the channel is open.
    pub fn is_active(&self) -> bool {
        self.shared.is_active()
    }

    /// Returns `true` if a drain of the channel's server was
    /// [announced](crate::Server::announce_drain) or has begun.
    pub fn is_draining(&self) -> bool {
        self.shared.is_draining()
    }

    /// Returns `true` if the channel is open and its loop watches its socket. That is so from the
    /// start, unless the channel was [taken off](Channel::deregister).
    pub fn is_registered(&self) -> bool {
        self.shared.is_registered()
    }

    /// Returns `true` if the channel is open and not more than the high-water mark is pending.
    pub fn is_writable(&self) -> bool {
        self.shared.is_writable()
    }

    /// Returns `true` if the channel is writable. Otherwise its handlers are notified when it is: for
    /// them, it may be writable already. What other threads see follows at the end of a turn.
    pub(crate) fn is_writable_or_notifies(&self) -> bool {
        let writable = self.is_writable();
        if !writable && !self.shared.set_flag(flag::SEEN_UNWRITABLE, true) {
            self.post(ChannelRequest::SeenUnwritable);
        }
        writable
    }

    /// Returns the number of bytes that wait to be sent, including writes that the loop has not
    /// taken yet.
    pub fn pending_bytes(&self) -> usize {
        self.shared.pending()
    }

    /// Returns the address of the peer, if there is one.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.shared.peer().address()
    }

    /// Returns the local address, if there is one.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.shared.local_addr()
    }

    /// Returns the name of the channel's loop.
    pub fn loop_name(&self) -> &str {
        self.shared.executor().name()
    }

    /// Stores a value with the channel, one of each type. Returns the previous value of that type.
    pub fn set_attribute<T: Send + 'static>(&self, value: T) -> Option<T> {
        let kept: Attribute = Arc::new(Mutex::new(Some(Box::new(value))));
        let before = self
            .shared
            .with_attributes(|all| all.insert(TypeId::of::<T>(), kept));
        before.and_then(take_kept)
    }

    /// Returns a clone of the value of that type that is stored with the channel. Its `clone` may
    /// use the channel, but must not read this value again.
    pub fn attribute<T: Clone + Send + 'static>(&self) -> Option<T> {
        let kept = self
            .shared
            .with_attributes(|all| all.get(&TypeId::of::<T>()).cloned())?;
        let value = lock(&kept);
        value.as_ref()?.downcast_ref::<T>().cloned()
    }

    /// Removes and returns the value of that type that is stored with the channel. A value that
    /// holds a handle of the same channel keeps both alive until then.
    pub fn take_attribute<T: Send + 'static>(&self) -> Option<T> {
        let kept = self
            .shared
            .with_attributes(|all| all.remove(&TypeId::of::<T>()));
        kept.and_then(take_kept)
    }

    /// Closes the channel when `done` completes, with any outcome.
    pub fn close_on<T: Send + 'static>(&self, done: &Completion<T>) {
        let channel = self.clone();
        done.on_complete(move |_| drop(channel.close()));
    }

    /// Closes the channel when `done` fails or is cancelled.
    pub fn close_on_failure<T: Send + 'static>(&self, done: &Completion<T>) {
        let channel = self.clone();
        done.on_complete(move |outcome| {
            if !outcome.is_success() {
                drop(channel.close());
            }
        });
    }

    /// Sends the cause through the handlers as an error when `done` fails or is cancelled.
    pub fn fire_error_on_failure<T: Send + 'static>(&self, done: &Completion<T>) {
        let channel = self.clone();
        done.on_complete(move |outcome| {
            if let Err(why) = result(outcome) {
                channel.fire_error(why);
            }
        });
    }

    fn new_promise(&self) -> (Promise<()>, Completion<()>) {
        promise_on(Arc::clone(self.shared.executor()))
    }

    pub(crate) fn post(&self, request: ChannelRequest) {
        if let Err(request) = Shared::post(&self.shared, request, true) {
            refuse(request, self.close_cause().as_ref());
        }
    }

    fn post_write(&self, request: ChannelRequest) {
        if let Err(request) = Shared::post(&self.shared, request, false) {
            self.refuse_write(request);
        }
    }

    /// Writes a message like [`Channel::write`], and lets the channel's loop handle it soon. On the thread
    /// of the channel's own pinned loop, this takes no signal.
    pub(crate) fn write_in_turn<M: Message>(&self, message: M) {
        let Err(message) = self.shared.pass_directly(Msg::from_handle(message)) else {
            return;
        };
        let request = ChannelRequest::Write(message, None);
        if let Err(request) = Shared::post_in_turn(&self.shared, request) {
            self.refuse_write(request);
        }
    }

    /// Reports a write that the channel does not take.
    #[cold]
    fn refuse_write(&self, request: ChannelRequest) {
        let ChannelRequest::Write(message, promise) = request else {
            unreachable!("only writes are posted here");
        };
        if promise.is_none() {
            self.shared.set_flag(flag::LOST, true);
        }
        if self.shared.refuses_writes() {
            return refuse_write(message, promise, NetError::Closed(self.close_cause()));
        }
        let size = message.size() + ENTRY_OVERHEAD;
        let (pending, cap) = (self.shared.pending(), self.shared.cap());
        let why = NetError::WriteQueueFull { size, pending, cap };
        if promise.is_none() {
            Shared::post_overfull(&self.shared, why.clone());
        }
        refuse_write(message, promise, why);
    }
}

/// Takes the value out of an attribute. Waits while another thread clones it: each attribute has
/// its own lock, since cloning is user code.
fn take_kept<T: 'static>(kept: Attribute) -> Option<T> {
    let value = lock(&kept).take();
    value?.downcast().ok().map(|own| *own)
}

/// Notifies handler `id` of a channel that its timer is due. Called on the channel's loop.
pub(crate) fn ring_timer(channel: &Weak<SignalBlock<Shared>>, id: u32, key: u64) {
    if let Some(channel) = channel.upgrade() {
        let _ = Shared::post(
            &channel,
            ChannelRequest::HandlerEvent(id, HandlerEvent::Timer(key)),
            true,
        );
    }
}

impl PartialEq for Channel {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Channel {}

impl Hash for Channel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.shared).hash(state);
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("peer", &format_args!("{}", self.shared.peer()))
            .field("active", &self.is_active())
            .finish_non_exhaustive()
    }
}

//! A channel without a socket, for tests of handlers.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tidegate_core::ManualClock;
use tidegate_core::internal::lock;
use tidegate_loop::{EventLoop, ManualLoop};
use tidegate_promise::Failure;

use crate::channel::{
    Channel, ChannelCore, ChannelOptions, ChannelRequest, Home, Peer, Record, Shared, Start,
    TestTransport, Transport,
};
use crate::message::{Message, Msg};
use crate::pipeline::{Head, Pipeline, PipelineBuilder, PipelineError, PipelineState};
use crate::reactor::{self, PollDriver};
use crate::sys::{FakePoller, Readiness, Ready, Token};

/// Maximum number of turns of the loop in one [`EmbeddedChannel::run`].
const MOST_TURNS: usize = 100_000;

/// A channel without a socket, on a loop that the test drives and a clock that it sets.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::LineFrames;
///
/// let mut channel = EmbeddedChannel::new(|p| p.add("lines", LineFrames::max(80)))?;
/// channel.receive("one\ntw");
/// channel.receive("o\n");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "one");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "two");
/// assert!(channel.read_inbound::<Bytes>().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EmbeddedChannel {
    channel: Channel,
    test_transport: Arc<TestTransport>,
    clock: ManualClock,
    token: Token,
    record: Arc<Mutex<Record>>,
    manual_loop: ManualLoop,
    _home: EventLoop,
}

impl EmbeddedChannel {
    /// Creates an open channel with the handlers that `assemble` adds.
    ///
    /// # Errors
    ///
    /// [`PipelineError`] if the handlers do not fit each other.
    pub fn new(
        assemble: impl FnOnce(PipelineBuilder) -> PipelineBuilder,
    ) -> Result<Self, PipelineError> {
        Self::with_options(ChannelOptions::default(), assemble)
    }

    /// Creates a channel like [`EmbeddedChannel::new`], with options.
    ///
    /// # Errors
    ///
    /// As for [`EmbeddedChannel::new`].
    pub fn with_options(
        options: ChannelOptions,
        assemble: impl FnOnce(PipelineBuilder) -> PipelineBuilder,
    ) -> Result<Self, PipelineError> {
        Self::with_clock(ManualClock::new(), options, assemble)
    }

    /// Creates a channel like [`EmbeddedChannel::with_options`], on a clock that handlers may have
    /// already.
    ///
    /// # Errors
    ///
    /// As for [`EmbeddedChannel::new`].
    pub fn with_clock(
        clock: ManualClock,
        options: ChannelOptions,
        assemble: impl FnOnce(PipelineBuilder) -> PipelineBuilder,
    ) -> Result<Self, PipelineError> {
        let checked = assemble(PipelineBuilder::new()).checked(Head::Anything)?;
        let (poller, _script) = FakePoller::new();
        let (home, mut manual_loop) = EventLoop::builder("embedded")
            .clock(&clock)
            .build_manual_with_driver(PollDriver::new(poller))
            .expect("the description of this loop is in order");
        let of_channel = Home {
            executor: home.executor(),
            roam: None,
        };
        let shared = Shared::new(of_channel, Arc::new(options), (None, Peer::Unknown), None);
        let channel = Channel::of(Arc::clone(&shared));
        let test_transport = Arc::<TestTransport>::default();
        let own = Arc::clone(&test_transport);
        let record = Arc::<Mutex<Record>>::default();
        let recorded = Arc::clone(&record);
        let token = manual_loop.run(move || {
            let mut parts = PipelineState::new(shared);
            parts.io.set_record(recorded);
            let pipeline = <Pipeline>::new(parts, checked);
            let transport = Transport::Embedded(own);
            let registered = reactor::register(|token| {
                Box::new(ChannelCore::new(transport, pipeline, Start::Open, token))
            });
            registered.expect("a loop of this kind registers channels")
        });
        let mut this = Self {
            channel,
            test_transport,
            clock,
            token,
            record,
            manual_loop,
            _home: home,
        };
        this.deliver(Readiness::REQUESTS);
        Ok(this)
    }

    /// Returns a handle of the channel, as any thread would have it.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Runs the event loop until it has nothing to do: carries out the requests of the channel's
    /// handles, and the work that they cause. Stops after 100,000 turns, for handlers that cause
    /// new work in every turn.
    pub fn run(&mut self) {
        for _ in 0..MOST_TURNS {
            if !self.manual_loop.turn() {
                return;
            }
        }
    }

    /// Advances the clock and runs what is due.
    pub fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        self.run();
    }

    /// Returns the clock that [`EmbeddedChannel::advance`] sets. A handler under test can advance
    /// it to simulate work that takes time.
    pub fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    /// Passes `message` to the first handler, as if it came from the socket.
    pub fn write_inbound<M: Send + 'static>(&mut self, message: M) {
        self.post(ChannelRequest::Inbound(Msg::of(message)));
    }

    /// Receives bytes as from a socket: read sizes and budgets apply. Empty bytes are ignored; the
    /// end of input is [`EmbeddedChannel::end_input`].
    pub fn receive(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        if !bytes.is_empty() {
            self.test_transport.lock().inbound.push_back(bytes);
        }
        self.deliver(Readiness::READ);
    }

    /// Ends the input, as if the peer had closed its sending half.
    pub fn end_input(&mut self) {
        self.test_transport.lock().ended = true;
        self.deliver(Readiness::READ | Readiness::HANG_UP);
    }

    /// Breaks the connection. As with a socket, the error comes after the bytes received before.
    pub fn fail(&mut self, why: io::ErrorKind) {
        self.test_transport.lock().failure = Some(why);
        self.deliver(Readiness::READ | Readiness::ERROR);
    }

    /// Removes the next message that passed the last handler, and returns it. If it is not an `M`,
    /// it is dropped, and `None` is returned as if there were no message.
    pub fn read_inbound<M: Send + 'static>(&mut self) -> Option<M> {
        self.record().inbound.pop_front()?.cast().ok()
    }

    /// Writes `message` at the end of the pipeline, so that it passes all handlers from last to
    /// first, and flushes.
    pub fn write_outbound<M: Message>(&mut self, message: M) {
        self.channel.write(message);
        self.channel.flush();
        self.run();
    }

    /// Removes the next message that reached the socket, and returns it. Bytes reach it with a
    /// flush, other messages at once. Bytes are returned before other messages. A message that is
    /// not an `M` is dropped, and `None` is returned.
    pub fn read_outbound<M: Send + 'static>(&mut self) -> Option<M> {
        let bytes = self.test_transport.lock().outbound.pop_front();
        let message = match bytes {
            Some(bytes) => Msg::Bytes(bytes),
            None => self.record().outbound.pop_front()?,
        };
        message.cast().ok()
    }

    /// Returns all bytes that were sent and not yet returned.
    pub fn sent(&mut self) -> Bytes {
        let chunks = std::mem::take(&mut self.test_transport.lock().outbound);
        let mut all = BytesMut::new();
        for chunk in chunks {
            all.extend_from_slice(&chunk);
        }
        all.freeze()
    }

    /// Returns the number of system calls that a socket would have needed for the writes so far,
    /// including those that would have blocked.
    pub fn write_calls(&self) -> usize {
        self.test_transport.lock().calls
    }

    /// Makes the socket accept `bytes` more and then block; with `None` it accepts any number.
    pub fn set_room(&mut self, bytes: Option<usize>) {
        self.test_transport.lock().room = bytes;
        self.deliver(Readiness::WRITE);
    }

    /// Makes the socket hold `bytes` of those that it has accepted: the peer has not acknowledged them.
    #[doc(hidden)]
    pub fn set_held(&self, bytes: u64) {
        self.test_transport.lock().held = Some(bytes);
    }

    /// Removes and returns the errors that no handler took.
    pub fn errors(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.record().errors)
    }

    /// Returns `true` if the sending half was closed.
    pub fn is_output_shut(&self) -> bool {
        self.test_transport.lock().output_shut
    }

    /// Returns `true` if the channel is open.
    pub fn is_open(&self) -> bool {
        self.channel.is_active()
    }

    /// Closes the channel.
    pub fn close(&mut self) {
        drop(self.channel.close());
        self.run();
    }

    /// Returns the names of the handlers, first to last.
    pub fn names(&mut self) -> Vec<String> {
        let token = self.token;
        self.manual_loop.run(|| reactor::names(token))
    }

    fn post(&mut self, request: ChannelRequest) {
        let _ = Shared::post(self.channel.shared(), request, true);
        self.run();
    }

    /// Delivers a readiness event to the channel, and runs the event loop until it has nothing to
    /// do.
    fn deliver(&mut self, readiness: Readiness) {
        let token = self.token;
        self.manual_loop
            .run(|| reactor::dispatch(Ready { token, readiness }));
        self.run();
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }
}

impl std::fmt::Debug for EmbeddedChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EmbeddedChannel")
            .field(&self.channel)
            .finish()
    }
}

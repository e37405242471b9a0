//! A channel without a socket: what handlers are tested with.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tidegate_core::ManualClock;
use tidegate_loop::{EventLoop, HandLoop};
use tidegate_promise::Failure;

use crate::channel::{
    Channel, ChannelCore, ChannelOptions, Home, Mail, Record, Shared, Start, Transport, Wire,
};
use crate::message::{Message, Msg};
use crate::pipeline::{Assembly, Head, Parts, Pipeline, PipelineError};
use crate::reactor::{self, PollDriver};
use crate::sys::{FakePoller, Readiness, Ready, Token};

/// Turns of the loop that [`EmbeddedChannel::run`] runs.
const MOST_TURNS: usize = 100_000;

/// A channel without a socket, on a loop that the test turns and a clock that it sets.
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
    wire: Arc<Wire>,
    clock: ManualClock,
    token: Token,
    record: Arc<Mutex<Record>>,
    hand: HandLoop,
    _home: EventLoop,
}

impl EmbeddedChannel {
    /// A channel with the handlers that `assemble` adds, open.
    ///
    /// # Errors
    ///
    /// [`PipelineError`] when they do not fit each other.
    pub fn new(assemble: impl FnOnce(Assembly) -> Assembly) -> Result<Self, PipelineError> {
        Self::with_options(ChannelOptions::default(), assemble)
    }

    /// The same with options.
    ///
    /// # Errors
    ///
    /// As for [`EmbeddedChannel::new`].
    pub fn with_options(
        options: ChannelOptions,
        assemble: impl FnOnce(Assembly) -> Assembly,
    ) -> Result<Self, PipelineError> {
        let checked = assemble(Assembly::new()).checked(Head::Anything)?;
        let clock = ManualClock::new();
        let (poller, _script) = FakePoller::new();
        let (home, mut hand) = EventLoop::builder("embedded")
            .clock(&clock)
            .build_by_hand_with(PollDriver::new(poller))
            .expect("the description of this loop is in order");
        let of_channel = Home {
            executor: home.executor(),
            roam: None,
        };
        let shared = Shared::new(of_channel, Arc::new(options), (None, None), None);
        let channel = Channel::of(Arc::clone(&shared));
        let wire = Arc::<Wire>::default();
        let own = Arc::clone(&wire);
        let record = Arc::<Mutex<Record>>::default();
        let recorded = Arc::clone(&record);
        let token = hand.run(move || {
            let mut parts = Parts::new(shared);
            parts.io.record = Some(recorded);
            let pipeline = <Pipeline>::new(parts, checked);
            let transport = Transport::Embedded(own);
            let registered = reactor::register(|token| {
                Box::new(ChannelCore::new(transport, pipeline, Start::Open, token))
            });
            registered.expect("a loop of this kind registers channels")
        });
        let mut this = Self {
            channel,
            wire,
            clock,
            token,
            record,
            hand,
            _home: home,
        };
        this.tell(Readiness::MAIL);
        Ok(this)
    }

    /// A handle of the channel, as any thread would have it.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Runs what handles of the channel asked for, and what follows from it. Handlers that ask for
    /// something in every turn are left after 100,000 of them.
    pub fn run(&mut self) {
        for _ in 0..MOST_TURNS {
            if !self.hand.turn() {
                return;
            }
        }
    }

    /// Lets time pass.
    pub fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        self.run();
    }

    /// The clock that [`EmbeddedChannel::advance`] sets, for handlers that are to take time.
    pub fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    /// Gives `message` to the first handler, as if the socket had made it.
    pub fn write_inbound<M: Send + 'static>(&mut self, message: M) {
        self.post(Mail::Inbound(Msg::of(message)));
    }

    /// Lets bytes come in as from a socket: read sizes and budgets apply. Of no bytes nothing comes:
    /// the end is [`EmbeddedChannel::end_input`].
    pub fn receive(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        if !bytes.is_empty() {
            self.wire.lock().inbound.push_back(bytes);
        }
        self.tell(Readiness::READ);
    }

    /// Lets the peer write no more.
    pub fn end_input(&mut self) {
        self.wire.lock().ended = true;
        self.tell(Readiness::READ | Readiness::HANG_UP);
    }

    /// Breaks the connection, as a socket tells it: after what came before.
    pub fn fail(&mut self, why: io::ErrorKind) {
        self.wire.lock().failure = Some(why);
        self.tell(Readiness::READ | Readiness::ERROR);
    }

    /// The next message that passed the last handler.
    pub fn read_inbound<M: Send + 'static>(&mut self) -> Option<M> {
        self.record().inbound.pop_front()?.cast().ok()
    }

    /// Writes `message` behind the last handler and flushes.
    pub fn write_outbound<M: Message>(&mut self, message: M) {
        self.channel.write_message(message);
        self.channel.flush();
        self.run();
    }

    /// The next message that reached the socket: bytes after a flush, others at once.
    pub fn read_outbound<M: Send + 'static>(&mut self) -> Option<M> {
        let bytes = self.wire.lock().outbound.pop_front();
        let message = match bytes {
            Some(bytes) => Msg::Bytes(bytes),
            None => self.record().outbound.pop_front()?,
        };
        message.cast().ok()
    }

    /// All bytes that were sent and not looked at yet.
    pub fn sent(&mut self) -> Bytes {
        let chunks = std::mem::take(&mut self.wire.lock().outbound);
        let mut all = BytesMut::new();
        for chunk in chunks {
            all.extend_from_slice(&chunk);
        }
        all.freeze()
    }

    /// Calls that the writes so far would have been.
    pub fn write_calls(&self) -> usize {
        self.wire.lock().calls
    }

    /// Lets the socket take `bytes` more, and then block; `None` lets it take any number.
    pub fn set_room(&mut self, bytes: Option<usize>) {
        self.wire.lock().room = bytes;
        self.tell(Readiness::WRITE);
    }

    /// Errors that no handler took.
    pub fn errors(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.record().errors)
    }

    /// Whether the sending half was closed.
    pub fn is_output_shut(&self) -> bool {
        self.wire.lock().output_shut
    }

    /// Whether the channel is open.
    pub fn is_open(&self) -> bool {
        self.channel.is_active()
    }

    /// Closes the channel.
    pub fn close(&mut self) {
        drop(self.channel.close());
        self.run();
    }

    /// The names of the handlers, first to last.
    pub fn names(&mut self) -> Vec<String> {
        let token = self.token;
        self.hand.run(|| reactor::names(token))
    }

    fn post(&mut self, mail: Mail) {
        let _ = Shared::post(self.channel.shared(), mail, true);
        self.run();
    }

    /// Tells the channel that its wire is ready.
    fn tell(&mut self, readiness: Readiness) {
        let token = self.token;
        self.hand
            .run(|| reactor::dispatch(Ready { token, readiness }));
        self.run();
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for EmbeddedChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EmbeddedChannel")
            .field(&self.channel)
            .finish()
    }
}

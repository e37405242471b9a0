//! A listening socket on its event loop: accepts connections, pauses when there are no descriptors
//! left or the user wants it, and ends.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::internal::trace::{self, EventLimit};
use tidegate_core::internal::{Deliver, Delivery, SignalBlock};
use tidegate_core::{Clock, Dump, Unhandled};
use tidegate_loop::internal::LoopScheduler;
use tidegate_promise::Completion;

use super::drain::{DrainReport, announce, check_drain, drain};
use super::listening::Listening;
use super::server_shared::ServerShared;
use crate::channel::{
    Channel, ChannelOptions, Home, LimitReached, Peer, ServerConnections, Shared, Start, TimedWork,
    Transport,
};
use crate::group::{ChannelPlacement, ChannelPlacer, NetGroup};
use crate::pipeline::{Head, Initialiser, PipelineState, assemble};
use crate::reactor::{self, Batched, IoContext, IoSource, Next, Update};
use crate::sys::{Readiness, Ready, Source, SpareDescriptor, Token, is_out_of_descriptors};

/// The maximum number of accepts per turn, so that other sources get their turn.
const ACCEPTS: usize = 16;
/// The pause of accepting when there are no descriptors left.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// The configuration of one listener.
pub(super) struct Config {
    /// The event loop that accepts.
    pub(super) home: Home,
    pub(super) timers: LoopScheduler,
    pub(super) children: Arc<dyn ConnectionLoops>,
    pub(super) options: Arc<ChannelOptions>,
    /// The number of connections that may wait to be accepted.
    pub(super) backlog: usize,
    pub(super) port: Arc<ServerShared>,
    /// `true` if connections stay on the event loop that accepted them, where possible.
    pub(super) stay: bool,
    /// The position of the listener among those of its server.
    pub(super) at: usize,
}

/// The event loops on which connections live, for any placement.
pub(super) trait ConnectionLoops: Send + Sync {
    /// Hands a connection to its event loop, which creates its handlers.
    fn place_connection(
        &self,
        accepting: &Arc<SignalBlock<ListenerShared>>,
        transport: Transport,
        peer: Peer,
    );

    /// Notifies the connections of `origin` that their server is going to drain.
    fn announce(&self, origin: &Arc<ServerConnections>);

    /// Notifies the connections of `origin` that they should finish, and cuts the rest at the
    /// deadline.
    fn drain(&self, origin: &Arc<ServerConnections>, deadline: Duration)
    -> Completion<DrainReport>;

    /// Returns the clock of the loops.
    fn clock(&self) -> Clock;
}

/// The event loops of a group, and the closure that creates handlers there.
pub(super) struct GroupChildren<P: ChannelPlacement> {
    pub(super) group: NetGroup<P>,
    pub(super) initialise: Initialiser<P>,
}

impl<P: ChannelPlacement> ConnectionLoops for GroupChildren<P> {
    fn place_connection(
        &self,
        accepting: &Arc<SignalBlock<ListenerShared>>,
        transport: Transport,
        peer: Peer,
    ) {
        let arrival = match AcceptedConnection::of(accepting.config.port.origin(), peer.address()) {
            Ok(arrival) => arrival,
            // A refused connection is counted, and closed by dropping it.
            Err(limit) => {
                drop(transport);
                return accepting.trace_refusal(limit);
            }
        };
        let mine = || self.group.each().find(|one| one.home.is_current());
        let mine = accepting.config.stay.then(mine).flatten();
        let child = mine.unwrap_or_else(|| self.group.pick());
        let (options, initialise) = (&accepting.config.options, &self.initialise);
        let (options, initialise) = (Arc::clone(options), Arc::clone(initialise));
        let home = child.of_channel();
        let own = peer.clone();
        let place_connection =
            move || place_connection(home, options, &initialise, arrival, transport, own);
        if child.home.is_current() {
            return place_connection();
        }
        // If the task is refused, dropping it closes the connection and counts it out.
        if let Err(refused) = child.run(place_connection) {
            accepting.config.port.origin().count_refused_by_loop();
            accepting.trace_refusal(LimitReached::EventLoop);
            let (name, why) = (child.home.name(), refused.why());
            let peer = peer.name().unwrap_or(&"a client");
            accepting.report(&format_args!(
                "the connection of {peer} was closed: event loop `{name}` refused it: {why}"
            ));
        }
    }

    fn announce(&self, origin: &Arc<ServerConnections>) {
        announce(origin, &self.group);
    }

    fn drain(
        &self,
        origin: &Arc<ServerConnections>,
        deadline: Duration,
    ) -> Completion<DrainReport> {
        drain(origin, &self.group, deadline)
    }

    fn clock(&self) -> Clock {
        let first = self.group.loops().iter().next();
        first.map_or_else(Clock::system, |one| one.clock().clone())
    }
}

/// Whether a listener is to end, and how. The first request counts.
mod end {
    /// It accepts.
    pub(super) const NONE: u8 = 0;
    /// It accepts the connections that wait, and closes its socket.
    pub(super) const STOP: u8 = 1;
    /// It accepts no more, and hands its socket out.
    pub(super) const RELEASE: u8 = 2;
}

/// The state that the handles of a server share with one listener.
pub(crate) struct ListenerShared {
    config: Config,
    token: AtomicU64,
    /// One of the constants in `end`.
    end: AtomicU8,
    /// `true` if the pause for lack of descriptors has ended.
    resume: AtomicBool,
    /// `true` if the user has ended a pause.
    look_again: AtomicBool,
    finished: AtomicBool,
}

impl ListenerShared {
    pub(super) fn new(config: Config) -> Arc<SignalBlock<Self>> {
        SignalBlock::new(Self {
            config,
            token: AtomicU64::new(0),
            end: AtomicU8::new(end::NONE),
            resume: AtomicBool::new(false),
            look_again: AtomicBool::new(false),
            finished: AtomicBool::new(false),
        })
    }

    /// Ends the listener after the connections that wait to be accepted.
    pub(super) fn stop(block: &Arc<SignalBlock<Self>>) {
        Self::request_end(block, end::STOP);
    }

    /// Ends the listener, which keeps its socket for the user.
    pub(super) fn release(block: &Arc<SignalBlock<Self>>) {
        Self::request_end(block, end::RELEASE);
    }

    fn request_end(block: &Arc<SignalBlock<Self>>, how: u8) {
        let relaxed = Ordering::Relaxed;
        let _ = block.end.compare_exchange(end::NONE, how, relaxed, relaxed);
        Self::wake(block);
    }

    /// Makes the listener accept the connections that came during a pause.
    pub(super) fn look_again(block: &Arc<SignalBlock<Self>>) {
        block.look_again.store(true, Ordering::Relaxed);
        Self::wake(block);
    }

    /// Wakes the listener, so that it checks its flags.
    fn wake(block: &Arc<SignalBlock<Self>>) {
        if let Some(signal) = block.raise()
            && let Err(refused) = block.config.home.executor.signal(signal)
        {
            drop(refused);
        }
    }

    /// Reports an error of the server to the hook for unhandled errors.
    #[cold]
    fn report(&self, what: &dyn fmt::Display) {
        let message = &*what.to_string();
        let executor = &self.config.home.executor;
        executor.unhandled(&Unhandled::ChannelError { message });
    }

    /// Reports that no connections are accepted to the hook for unhandled errors. The default hook
    /// leaves it to the event `accept_failed`, if there was one.
    #[cold]
    fn report_pause(&self, is_traced: bool, what: &dyn fmt::Display) {
        let message = &*what.to_string();
        let executor = &self.config.home.executor;
        executor.unhandled(&Unhandled::AcceptPaused { message, is_traced });
    }

    #[cold]
    fn trace_refusal(&self, limit: LimitReached) {
        if trace::is_on() {
            let now = self.config.timers.clock().nanos();
            self.config.port.trace_refusal(limit, now);
        }
    }

    fn finish(&self) {
        if !self.finished.swap(true, Ordering::Relaxed) {
            self.config.port.leave();
        }
    }
}

impl Deliver for ListenerShared {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        let token = Token::from_bits(block.token.load(Ordering::Relaxed));
        let readiness = Readiness::REQUESTS;
        let told = how != Delivery::Orphaned
            && match &block.config.home.roam {
                Some(roam) => roam.push(Update::Requests(token)).is_ok(),
                None => reactor::dispatch(Ready { token, readiness }),
            };
        if !told {
            block.finish();
        }
    }
}

/// Counts a listener out when dropped.
struct ListenerEndGuard(Arc<SignalBlock<ListenerShared>>);

impl Deref for ListenerEndGuard {
    type Target = Arc<SignalBlock<ListenerShared>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for ListenerEndGuard {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// A listening socket as an event source of its loop.
pub(super) struct ListenerCore {
    /// `None` once it was handed out.
    listener: Option<Listening>,
    /// Dropped after the socket, so that the port is free when the end is reported.
    accepting: ListenerEndGuard,
    spare: SpareDescriptor,
    /// `true` while there are no descriptors.
    paused: bool,
    /// `true` if the poller was told to leave the socket alone.
    unwatched: bool,
    /// The number of connections that may still be accepted after the listener was stopped.
    left: usize,
    failures: EventLimit,
}

impl ListenerCore {
    pub(super) fn new(
        listener: Listening,
        accepting: Arc<SignalBlock<ListenerShared>>,
        token: Token,
    ) -> Self {
        accepting.token.store(token.bits(), Ordering::Relaxed);
        let left = accepting.config.backlog;
        let weak = Arc::downgrade(&accepting);
        listener.on_arrival(move || {
            if let Some(accepting) = weak.upgrade() {
                ListenerShared::look_again(&accepting);
            }
        });
        Self {
            listener: Some(listener),
            accepting: ListenerEndGuard(accepting),
            spare: SpareDescriptor::new(),
            paused: false,
            unwatched: false,
            left,
            failures: EventLimit::new(),
        }
    }

    /// Accepts waiting connections. Returns `true` if there may be more.
    fn accept(&mut self, io_context: &mut IoContext) -> bool {
        let (mut failed, mut last) = (0, None);
        for _ in 0..ACCEPTS {
            if self.accepting.config.port.is_paused() {
                return false;
            }
            match self.accept_one(io_context) {
                Ok(()) => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return false,
                Err(why) if is_out_of_descriptors(&why) => {
                    let is_traced = self.trace_failure(&why);
                    self.pause(&why, is_traced, io_context);
                    return false;
                }
                // The connection was gone before it was accepted, or similar: try the next one.
                Err(why) => {
                    let is_traced = self.trace_failure(&why);
                    failed += 1;
                    last = Some((why, is_traced));
                }
            }
        }
        if let Some((why, is_traced)) = last.filter(|_| failed == ACCEPTS) {
            // All accepts failed, so this is not about single connections: retrying would never
            // end.
            self.pause(&why, is_traced, io_context);
            return false;
        }
        true
    }

    /// Accepts the connections that came before the server was closed, in several turns, then
    /// leaves the event loop. These clients are already connected, and closing the socket would
    /// reset them.
    fn accept_backlog(&mut self, io_context: &mut IoContext) -> Next {
        for _ in 0..ACCEPTS {
            let over = self.accepting.config.port.origin().is_over();
            if over || self.left == 0 {
                return Next::Leave;
            }
            self.left -= 1;
            match self.accept_one(io_context) {
                Ok(()) => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Next::Leave,
                Err(why) if is_out_of_descriptors(&why) => {
                    let is_traced = self.trace_failure(&why);
                    let at = self.place();
                    self.accepting.report_pause(
                        is_traced,
                        &format_args!(
                            "the server on {at} is closed and cannot accept those that wait: {why}"
                        ),
                    );
                    return Next::Leave;
                }
                Err(_) => {}
            }
        }
        Next::Again(Readiness::READ)
    }

    /// Reports a failure to the subscriber of `tracing`. Returns `true` if there is one.
    #[cold]
    fn trace_failure(&self, why: &io::Error) -> bool {
        if !trace::is_on() {
            return false;
        }
        let now = self.accepting.config.timers.clock().nanos();
        trace::accept_failed(&self.failures, now, &self.place(), why)
    }

    /// Accepts one connection and hands it to its event loop.
    fn accept_one(&self, io_context: &IoContext) -> io::Result<()> {
        let Some(listener) = &self.listener else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let (transport, peer) = listener.accept()?;
        io_context.counters.accepted.add(1);
        let children = &self.accepting.config.children;
        children.place_connection(&self.accepting, transport, peer);
        Ok(())
    }

    /// Returns where the socket listens, for reports.
    fn place(&self) -> String {
        let listener = self.listener.as_ref();
        listener.map_or_else(|| "a socket".to_owned(), Listening::place)
    }

    /// Leaves the event loop with the socket open: first the poller lets go of it. Connections that
    /// wait to be accepted stay with the socket.
    fn leave_with_socket(&mut self) -> Next {
        if !std::mem::replace(&mut self.unwatched, true) {
            return Next::Watch(false);
        }
        self.hand_out();
        Next::Leave
    }

    fn hand_out(&mut self) {
        if let Some(listener) = self.listener.take() {
            let config = &self.accepting.config;
            config.port.keep(config.at, listener);
        }
    }

    /// Pauses accepting, usually because there are no descriptors left. The clients wait. The
    /// connections that are open may use the spare descriptor meanwhile.
    fn pause(&mut self, why: &io::Error, is_traced: bool, io_context: &mut IoContext) {
        io_context.counters.accept_pauses.add(1);
        self.spare.release();
        self.paused = true;
        let accepting = Arc::clone(&self.accepting);
        let config = &self.accepting.config;
        let resume: TimedWork = Box::new(move || {
            accepting.resume.store(true, Ordering::Relaxed);
            ListenerShared::wake(&accepting);
        });
        let scheduled = config.timers.schedule(PAUSE, resume);
        // Without timers the event loop is shutting down, and the listener with it.
        drop(scheduled);
        let at = self.place();
        self.accepting.report_pause(
            is_traced,
            &format_args!("the server on {at} accepts no connections for {PAUSE:?}: {why}"),
        );
    }

    /// Ends the pause, unless there are still no descriptors. Returns `true` if it has ended.
    fn end_pause(&mut self, io_context: &mut IoContext) -> bool {
        self.paused = false;
        let Err(why) = self.spare.take_back() else {
            return true;
        };
        let is_traced = self.trace_failure(&why);
        self.pause(&why, is_traced, io_context);
        false
    }
}

/// A connection that is counted and has no channel yet.
struct AcceptedConnection {
    origin: Option<Arc<ServerConnections>>,
    peer: Option<SocketAddr>,
}

impl AcceptedConnection {
    /// Counts a connection of `peer`. Returns the limit of the server that refuses it, if one does.
    fn of(origin: &Arc<ServerConnections>, peer: Option<SocketAddr>) -> Result<Self, LimitReached> {
        origin.reserve(peer)?;
        Ok(Self {
            origin: Some(Arc::clone(origin)),
            peer,
        })
    }

    /// Hands the count over to the channel, which counts itself out.
    fn settle(mut self) -> Option<Arc<ServerConnections>> {
        self.origin.take().inspect(|origin| origin.count_accepted())
    }
}

impl Drop for AcceptedConnection {
    fn drop(&mut self) {
        if let Some(origin) = &self.origin {
            origin.connection_closed(self.peer);
        }
    }
}

/// Creates the channel of an accepted connection, on its event loop.
fn place_connection<P: ChannelPlacement>(
    home: Home,
    options: Arc<ChannelOptions>,
    initialise: &Initialiser<P>,
    arrival: AcceptedConnection,
    transport: Transport,
    peer: Peer,
) {
    transport.set_options(&options);
    let local = transport.local_addr();
    let shared = Shared::new(home, options, (local, peer), arrival.settle());
    let checked = match assemble(initialise, Head::BYTES) {
        Ok(checked) => checked,
        Err(why) => {
            // The handlers fitted each other when the server was bound and do not fit now. The
            // connection is closed, and is counted out when `shared` is dropped.
            let message = format!("a connection was refused: {why}");
            let executor = shared.executor();
            return executor.unhandled(&Unhandled::ChannelError { message: &message });
        }
    };
    let channel = Channel::of(Arc::clone(&shared));
    P::place(ChannelPlacer {
        transport,
        parts: PipelineState::new(shared),
        checked,
        start: Start::Open,
    });
    if let Some(origin) = channel.shared().origin().cloned() {
        check_drain(&origin, channel);
    }
}

impl Batched for ListenerCore {}

impl IoSource for ListenerCore {
    fn ready(&mut self, readiness: Readiness, io_context: &mut IoContext) -> Next {
        match self.accepting.end.load(Ordering::Relaxed) {
            end::NONE => {}
            end::RELEASE => return self.leave_with_socket(),
            _ => return self.accept_backlog(io_context),
        }
        // A broken listener shows in the errors of its accepts.
        let told = Readiness::READ | Readiness::HANG_UP | Readiness::ERROR;
        let mut due = readiness.any(told);
        if self.accepting.resume.swap(false, Ordering::Relaxed) {
            due |= self.end_pause(io_context);
        }
        due |= self.accepting.look_again.swap(false, Ordering::Relaxed);
        if due && !self.paused && self.accept(io_context) {
            return Next::Again(Readiness::READ);
        }
        Next::Stay
    }

    fn io(&mut self) -> Option<&mut dyn Source> {
        self.listener.as_mut().and_then(Listening::source)
    }

    fn close(&mut self, _: &mut IoContext) {
        if self.accepting.end.load(Ordering::Relaxed) == end::RELEASE {
            self.hand_out();
        }
    }

    fn dump(&self, name: &str) -> Dump {
        let port = &self.accepting.config.port;
        let paused = self.paused || port.is_paused();
        let state = match (self.accepting.end.load(Ordering::Relaxed), paused) {
            (end::NONE, true) => "paused",
            (end::NONE, false) => "accepting",
            (_, _) => "stopped",
        };
        let connections = port.origin();
        Dump::new("listener", name)
            .fact("state", state)
            .fact("connections", connections.live())
            .fact("accepted", connections.accepted())
    }
}

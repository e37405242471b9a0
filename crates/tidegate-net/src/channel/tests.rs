//! A channel by itself: its size while idle, and what it does with bytes that it received before
//! its turn.

use std::io::{Read, Write};
use std::mem::size_of;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::internal::SignalBlock;
use tidegate_loop::{EventLoop, ManualLoop, Pinned};
use tidegate_promise::{Completion, Failure, promise};
use tidegate_testkit::{Log, has};

use super::*;
use crate::awaited::Awaited;
use crate::channel::read_size::ReadSize;
use crate::message::Msg;
use crate::pipeline::{
    Action, Erased, Head, Inbound, InboundContext, Pipeline, PipelineBuilder, PipelineState,
};
use crate::reactor::{Batched, IoContext, IoSource, Next, PollDriver, register};
use crate::sys::{self, Adopted, FakePoller, Readiness, Token};
use crate::{Nothing, Registered, UserEvent};

#[test]
fn an_idle_channel_is_small() {
    let sizes = (
        size_of::<ChannelCore<Pipeline<dyn Erased>>>(),
        size_of::<SignalBlock<Shared>>(),
        size_of::<PipelineState>(),
        size_of::<Action>(),
    );
    // With debug assertions, a mio socket also stores its poller, in 16 bytes.
    let most = if cfg!(debug_assertions) { 656 } else { 640 };
    assert!(sizes.0 + sizes.1 <= most, "{sizes:?}");
}

/// Returns the log entry for an error of the operating system.
fn kind_of(why: &Failure) -> String {
    let kind = why.downcast_ref::<std::io::Error>().unwrap().kind();
    format!("error: {kind:?}")
}

/// A handler that logs its events.
struct Notes(Log<String>);

impl Inbound for Notes {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push(String::from_utf8_lossy(&bytes).into_owned());
    }

    fn error(&mut self, why: Failure, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push(kind_of(&why));
    }

    fn event(&mut self, event: UserEvent, _ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Registered>().is_some() {
            self.0.push("on".to_owned());
        }
    }

    fn inactive(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push("inactive".to_owned());
    }
}

/// A handler that echoes what it reads.
struct EchoThen {
    log: Log<String>,
    then: fn(&mut InboundContext<'_, Self>),
}

impl Inbound for EchoThen {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(bytes);
        ctx.flush();
        (self.then)(ctx);
    }

    fn error(&mut self, why: Failure, _ctx: &mut InboundContext<'_, Self>) {
        self.log.push(kind_of(&why));
    }

    fn inactive(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.log.push("inactive".to_owned());
    }
}

/// Returns the two ends of a connection.
fn connected() -> (Transport, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    let transport = Transport::tcp(sys::TcpStream::adopt(socket).unwrap());
    (transport, peer)
}

/// A channel that the test drives in place of a loop, and its peer.
struct Fixture {
    core: ChannelCore<Pipeline>,
    io_context: IoContext,
    /// `None` once the peer is gone.
    peer: Option<TcpStream>,
    log: Log<String>,
    _home: (EventLoop, ManualLoop),
}

impl Fixture {
    fn new() -> Self {
        Self::with_options(ChannelOptions::default())
    }

    fn with_options(options: ChannelOptions) -> Self {
        let (transport, peer) = connected();
        Self::of(transport, Some(peer), options)
    }

    /// Creates a channel whose handler echoes what it reads and then runs `then`.
    fn echoing(then: fn(&mut InboundContext<'_, EchoThen>)) -> Self {
        let (transport, peer) = connected();
        let answers = |log| PipelineBuilder::<Pinned>::new().add("answers", EchoThen { log, then });
        Self::assembled(transport, Some(peer), ChannelOptions::default(), answers)
    }

    fn of(transport: Transport, peer: Option<TcpStream>, options: ChannelOptions) -> Self {
        let datagrams = matches!(transport, Transport::Udp(_));
        Self::assembled(transport, peer, options, |log| match datagrams {
            true => PipelineBuilder::<Pinned>::new(),
            false => PipelineBuilder::<Pinned>::new().add("notes", Notes(log)),
        })
    }

    fn assembled(
        transport: Transport,
        peer: Option<TcpStream>,
        options: ChannelOptions,
        assemble: impl FnOnce(Log<String>) -> PipelineBuilder<Pinned>,
    ) -> Self {
        let (poller, _script) = FakePoller::new();
        let home = EventLoop::builder("alone")
            .build_manual_with_driver(PollDriver::new(poller))
            .unwrap();
        let of_channel = Home {
            executor: home.0.executor(),
            roam: None,
        };
        let log = Log::new();
        let datagrams = matches!(transport, Transport::Udp(_));
        let checked = assemble(log.clone()).checked(Head::BYTES).unwrap();
        let shared = Shared::new(of_channel, Arc::new(options), (None, Peer::Unknown), None);
        let mut parts = PipelineState::new(shared);
        if datagrams {
            parts.io.take_datagrams();
        }
        let pipeline = <Pipeline>::new(parts, checked);
        let mut fixture = Self {
            core: ChannelCore::new(transport, pipeline, Start::Open, Token::new(0, 1)),
            io_context: IoContext::new(Arc::default()),
            peer,
            log,
            _home: home,
        };
        assert_eq!(fixture.deliver(Readiness::REQUESTS), Next::Stay);
        fixture
    }

    fn peer(&self) -> &TcpStream {
        self.peer.as_ref().unwrap()
    }

    fn send(&mut self, bytes: &[u8]) {
        self.peer().write_all(bytes).unwrap();
    }

    fn receive_early(&mut self) {
        self.core
            .receive_early(Readiness::READ, &mut self.io_context);
    }

    /// Returns the next `count` bytes that the peer receives.
    fn answer(&self, count: usize) -> String {
        let mut answer = vec![0; count];
        self.peer().read_exact(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }

    fn deliver(&mut self, readiness: Readiness) -> Next {
        self.core.ready(readiness, &mut self.io_context)
    }

    fn request_registration(&mut self, on: bool) -> Completion<()> {
        let (promise, done) = promise();
        self.core
            .request_registration(on, promise, &mut self.io_context);
        assert_eq!(self.core.finish(true), Next::Watch(on));
        self.core.on_watch_result(Ok(()));
        self.deliver(Readiness::REQUESTS);
        done
    }

    fn reads(&self) -> u64 {
        self.io_context.counters.reads.get()
    }
}

#[test]
fn early_data_is_delivered_in_turn_and_once() {
    let mut fixture = Fixture::new();
    fixture.send(b"first");
    fixture.receive_early();
    fixture.send(b"second");
    fixture.receive_early();
    assert_eq!((fixture.log.take().len(), fixture.reads()), (0, 1));
    assert_eq!(fixture.deliver(Readiness::READ), Next::Stay);
    assert_eq!(
        (fixture.log.take(), fixture.reads()),
        (vec!["first".into()], 1)
    );
    assert_eq!(fixture.deliver(Readiness::READ), Next::Stay);
    assert_eq!(
        (fixture.log.take(), fixture.reads()),
        (vec!["second".into()], 2)
    );
}

#[test]
fn it_is_kept_while_the_channel_does_not_want_to_read() {
    let mut fixture = Fixture::new();
    fixture.send(b"kept");
    fixture.receive_early();
    fixture.core.pipeline.set_auto_read(false);
    assert_eq!(fixture.deliver(Readiness::READ), Next::Stay);
    fixture.receive_early();
    assert_eq!(fixture.log.take(), [""; 0]);
    fixture.send(b" more");
    fixture.core.pipeline.set_auto_read(true);
    assert_eq!(fixture.deliver(Readiness::REQUESTS), Next::Stay);
    fixture.deliver(Readiness::READ);
    assert_eq!(fixture.log.take(), ["kept", " more"]);
}

#[test]
fn it_is_kept_while_the_channel_is_off_its_loop() {
    let mut fixture = Fixture::new();
    fixture.send(b"kept");
    fixture.receive_early();
    fixture.request_registration(false).wait().unwrap();
    assert_eq!(fixture.deliver(Readiness::READ), Next::Stay);
    assert_eq!(fixture.log.take(), [""; 0]);
    fixture.request_registration(true).wait().unwrap();
    assert_eq!(fixture.log.take(), ["on", "kept"]);
}

#[test]
fn the_end_of_the_peer_may_come_behind_it_or_instead_of_it() {
    for sent in [&b"last words"[..], b""] {
        let mut fixture = Fixture::new();
        fixture.send(sent);
        let received = if sent.is_empty() { 1 } else { 2 };
        fixture.peer().shutdown(std::net::Shutdown::Write).unwrap();
        fixture.receive_early();
        let next = fixture.deliver(Readiness::READ | Readiness::HANG_UP);
        assert_eq!(next, Next::Leave);
        let log = fixture.log.take();
        assert_eq!(log.len(), received, "{log:?}");
        assert_eq!(log.last().unwrap(), "inactive");
    }
}

#[test]
fn an_error_of_the_early_receive_is_delivered() {
    let mut fixture = Fixture::new();
    let peer = socket2::SockRef::from(fixture.peer());
    peer.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    fixture.peer = None;
    fixture.receive_early();
    assert_eq!(fixture.deliver(Readiness::READ), Next::Leave);
    assert_eq!(fixture.log.take(), ["error: ConnectionReset", "inactive"]);
}

#[test]
fn a_channel_that_is_closed_before_its_turn_delivers_nothing() {
    let mut fixture = Fixture::new();
    fixture.send(b"too late");
    fixture.receive_early();
    IoSource::close(&mut fixture.core, &mut fixture.io_context);
    assert_eq!(fixture.deliver(Readiness::READ), Next::Leave);
    assert_eq!(fixture.log.take(), ["inactive"]);
}

#[test]
fn a_channel_with_a_large_read_size_is_received_in_its_turn() {
    let options = ChannelOptions {
        read_size: ReadSize::fixed(4096).unwrap(),
        ..ChannelOptions::default()
    };
    let mut fixture = Fixture::with_options(options);
    fixture.send(b"patience");
    fixture.receive_early();
    assert_eq!(fixture.reads(), 0);
    fixture.deliver(Readiness::READ);
    assert_eq!(fixture.log.take(), ["patience"]);
}

#[test]
fn reads_of_less_than_the_least_offer_teach_nothing() {
    let mut fixture = Fixture::new();
    for _ in 0..20 {
        fixture.send(b"little");
        fixture.deliver(Readiness::READ);
    }
    assert_eq!(fixture.core.size.next(), transport::SLACK);
}

#[test]
fn a_graceful_end_waits_for_datagrams_that_the_socket_did_not_take() {
    let socket = sys::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (to, from) = (
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
        socket.local_addr().unwrap(),
    );
    let options = ChannelOptions {
        receive_buffer: Some(100_000),
        ..ChannelOptions::default()
    };
    let transport = Transport::Udp(socket);
    transport.set_options(&options);
    let Transport::Udp(socket) = &transport else {
        unreachable!("it was made above");
    };
    let size = socket2::SockRef::from(socket).recv_buffer_size().unwrap();
    assert_eq!(size, 200_000, "the system counts its own share");
    let mut fixture = Fixture::of(transport, None, options);
    fixture.core.set(crate::channel::Flags::WRITE_BLOCKED);
    let bytes = Bytes::from_static(b"last");
    let peer = to.local_addr().unwrap();
    let datagram = Msg::of(Datagram { bytes, peer });
    fixture.core.pipeline.write(datagram, None);
    fixture.core.pipeline.out(OutOp::CloseWhenFlushed);
    fixture.core.carry_out(&mut fixture.io_context);
    assert_eq!(fixture.core.finish(false), Next::Stay);
    assert_eq!(fixture.deliver(Readiness::WRITE), Next::Leave);
    let mut received = [0; 8];
    assert_eq!(to.recv_from(&mut received).unwrap(), (4, from));
}

#[test]
fn a_connect_whose_loop_cannot_watch_it_says_why() {
    let (poller, script) = FakePoller::new();
    let (home, mut manual_loop) = EventLoop::builder("full")
        .build_manual_with_driver(PollDriver::new(poller))
        .unwrap();
    let of_channel = Home {
        executor: home.executor(),
        roam: None,
    };
    let shared = Shared::new(of_channel, Arc::default(), (None, Peer::Unknown), None);
    let channel = Channel::of(Arc::clone(&shared));
    let pipeline = <Pipeline>::new(PipelineState::new(shared), Vec::new());
    let socket = sys::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (promise, done) = promise();
    let promise = Awaited::new(promise, "cannot open".to_owned(), home.executor());
    let start = Start::Connecting(Box::new(Connecting {
        promise,
        timeout: None,
    }));
    script.refuse(std::io::ErrorKind::StorageFull);
    let refused = manual_loop.run(move || {
        register(|token| {
            let transport = Transport::Udp(socket);
            Box::new(ChannelCore::new(transport, pipeline, start, token))
        })
    });
    assert!(refused.is_err());
    let why = done.wait().unwrap_err().to_string();
    assert!(why.contains("storage"), "{why}");
    let cause = channel.close_cause().unwrap().to_string();
    assert!(cause.contains("storage"), "{cause}");
}

#[test]
fn what_a_handler_requests_in_its_read_is_carried_out_in_its_turn() {
    let mut fixture = Fixture::echoing(|ctx| {
        ctx.write(Bytes::from_static(b" again"));
        ctx.flush();
    });
    fixture.send(b"hello");
    assert_eq!(fixture.deliver(Readiness::READ), Next::Stay);
    assert_eq!(fixture.answer(11), "hello again");

    let mut fixture = Fixture::echoing(|ctx| ctx.shutdown_output());
    fixture.send(b"last");
    assert_eq!(fixture.deliver(Readiness::READ), Next::Stay);
    assert_eq!(fixture.answer(4), "last");
    assert_eq!(fixture.peer().read(&mut [0]).unwrap(), 0);

    let mut fixture = Fixture::echoing(|ctx| ctx.hold(7).unwrap());
    fixture.send(b"held");
    assert_eq!(fixture.deliver(Readiness::READ), Next::Stay);
    assert_eq!(fixture.answer(4), "held");

    let mut fixture = Fixture::echoing(|ctx| ctx.close());
    fixture.send(b"bye");
    assert_eq!(fixture.deliver(Readiness::READ), Next::Leave);
    assert_eq!(
        (fixture.answer(3), fixture.log.take().len()),
        ("bye".into(), 1)
    );
}

#[test]
fn a_channel_that_ends_before_it_is_active_calls_no_handlers() {
    let (transport, _peer) = connected();
    let (log, own) = Log::pair();
    let assembly = PipelineBuilder::<Pinned>::new().add("lives", Lives(own));
    let (home, _hand) = EventLoop::builder("alone").build_manual().unwrap();
    let of_channel = Home {
        executor: home.executor(),
        roam: None,
    };
    let shared = Shared::new(of_channel, Arc::default(), (None, Peer::Unknown), None);
    let channel = Channel::of(Arc::clone(&shared));
    let checked = assembly.checked(Head::BYTES).unwrap();
    let pipeline = <Pipeline>::new(PipelineState::new(shared), checked);
    let mut core = ChannelCore::new(transport, pipeline, Start::Open, Token::new(0, 1));
    IoSource::close(&mut core, &mut IoContext::new(Arc::default()));
    drop(core);
    assert!(channel.closed().is_done());
    assert_eq!(log.take(), ["dropped"]);
}

/// A handler that logs its own lifecycle.
struct Lives(Log<&'static str>);

impl Inbound for Lives {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn added(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push("added");
    }

    fn removed(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push("removed");
    }

    fn read(&mut self, _bytes: Bytes, _ctx: &mut InboundContext<'_, Self>) {}
}

impl Drop for Lives {
    fn drop(&mut self) {
        self.0.push("dropped");
    }
}

#[test]
fn an_accepted_connection_that_its_loop_cannot_watch_goes_to_the_hook() {
    let (log, received) = Log::pair();
    let (poller, script) = FakePoller::new();
    let (home, mut manual_loop) = EventLoop::builder("full")
        .on_unhandled(move |_, what| received.push(what.to_string()))
        .build_manual_with_driver(PollDriver::new(poller))
        .unwrap();
    let of_channel = Home {
        executor: home.executor(),
        roam: None,
    };
    let peer = Peer::Address("127.0.0.1:7".parse().unwrap());
    let shared = Shared::new(of_channel, Arc::default(), (None, peer), None);
    let channel = Channel::of(Arc::clone(&shared));
    let socket = sys::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    script.refuse(std::io::ErrorKind::StorageFull);
    manual_loop.run(move || {
        <Pinned as crate::group::ChannelPlacement>::place(crate::group::ChannelPlacer {
            transport: Transport::Udp(socket),
            parts: PipelineState::new(shared),
            checked: Vec::new(),
            start: Start::Open,
        });
    });
    log.wait_for(1);
    let received = log.take().remove(0);
    has(&received, ["storage", "127.0.0.1:7"]);
    assert!(channel.close_cause().is_some());
}

//! A channel by itself: what it costs while nothing happens, and what it does with bytes that it
//! received before its turn.

use std::io::Write;
use std::mem::size_of;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use bytes::Bytes;
use tidegate_exec::{EventLoop, HandLoop, Pinned};
use tidegate_promise::{Completion, Failure, promise};
use tidegate_testkit::Log;

use super::*;
use crate::driver::PollDriver;
use crate::pipeline::{
    Action, Assembly, Erased, Head, Inbound, InboundContext, OutOp, Parts, Pipeline,
};
use crate::reactor::{Desk, EventSource, Next, register};
use crate::read_size::ReadSize;
use crate::sys::{FakePoller, Readiness, Token};
use crate::{Nothing, Registered, UserEvent};

#[test]
fn an_idle_channel_is_small() {
    let sizes = (
        size_of::<ChannelCore<dyn Erased>>(),
        size_of::<SignalBlock<Shared>>(),
        size_of::<Parts>(),
        size_of::<Action>(),
    );
    assert!(sizes.0 + sizes.1 <= 640, "{sizes:?}");
}

/// Notes what it hears.
struct Notes(Log<String>);

impl Inbound for Notes {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push(String::from_utf8_lossy(&bytes).into_owned());
    }

    fn error(&mut self, why: Failure, _ctx: &mut InboundContext<'_, Self>) {
        let kind = why.downcast_ref::<std::io::Error>().unwrap().kind();
        self.0.push(format!("error: {kind:?}"));
    }

    fn event(&mut self, event: UserEvent, _ctx: &mut InboundContext<'_, Self>) {
        if event.is::<Registered>().is_some() {
            self.0.push("on".to_owned());
        }
    }

    fn inactive(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push("inactive".to_owned());
    }
}

/// A channel whose loop is the test, and its peer.
struct Alone {
    core: ChannelCore,
    desk: Desk,
    /// Not there when it is gone.
    peer: Option<TcpStream>,
    log: Log<String>,
    _home: (EventLoop, HandLoop),
}

impl Alone {
    fn new() -> Self {
        Self::with_options(ChannelOptions::default())
    }

    fn with_options(options: ChannelOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let transport = Transport::Tcp(mio::net::TcpStream::from_std(socket));
        Self::of(transport, Some(peer), options)
    }

    fn of(transport: Transport, peer: Option<TcpStream>, options: ChannelOptions) -> Self {
        let (poller, _script) = FakePoller::new();
        let home = EventLoop::builder("alone")
            .build_by_hand_with(PollDriver::new(poller))
            .unwrap();
        let of_channel = Home {
            executor: home.0.executor(),
            roam: None,
        };
        let log = Log::new();
        let mut assembly = Assembly::<Pinned>::new();
        let datagrams = matches!(transport, Transport::Udp(_));
        if !datagrams {
            assembly = assembly.add("notes", Notes(log.clone()));
        }
        let checked = assembly.checked(Head::BYTES).unwrap();
        let shared = Shared::new(of_channel, Arc::new(options), (None, None), None);
        let mut parts = Parts::new(shared);
        if datagrams {
            parts.take_datagrams();
        }
        let pipeline = <Pipeline>::new(parts, checked);
        let mut alone = Self {
            core: ChannelCore::new(transport, pipeline, Start::Open, Token::new(0, 1)),
            desk: Desk::new(Arc::default()),
            peer,
            log,
            _home: home,
        };
        assert_eq!(alone.tell(Readiness::MAIL), Next::Stay);
        alone
    }

    fn peer(&self) -> &TcpStream {
        self.peer.as_ref().unwrap()
    }

    fn send(&mut self, bytes: &[u8]) {
        self.peer().write_all(bytes).unwrap();
    }

    fn receive_ahead(&mut self) {
        self.core.receive_ahead(Readiness::READ, &mut self.desk);
    }

    fn tell(&mut self, readiness: Readiness) -> Next {
        self.core.ready(readiness, &mut self.desk)
    }

    fn wish(&mut self, on: bool) -> Completion<()> {
        let (promise, done) = promise();
        self.core.wish(on, promise, &mut self.desk);
        assert_eq!(self.core.finish(true), Next::Watch(on));
        self.core.watched(Ok(()));
        self.tell(Readiness::MAIL);
        done
    }

    fn reads(&self) -> u64 {
        self.desk.counters.reads.get()
    }
}

#[test]
fn what_came_before_its_turn_is_told_in_its_turn_and_once() {
    let mut alone = Alone::new();
    alone.send(b"first");
    alone.receive_ahead();
    alone.send(b"second");
    alone.receive_ahead();
    assert_eq!((alone.log.take().len(), alone.reads()), (0, 1));
    assert_eq!(alone.tell(Readiness::READ), Next::Stay);
    assert_eq!((alone.log.take(), alone.reads()), (vec!["first".into()], 1));
    assert_eq!(alone.tell(Readiness::READ), Next::Stay);
    assert_eq!(
        (alone.log.take(), alone.reads()),
        (vec!["second".into()], 2)
    );
}

#[test]
fn it_is_kept_while_the_channel_does_not_want_to_read() {
    let mut alone = Alone::new();
    alone.send(b"kept");
    alone.receive_ahead();
    alone.core.pipeline.set_auto_read(false);
    assert_eq!(alone.tell(Readiness::READ), Next::Stay);
    alone.receive_ahead();
    assert_eq!(alone.log.take(), [""; 0]);
    alone.send(b" more");
    alone.core.pipeline.set_auto_read(true);
    assert_eq!(alone.tell(Readiness::MAIL), Next::Stay);
    alone.tell(Readiness::READ);
    assert_eq!(alone.log.take(), ["kept", " more"]);
}

#[test]
fn it_is_kept_while_the_channel_is_off_its_loop() {
    let mut alone = Alone::new();
    alone.send(b"kept");
    alone.receive_ahead();
    alone.wish(false).wait().unwrap();
    assert_eq!(alone.tell(Readiness::READ), Next::Stay);
    assert_eq!(alone.log.take(), [""; 0]);
    alone.wish(true).wait().unwrap();
    assert_eq!(alone.log.take(), ["on", "kept"]);
}

#[test]
fn the_end_of_the_peer_may_come_behind_it_or_instead_of_it() {
    for sent in [&b"last words"[..], b""] {
        let mut alone = Alone::new();
        alone.send(sent);
        let heard = if sent.is_empty() { 1 } else { 2 };
        alone.peer().shutdown(std::net::Shutdown::Write).unwrap();
        alone.receive_ahead();
        let next = alone.tell(Readiness::READ | Readiness::HANG_UP);
        assert_eq!(next, Next::Leave);
        let log = alone.log.take();
        assert_eq!(log.len(), heard, "{log:?}");
        assert_eq!(log.last().unwrap(), "inactive");
    }
}

#[test]
fn an_error_that_only_the_early_receive_saw_is_told() {
    let mut alone = Alone::new();
    let peer = socket2::SockRef::from(alone.peer());
    peer.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    alone.peer = None;
    alone.receive_ahead();
    assert_eq!(alone.tell(Readiness::READ), Next::Leave);
    assert_eq!(alone.log.take(), ["error: ConnectionReset", "inactive"]);
}

#[test]
fn a_channel_that_is_closed_before_its_turn_tells_nothing() {
    let mut alone = Alone::new();
    alone.send(b"too late");
    alone.receive_ahead();
    EventSource::close(&mut alone.core, &mut alone.desk);
    assert_eq!(alone.tell(Readiness::READ), Next::Leave);
    assert_eq!(alone.log.take(), ["inactive"]);
}

#[test]
fn who_reads_much_at_a_time_waits_for_its_turn() {
    let options = ChannelOptions {
        read_size: ReadSize::fixed(4096).unwrap(),
        ..ChannelOptions::default()
    };
    let mut alone = Alone::with_options(options);
    alone.send(b"patience");
    alone.receive_ahead();
    assert_eq!(alone.reads(), 0);
    alone.tell(Readiness::READ);
    assert_eq!(alone.log.take(), ["patience"]);
}

#[test]
fn a_gentle_end_waits_for_datagrams_that_the_socket_did_not_take() {
    let socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
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
    let mut alone = Alone::of(transport, None, options);
    alone.core.blocked = true;
    let bytes = Bytes::from_static(b"last");
    let peer = to.local_addr().unwrap();
    let datagram = Msg::of(Datagram { bytes, peer });
    alone.core.pipeline.write(datagram, None);
    alone.core.pipeline.out(OutOp::CloseWhenFlushed);
    alone.core.carry_out(&mut alone.desk);
    assert_eq!(alone.core.finish(false), Next::Stay);
    assert_eq!(alone.tell(Readiness::WRITE), Next::Leave);
    let mut heard = [0; 8];
    assert_eq!(to.recv_from(&mut heard).unwrap(), (4, from));
}

#[test]
fn a_connect_whose_loop_cannot_watch_it_says_why() {
    let (poller, script) = FakePoller::new();
    let (home, mut hand) = EventLoop::builder("full")
        .build_by_hand_with(PollDriver::new(poller))
        .unwrap();
    let of_channel = Home {
        executor: home.executor(),
        roam: None,
    };
    let shared = Shared::new(of_channel, Arc::default(), (None, None), None);
    let channel = Channel::of(Arc::clone(&shared));
    let pipeline = <Pipeline>::new(Parts::new(shared), Vec::new());
    let socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (promise, done) = promise();
    let start = Start::Connecting(Box::new(Connecting {
        promise,
        timeout: None,
    }));
    script.refuse(std::io::ErrorKind::StorageFull);
    let refused = hand.run(move || {
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

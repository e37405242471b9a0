//! Channels over real sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::handlers::LineFrames;
use tidegate_net::{
    Channel, ChannelOptions, Client, Draining, Inbound, InboundContext, NetError, Nothing, Server,
    UserEvent, WaterMarks,
};
use tidegate_promise::{Completion, Promise};
use tidegate_testkit::{Gate, Log};

use crate::{Echo, dial, round_trip, serve};

/// Gives each connection's channel to a test.
struct Gives(Log<Channel>);

impl Inbound for Gives {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.0.push(ctx.channel());
        ctx.fire_active();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }
}

/// Notes what it reads.
struct Notes(Log<String>);

impl Inbound for Notes {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
        self.0.push(String::from_utf8_lossy(&bytes).into_owned());
    }
}

fn group(loops: usize) -> tidegate_net::NetGroup {
    tidegate_net::pinned("io", loops).unwrap()
}

fn first(log: &Log<Channel>) -> Channel {
    log.wait_for(1);
    log.take().remove(0)
}

#[test]
fn echoes_over_two_loops_and_keeps_each_connection_on_one() {
    let group = group(2);
    let log = Log::new();
    let own = log.clone();
    let server = serve(&group, move |p| {
        p.add("gives", Gives(own.clone())).add("echo", Echo)
    });
    let mut clients: Vec<_> = (0..4).map(|_| dial(&server)).collect();
    for client in &mut clients {
        assert_eq!(round_trip(client, b"hello"), b"hello");
    }
    let big: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
    for client in &mut clients {
        let mut write = client.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| write.write_all(&big).unwrap());
            let mut back = vec![0; big.len()];
            client.read_exact(&mut back).unwrap();
            assert_eq!(back, big);
        });
    }
    assert_eq!((server.connections(), server.accepted()), (4, 4));
    let mut loops: Vec<_> = log
        .take()
        .iter()
        .map(|channel| channel.loop_name().to_owned())
        .collect();
    loops.sort();
    assert_eq!(loops, ["io-0", "io-0", "io-1", "io-1"]);
}

#[test]
fn addresses_are_those_of_the_socket() {
    let group = group(1);
    let log = Log::new();
    let own = log.clone();
    let server = serve(&group, move |p| p.add("gives", Gives(own.clone())));
    let client = dial(&server);
    let channel = first(&log);
    assert_eq!(channel.peer_addr(), Some(client.local_addr().unwrap()));
    assert_eq!(channel.local_addr(), Some(server.local_addr()));
    assert!(channel.is_active());
}

#[test]
fn a_handle_writes_and_closes_from_another_thread() {
    let group = group(1);
    let log = Log::new();
    let own = log.clone();
    let server = serve(&group, move |p| p.add("gives", Gives(own.clone())));
    let mut client = dial(&server);
    let channel = first(&log);
    let sent = channel.write_with("hello");
    channel.flush();
    sent.wait().unwrap();
    channel.write("bye");
    channel.close_when_flushed().wait().unwrap();
    let mut all = String::new();
    client.read_to_string(&mut all).unwrap();
    assert_eq!(all, "hellobye");
    assert!(channel.write_with("late").wait().is_err());
}

#[test]
fn the_peers_end_closes_the_channel_and_frees_its_place() {
    let group = group(1);
    let log = Log::new();
    let own = log.clone();
    let server = serve(&group, move |p| p.add("gives", Gives(own.clone())));
    let client = dial(&server);
    let channel = first(&log);
    drop(client);
    channel.closed().wait().unwrap();
    assert!(!channel.is_active());
    group.iter().for_each(|one| one.settle());
    assert_eq!(group.io_metrics()[0].registered, 1, "the listener alone");
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_reset_is_the_cause_of_the_end() {
    let group = group(1);
    let log = Log::new();
    let own = log.clone();
    let server = serve(&group, move |p| p.add("gives", Gives(own.clone())));
    let client = dial(&server);
    let channel = first(&log);
    socket2::SockRef::from(&client)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(client);
    channel.closed().wait().unwrap();
    let cause = channel.close_cause().unwrap().to_string();
    assert!(cause.contains("reset"), "{cause}");
}

#[test]
fn half_closure_lets_the_answer_out() {
    /// Answers when the peer has said everything.
    struct Sums(usize);
    impl Inbound for Sums {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
            self.0 += bytes.len();
        }
        fn event(&mut self, _: UserEvent, ctx: &mut InboundContext<'_, Self>) {
            ctx.write(self.0.to_string());
            ctx.close_when_flushed();
        }
    }
    let group = group(1);
    let options = ChannelOptions {
        half_closure: true,
        ..ChannelOptions::default()
    };
    let server = Server::new(&group)
        .options(options)
        .pipeline(|p| p.add("sums", Sums(0)))
        .bind("127.0.0.1:0");
    let mut client = dial(&server.wait().unwrap());
    client.write_all(&[0; 1234]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "1234");
}

#[test]
fn a_slow_reader_stops_the_writer_at_the_marks_and_nothing_is_lost() {
    /// Writes `left` kilobytes as fast as it may.
    struct Pours(usize);
    impl Pours {
        fn pour(&mut self, ctx: &mut InboundContext<'_, Self>) {
            while self.0 > 0 && ctx.is_writable() {
                ctx.write(vec![7; 1024]);
                self.0 -= 1;
            }
            if self.0 == 0 {
                ctx.close_when_flushed();
            }
            ctx.flush();
        }
    }
    impl Inbound for Pours {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
            self.pour(ctx);
        }
        fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}
        fn writability(&mut self, _: bool, ctx: &mut InboundContext<'_, Self>) {
            self.pour(ctx);
        }
    }
    let group = group(1);
    let log = Log::new();
    let own = log.clone();
    let options = ChannelOptions {
        marks: WaterMarks::new(16 * 1024, 32 * 1024, 64 * 1024).unwrap(),
        send_buffer: Some(16 * 1024),
        ..ChannelOptions::default()
    };
    let server = Server::new(&group)
        .options(options)
        .pipeline(move |p| p.add("gives", Gives(own.clone())).add("pours", Pours(8192)))
        .bind("127.0.0.1:0");
    let mut client = dial(&server.wait().unwrap());
    let channel = first(&log);
    let mut buffer = vec![0; 50_000];
    let mut total = 0;
    loop {
        assert!(channel.pending_bytes() <= 34 * 1024);
        match client.read(&mut buffer).unwrap() {
            0 => break,
            count => total += count,
        }
    }
    assert_eq!(total, 8192 * 1024);
}

#[test]
fn one_byte_segments_make_the_same_lines() {
    struct Lines(Log<Bytes>);
    impl Inbound for Lines {
        type In = Bytes;
        type Out = Nothing;
        type Write = Nothing;
        fn read(&mut self, line: Bytes, _: &mut InboundContext<'_, Self>) {
            self.0.push(line);
        }
    }
    let group = group(1);
    let log = Log::new();
    let own = log.clone();
    let server = serve(&group, move |p| {
        p.add("lines", LineFrames::max(100))
            .add("log", Lines(own.clone()))
    });
    let mut client = dial(&server);
    client.set_nodelay(true).unwrap();
    for byte in b"one\r\ntwo\nthree\n" {
        client.write_all(&[*byte]).unwrap();
    }
    log.wait_for(3);
    assert_eq!(log.take(), ["one", "two", "three"]);
}

#[test]
fn a_handler_that_panics_hurts_its_own_connection_only() {
    struct Panics;
    impl Inbound for Panics {
        type In = Bytes;
        type Out = Bytes;
        type Write = Nothing;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            assert_ne!(bytes, "panic", "as asked");
            ctx.fire_read(bytes);
        }
    }
    let unhandled = Log::new();
    let heard = unhandled.clone();
    let loops = tidegate_exec::EventLoopGroup::builder("io")
        .loops(1)
        .on_unhandled(move |_, what| heard.push(what.to_string()));
    let group = tidegate_net::NetGroup::build(loops).unwrap();
    let server = serve(&group, |p| p.add("panics", Panics).add("echo", Echo));
    let (mut good, mut bad) = (dial(&server), dial(&server));
    assert_eq!(round_trip(&mut good, b"hello"), b"hello");
    bad.write_all(b"panic").unwrap();
    assert_eq!(bad.read(&mut [0; 8]).unwrap(), 0, "closed");
    assert_eq!(round_trip(&mut good, b"still here"), b"still here");
    let heard = unhandled.take();
    assert_eq!(heard.len(), 1);
    assert!(heard[0].contains("as asked"), "{heard:?}");
}

#[test]
fn a_client_connects_and_the_completion_has_the_channel() {
    let group = group(2);
    let server = serve(&group, |p| p.add("echo", Echo));
    let log = Log::new();
    let own = log.clone();
    struct Hears(Log<Bytes>);
    impl Inbound for Hears {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
            self.0.push(bytes);
        }
    }
    let client = Client::new(&group).pipeline(move |p| p.add("hears", Hears(own.clone())));
    let channel = client.connect(server.local_addr()).wait().unwrap();
    assert!(channel.is_active());
    channel.write_and_flush("hello");
    log.wait_for(1);
    assert_eq!(log.take(), ["hello"]);
    channel.close().wait().unwrap();
}

#[test]
fn a_refused_connect_fails_with_what_the_system_says() {
    let group = group(1);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let why = Client::new(&group).connect(address).wait().unwrap_err();
    assert!(why.to_string().contains("refused"), "{why}");
}

#[test]
fn a_name_that_does_not_resolve_and_handlers_that_do_not_fit_are_errors() {
    struct Nowhere;
    impl tidegate_net::Resolver for Nowhere {
        fn resolve(
            &self,
            _host: &str,
            _port: u16,
        ) -> tidegate_promise::Completion<Vec<std::net::SocketAddr>> {
            tidegate_promise::Completion::succeeded(Vec::new())
        }
    }
    let group = group(1);
    let client = Client::new(&group).resolver(Nowhere);
    let why = client.connect("nowhere.invalid:80").wait().unwrap_err();
    assert!(why.to_string().contains("`nowhere.invalid` has no address"));
    let misfit = Client::new(&group).pipeline(|p| p.add("echo", Echo).add("late", Echo));
    let why = misfit.connect("127.0.0.1:1").wait().unwrap_err();
    assert!(why.to_string().contains("`echo`") && why.to_string().contains("`late`"));
    let server = Server::new(&group).pipeline(|p| p.add("echo", Echo).add("late", Echo));
    assert!(server.bind("127.0.0.1:0").wait().is_err());
}

#[test]
fn an_address_in_use_is_an_error() {
    let group = group(1);
    let server = serve(&group, |p| p);
    let again = Server::new(&group).bind(server.local_addr());
    let why = again.wait().unwrap_err().to_string();
    assert!(why.contains("in use"), "{why}");
}

/// A listener whose queue is full, so that a connect to it does not end.
fn deaf() -> (TcpListener, Vec<socket2::Socket>) {
    let socket = || {
        let (domain, kind) = (socket2::Domain::IPV4, socket2::Type::STREAM);
        socket2::Socket::new(domain, kind, Some(socket2::Protocol::TCP)).unwrap()
    };
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listening = socket();
    listening.bind(&any.into()).unwrap();
    listening.listen(1).unwrap();
    let listener: TcpListener = listening.into();
    let address = listener.local_addr().unwrap();
    let fill = |_| {
        let filler = socket();
        filler.set_nonblocking(true).unwrap();
        // In progress, or done: on loopback the queue is full after a few.
        let _ = filler.connect(&address.into());
        filler
    };
    (listener, (0..16).map(fill).collect())
}

#[test]
fn a_connect_that_takes_too_long_fails_by_the_loops_clock() {
    let (listener, _filled) = deaf();
    let clock = tidegate_sync::ManualClock::new();
    let loops = tidegate_exec::EventLoopGroup::builder("io")
        .loops(1)
        .clock(&clock);
    let group = tidegate_net::NetGroup::build(loops).unwrap();
    let connect = Client::new(&group).connect(listener.local_addr().unwrap());
    clock.advance(Duration::from_secs(29));
    assert!(!connect.is_done());
    clock.advance(Duration::from_secs(1));
    let why = connect.wait().unwrap_err().failure().unwrap();
    assert!(matches!(
        why.downcast_ref::<NetError>(),
        Some(NetError::ConnectTimeout(_))
    ));
}

#[test]
fn cancelling_a_connect_ends_it() {
    let (listener, _filled) = deaf();
    let group = group(1);
    let connect = Client::new(&group).connect(listener.local_addr().unwrap());
    group.iter().for_each(|one| one.settle());
    assert!(connect.cancel());
    // The news of a cancellation is a signal: no task waits for it.
    let gone = || group.io_metrics()[0].registered == 0;
    let turned = (0..1_000_000).find(|_| {
        group.next().settle();
        gone()
    });
    assert!(turned.is_some(), "its socket is gone");
}

#[test]
fn a_closed_server_frees_its_port_and_keeps_its_connections() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    server.close().wait().unwrap();
    assert_eq!(round_trip(&mut client, b"again"), b"again");
    group.iter().for_each(|one| one.settle());
    assert!(TcpStream::connect(server.local_addr()).is_err());
    assert!(server.closed().is_done());
}

#[test]
fn a_drain_lets_connections_finish_and_says_who_was_cut() {
    /// Says goodbye when its server goes; or does not.
    struct Polite(Arc<AtomicUsize>);
    impl Inbound for Polite {
        type In = Bytes;
        type Out = Bytes;
        type Write = Bytes;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            ctx.fire_read(bytes);
        }
        fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
            if event.is::<Draining>().is_some() && self.0.fetch_add(1, Ordering::Relaxed) == 0 {
                ctx.write("bye");
                ctx.close_when_flushed();
            }
        }
    }
    let clock = tidegate_sync::ManualClock::new();
    let loops = tidegate_exec::EventLoopGroup::builder("io")
        .loops(1)
        .clock(&clock);
    let group = tidegate_net::NetGroup::build(loops).unwrap();
    let asked = Arc::<AtomicUsize>::default();
    let counts = Arc::clone(&asked);
    let server = serve(&group, move |p| {
        p.add("polite", Polite(Arc::clone(&counts)))
            .add("echo", Echo)
    });
    let mut clients = [dial(&server), dial(&server)];
    for client in &mut clients {
        assert_eq!(round_trip(client, b"x"), b"x");
    }
    let drained = server.drain(Duration::from_secs(10));
    clock.advance(Duration::from_secs(9));
    assert!(!drained.is_done());
    clock.advance(Duration::from_secs(1));
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.cut.len()), (2, 1));
    assert_eq!(server.connections(), 0);
    let mut ends: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            let mut rest = String::new();
            client.read_to_string(&mut rest).unwrap();
            rest
        })
        .collect();
    ends.sort();
    assert_eq!(ends, ["", "bye"]);
}

#[test]
fn a_drain_reports_even_if_a_handler_holds_up_its_loop() {
    struct Holds(Gate, Gate);
    impl Inbound for Holds {
        type In = Bytes;
        type Out = Nothing;
        type Write = Nothing;
        fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {
            self.0.open();
            self.1.wait();
        }
    }
    let clock = tidegate_sync::ManualClock::new();
    let loops = tidegate_exec::EventLoopGroup::builder("io").loops(1);
    let group = tidegate_net::NetGroup::build(loops.clock(&clock)).unwrap();
    let (arrived, go_on) = (Gate::new(), Gate::new());
    let gates = (arrived.clone(), go_on.clone());
    let server = serve(&group, move |p| {
        p.add("holds", Holds(gates.0.clone(), gates.1.clone()))
    });
    let mut client = dial(&server);
    client.write_all(b"hello").unwrap();
    arrived.wait();
    let drained = server.drain(Duration::from_secs(10));
    clock.jump(Duration::from_secs(10) + tidegate_net::DRAIN_GRACE);
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.held), (1, 1));
    go_on.open();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn the_end_of_the_group_closes_everything_and_tells() {
    let group = group(2);
    let log = Log::new();
    let own = log.clone();
    let server = serve(&group, move |p| p.add("gives", Gives(own.clone())));
    let mut clients = [dial(&server), dial(&server)];
    log.wait_for(2);
    let channels = log.take();
    let quiet = tidegate_exec::Quiet::none(Duration::from_secs(10));
    group.shutdown_gracefully(quiet).wait().unwrap();
    for channel in &channels {
        assert!(channel.closed().is_done());
        assert!(channel.write_with("late").wait().is_err());
        channel.flush();
    }
    for client in &mut clients {
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    }
    assert!(server.closed().is_done());
}

#[test]
fn channels_are_made_of_sockets_that_exist() {
    let group = group(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::new(&group)
        .pipeline(|p| p.add("echo", Echo))
        .serve(listener)
        .wait()
        .unwrap();
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"x"), b"x");
    let adopted = Client::new(&group).adopt(client).wait().unwrap();
    assert_eq!(adopted.peer_addr(), Some(server.local_addr()));
}

#[test]
fn two_ends_in_memory_speak_to_each_other() {
    let group = group(2);
    let log = Log::new();
    let own = log.clone();
    struct Hears(Log<usize>);
    impl Inbound for Hears {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
            self.0.push(bytes.len());
        }
    }
    let hears = move |p: tidegate_net::Assembly| p.add("hears", Hears(own.clone()));
    let pair = tidegate_net::local_pair(&group, hears, |p| p.add("echo", Echo));
    let (one, other) = pair.wait().unwrap();
    // In pieces, so that several lie there when the other end looks.
    for _ in 0..299 {
        one.write(vec![1; 1000]);
    }
    let sent = one.write_with(vec![1; 1000]);
    one.flush();
    sent.wait().unwrap();
    let mut total = 0;
    while total < 300_000 {
        log.wait_for(1);
        total += log.take().iter().sum::<usize>();
    }
    assert_eq!(total, 300_000);
    one.close().wait().unwrap();
    other.closed().wait().unwrap();
}

#[test]
fn what_one_end_says_before_the_other_is_there_is_heard() {
    struct Greets;
    impl Inbound for Greets {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
            ctx.write("hello");
            ctx.close_when_flushed();
        }
        fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}
    }
    let group = group(1);
    let log = Log::new();
    let own = log.clone();
    struct Hears(Log<Bytes>);
    impl Inbound for Hears {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
            self.0.push(bytes);
        }
    }
    // On one loop the first end is opened, speaks and ends before the second is made.
    let hears = move |p: tidegate_net::Assembly| p.add("hears", Hears(own.clone()));
    let pair = tidegate_net::local_pair(&group, |p| p.add("greets", Greets), hears);
    let (_, other) = pair.wait().unwrap();
    other.closed().wait().unwrap();
    assert_eq!(log.take(), ["hello"]);
}

#[test]
fn a_unix_socket_serves_like_any_other() {
    let group = group(1);
    let folder = std::env::temp_dir().join(format!("tidegate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("echo.socket");
    let server = Server::new(&group).pipeline(|p| p.add("echo", Echo));
    let server = server.bind_unix(&path).wait().unwrap();
    let taken = Server::new(&group).bind_unix(&path).wait().unwrap_err();
    assert!(taken.to_string().contains("in use"), "{taken}");
    let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    client.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    let ours = Client::new(&group).connect_unix(&path).wait().unwrap();
    assert!(ours.is_active());
    server.close().wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let missing = Client::new(&group).connect_unix(&path).wait();
    assert!(missing.is_err());
}

/// Answers a datagram in capitals.
struct Answers;

impl Inbound for Answers {
    type In = tidegate_net::Datagram;
    type Out = Nothing;
    type Write = tidegate_net::Datagram;

    fn read(&mut self, question: Self::In, ctx: &mut InboundContext<'_, Self>) {
        let bytes = question.bytes.to_ascii_uppercase().into();
        let peer = question.peer;
        ctx.write(tidegate_net::Datagram { bytes, peer });
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

#[test]
fn channels_are_made_of_unix_and_udp_sockets_that_exist() {
    let group = group(1);
    let folder = std::env::temp_dir().join(format!("tidegate-made-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("echo.socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let server = Server::new(&group).pipeline(|p| p.add("echo", Echo));
    let server = server.serve_unix(listener).wait().unwrap();
    let far = std::os::unix::net::UnixStream::connect(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let log = Log::new();
    let own = log.clone();
    let client = Client::new(&group).pipeline(move |p| p.add("notes", Notes(own.clone())));
    let channel = client.adopt_unix(far).wait().unwrap();
    channel.write_and_flush("hello");
    log.wait_for(1);
    assert_eq!(log.take(), ["hello"]);
    server.close().wait().unwrap();

    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let answers = Client::new(&group).pipeline(|p| p.add("answers", Answers));
    let answers = answers.adopt_udp(socket).wait().unwrap();
    assert_eq!(answers.local_addr(), Some(address));
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"loud", address).unwrap();
    let mut answer = [0; 8];
    let count = client.recv(&mut answer).unwrap();
    assert_eq!(&answer[..count], b"LOUD");
}

#[test]
fn datagrams_go_out_and_come_back() {
    let group = group(1);
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Client::new(&group).pipeline(|p| p.add("answers", Answers));
    let server = server.bind_udp(any).wait().unwrap();
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    let mut answer = vec![0; 70_000];
    for size in [1, 1000, 60_000] {
        client.send(&vec![b'a'; size]).unwrap();
        let count = client.recv(&mut answer).unwrap();
        assert_eq!(answer[..count], vec![b'A'; size]);
    }
    let misfit = Client::new(&group).pipeline(|p| p.add("echo", Echo));
    let why = misfit.bind_udp(any).wait().unwrap_err().to_string();
    assert!(why.contains("Datagram") && why.contains("`echo`"), "{why}");
    server.close().wait().unwrap();
}

#[test]
fn a_busy_loop_still_reads_its_sockets() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let stop = Gate::new();
    fn spin(home: tidegate_exec::EventLoop, stop: Gate) {
        let again = home.clone();
        let _ = home.execute(move || {
            if !stop.is_open() {
                spin(again, stop);
            }
        });
    }
    spin(group.next().clone(), stop.clone());
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    stop.open();
}

type Addresses = Vec<std::net::SocketAddr>;

/// Answers from a table, and never to questions for `silent`.
#[derive(Default)]
struct Table(Addresses, std::sync::Mutex<Vec<Promise<Addresses>>>);

impl tidegate_net::Resolver for Table {
    fn resolve(&self, host: &str, _: u16) -> Completion<Addresses> {
        if host != "silent" {
            return Completion::succeeded(self.0.clone());
        }
        let (promise, never) = tidegate_promise::promise();
        self.1.lock().unwrap().push(promise);
        never
    }
}

fn table(addresses: Addresses) -> Table {
    Table(addresses, std::sync::Mutex::default())
}

/// An address at which nobody listens.
fn nobody() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn every_address_of_a_name_is_tried_in_order() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let there = server.local_addr();
    let client = Client::new(&group).resolver(table(vec![nobody(), nobody(), there]));
    let channel = client.connect("somewhere:1").wait().unwrap();
    assert_eq!(channel.peer_addr(), Some(there));
    let client = Client::new(&group).resolver(table(vec![nobody(), nobody()]));
    let why = client.connect("somewhere:1").wait().unwrap_err();
    assert!(why.to_string().contains("refused"), "{why}");
    let client = Client::new(&group).resolver(table(Vec::new()));
    let why = client.connect("somewhere:1").wait().unwrap_err();
    assert!(why.to_string().contains("somewhere"), "{why}");
}

#[test]
fn a_name_that_does_not_resolve_is_an_error_that_names_it_and_so_is_what_is_none() {
    let group = group(1);
    let client = Client::new(&group);
    let name = "no-such-name.invalid:80";
    let why = client.connect(name).wait().unwrap_err();
    assert!(why.to_string().contains("no-such-name.invalid"), "{why}");
    let why = Server::new(&group).bind(name).wait().unwrap_err();
    assert!(why.to_string().contains("no-such-name.invalid"), "{why}");
    for bad in ["localhost", "localhost:", ":80", "localhost:99999", ""] {
        let refused = [
            client.connect(bad).wait().unwrap_err().to_string(),
            Server::new(&group)
                .bind(bad)
                .wait()
                .unwrap_err()
                .to_string(),
        ];
        for why in refused {
            assert!(why.contains("host:port"), "{bad}: {why}");
        }
    }
}

#[test]
fn a_resolver_that_does_not_answer_is_given_up() {
    let clock = tidegate_sync::ManualClock::new();
    let loops = tidegate_exec::EventLoopGroup::builder("io")
        .loops(1)
        .clock(&clock);
    let group = tidegate_net::NetGroup::build(loops).unwrap();
    let second = Duration::from_secs(1);
    let client = Client::new(&group)
        .resolver(Table::default())
        .resolve_timeout(second);
    let connected = client.connect("silent:1");
    let bound = Server::new(&group)
        .resolver(Table::default())
        .resolve_timeout(second)
        .bind("silent:1");
    group.next().settle();
    clock.advance(second);
    for why in [
        connected.wait().unwrap_err().to_string(),
        bound.wait().unwrap_err().to_string(),
    ] {
        assert!(why.contains("`silent`") && why.contains("1s"), "{why}");
    }
}

#[test]
fn a_server_binds_by_name() {
    let group = group(1);
    let server = Server::new(&group).pipeline(|p| p.add("echo", Echo));
    let server = server.bind("localhost:0").wait().unwrap();
    assert!(server.local_addr().ip().is_loopback());
    assert_eq!(round_trip(&mut dial(&server), b"hello"), b"hello");
}

#[test]
fn several_listeners_share_one_port_and_each_keeps_its_connections() {
    let group = group(2);
    let log = Log::new();
    let own = log.clone();
    let server = Server::new(&group)
        .pipeline(move |p| p.add("gives", Gives(own.clone())).add("echo", Echo))
        .listeners_per_port(8)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut clients: Vec<_> = (0..64).map(|_| dial(&server)).collect();
    for client in &mut clients {
        assert_eq!(round_trip(client, b"hello"), b"hello");
    }
    assert_eq!((server.connections(), server.accepted()), (64, 64));
    let accepted: Vec<_> = group.io_metrics().iter().map(|one| one.accepted).collect();
    assert_eq!(accepted.iter().sum::<u64>(), 64);
    let mut on_each = [0; 2];
    for channel in log.take() {
        on_each[usize::from(channel.loop_name() == "io-1")] += 1;
    }
    assert_eq!(on_each.to_vec(), accepted, "it stays where it was accepted");
    server.close().wait().unwrap();
    assert!(
        TcpStream::connect(server.local_addr()).is_err(),
        "all are closed"
    );
    let report = server.drain(Duration::from_secs(5));
    drop(clients);
    assert!(report.wait().unwrap().cut.is_empty());
}

#[test]
fn a_poller_that_begins_anew_still_hears_its_sockets_and_its_waker() {
    use tidegate_net::sys::{MioPoller, Poller, Readiness, Token};
    let mut poller = MioPoller::new().unwrap();
    let waker = poller.waker();
    let address = "127.0.0.1:0".parse().unwrap();
    let mut listener = mio::net::TcpListener::bind(address).unwrap();
    let token = Token::new(3, 1);
    poller.register(&mut listener, token).unwrap();
    let lost = poller.renew(vec![(token, &mut listener)]).unwrap();
    assert!(lost.is_empty());
    let mut ready = Vec::new();
    poller.poll(&mut ready, None).unwrap();
    assert!(
        ready.is_empty(),
        "it was rung, in case somebody had just done so"
    );
    waker.wake();
    poller.poll(&mut ready, None).unwrap();
    assert!(ready.is_empty());
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    poller.poll(&mut ready, None).unwrap();
    assert_eq!(ready[0].token, token);
    assert!(ready[0].readiness.has(Readiness::READ));
}

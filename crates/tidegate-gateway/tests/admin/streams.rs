//! `hystrix.stream`: W1, W3 to W6, W9, P55, P57.

use std::io::{Read, Write};
use std::time::Duration;

use tidegate::isolate::{Command, PoolConfig};
use tidegate_gateway::config::Secret;
use tidegate_net::internal::LocalSocket;

use tidegate_testkit::has;

use crate::{World, has_status, settings, status};

const PING: &str = "ping: \n\n";

/// A client of a stream.
pub(crate) struct Stream {
    socket: LocalSocket,
    pub(crate) head: String,
}

impl Stream {
    pub(crate) fn open(world: &World, target: &str) -> Self {
        Self::open_with(world, target, "")
    }

    /// Opens a stream with further fields.
    pub(crate) fn open_with(world: &World, target: &str, fields: &str) -> Self {
        let mut socket = world.connect();
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push(char::from(byte(&mut socket)));
        }
        Self { socket, head }
    }

    /// Returns the next piece, or an empty one at the end.
    pub(crate) fn next(&mut self) -> String {
        let mut line = String::new();
        while !line.ends_with("\r\n") {
            line.push(char::from(byte(&mut self.socket)));
        }
        let length = usize::from_str_radix(line.trim(), 16).unwrap();
        let mut piece = vec![0; length + 2];
        self.socket.read_exact(&mut piece).unwrap();
        piece.truncate(length);
        String::from_utf8(piece).unwrap()
    }
}

fn byte(socket: &mut LocalSocket) -> u8 {
    let mut byte = [0];
    socket.read_exact(&mut byte).unwrap();
    byte[0]
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Advances time by 499 ms, after which the stream has nothing new.
fn assert_quiet(world: &World, stream: &mut Stream) {
    world.clock.advance(millis(499));
    // The loop has been there since: once to wake up, once with all timers run.
    for _ in 0..2 {
        assert_eq!(status(&world.get("/live")), 200);
    }
    stream.socket.set_nonblocking(true);
    let early = stream.socket.peek(&mut [0]).map_err(|why| why.kind());
    assert_eq!(early, Err(std::io::ErrorKind::WouldBlock));
    stream.socket.set_nonblocking(false);
}

#[test]
fn a_stream_is_an_uncached_response_of_events() {
    let world = World::new();
    let mut stream = Stream::open(&world, "/hystrix.stream");
    assert_eq!(status(&stream.head), 200);
    let fields = [
        "\r\nContent-Type: text/event-stream;charset=UTF-8\r\n",
        "\r\nCache-Control: no-cache, no-store, max-age=0, must-revalidate\r\n",
        "\r\nPragma: no-cache\r\n",
    ];
    has(&stream.head, fields);
    assert!(!stream.head.contains("Content-Length"));
    assert!(stream.next().starts_with("data: {"));
}

#[test]
fn the_dashboard_gets_a_sample_each_500_ms_with_commands_first() {
    let world = World::new();
    let mut stream = Stream::open(&world, "/hystrix.stream");
    for _ in 0..4 {
        let sample = stream.next();
        assert!(sample.starts_with("data: {\"type\":\"HystrixCommand\",\"name\":\"cart\""));
        assert!(sample.ends_with("}\n\n"));
        world.clock.advance(millis(500));
    }
    assert!(stream.next().starts_with("data: "));
    assert_quiet(&world, &mut stream);
}

#[test]
fn a_stream_without_commands_has_pings_each_500_ms() {
    let world = World::new();
    assert!(world.gateway.isolation.remove("cart"));
    let mut stream = Stream::open(&world, "/hystrix.stream");
    for _ in 0..3 {
        assert_eq!(stream.next(), PING);
        assert_quiet(&world, &mut stream);
        world.clock.advance(millis(1));
    }
}

#[test]
fn a_sixth_client_is_refused_until_one_leaves() {
    let world = World::new();
    let mut open: Vec<Stream> = (0..5)
        .map(|_| Stream::open(&world, "/hystrix.stream"))
        .collect();
    assert!(open.iter().all(|stream| status(&stream.head) == 200));
    let refused = world.get("/hystrix.stream");
    assert_eq!(status(&refused), 503);
    has(&refused, ["at most 5 clients"]);
    // A place is free as soon as its client has left, not only at its next sample.
    drop(open.remove(1));
    tidegate_testkit::until("the place is free", || {
        let mut stream = Stream::open(&world, "/hystrix.stream");
        let is_open = status(&stream.head) == 200;
        if is_open {
            assert!(stream.next().starts_with("data: "));
            open.push(stream);
        }
        is_open
    });
    assert_eq!(status(&world.get("/hystrix.stream")), 503);
}

#[test]
fn after_the_shutdown_streams_end_and_clients_are_refused() {
    let world = World::new();
    let mut stream = Stream::open(&world, "/hystrix.stream");
    assert!(stream.next().starts_with("data: "));
    world.admin.close_streams();
    assert_eq!(stream.next(), "", "the stream has its end");
    assert_eq!(status(&world.get("/hystrix.stream")), 503);
    assert_eq!(status(&world.get("/live")), 200);
    world.admin.close(millis(1)).wait().unwrap();
}

#[test]
fn known_keys_appear_at_once_with_zeros() {
    let world = World::new();
    let mut stream = Stream::open(&world, "/hystrix.stream");
    let zeros = [
        "\"name\":\"cart\"",
        "\"requestCount\":0",
        "\"errorPercentage\":0",
    ];
    has(stream.next(), zeros);
}

#[test]
fn a_pool_that_was_never_used_appears_with_zeros() {
    let world = World::new();
    let stock: Command<(), String> = Command::builder("stock")
        .group("shop")
        .threads(PoolConfig::default())
        .build(&world.gateway.isolation)
        .unwrap();
    let sample = Stream::open(&world, "/hystrix.stream").next();
    let pool = sample
        .split("\n\n")
        .find(|event| event.contains("\"HystrixThreadPool\""));
    let zeros = [
        "\"name\":\"stock\"",
        "\"currentCompletedTaskCount\":0",
        "\"currentPoolSize\":0",
    ];
    has(pool.unwrap(), zeros);
    drop(stock);
}

#[test]
fn a_page_opens_several_streams_with_a_delay_and_credentials() {
    let mut settings = settings();
    settings.read_token = Some(Secret::Value("token".to_owned()));
    let world = World::with(&settings).unwrap();
    assert_eq!(status(&world.get("/hystrix.stream")), 401);
    has_status(&world.get("/hystrix.stream?authorization=Bearer%20no"), 401);
    // As the dashboard sends it: `user:token`.
    let basic = "authorization=Basic%20dXNlcjp0b2tlbg%3D%3D";
    let mut slow = Stream::open(&world, &format!("/hystrix.stream?delay=2000&{basic}"));
    let bearer = |delay: u32| {
        let target = format!("/hystrix.stream?delay={delay}&authorization=Bearer+token");
        Stream::open(&world, &target)
    };
    let mut fast = bearer(100);
    assert!(slow.next().starts_with("data: ") && fast.next().starts_with("data: "));
    for tenth in 1..=20 {
        world.clock.advance(millis(100));
        assert!(fast.next().starts_with("data: "));
        if tenth % 5 == 0 {
            let is_sample = slow.next().starts_with("data: ");
            assert_eq!(is_sample, tenth == 20);
        }
    }
    let mut odd = bearer(700);
    let pauses = [
        (0, true),
        (500, false),
        (200, true),
        (500, false),
        (200, true),
    ];
    for (pause, is_sample) in pauses {
        world.clock.advance(millis(pause));
        assert_eq!(odd.next().starts_with("data: "), is_sample, "{pause}");
    }
    let wrong = world.get("/hystrix.stream?delay=soon&authorization=Bearer%20token");
    assert_eq!(status(&wrong), 400);
    // A token in a query counts for streams only.
    has_status(
        &world.get("/api/snapshot?authorization=Bearer%20token"),
        401,
    );
}

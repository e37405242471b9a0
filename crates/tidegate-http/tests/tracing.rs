//! What a subscriber of `tracing` sees of a server. A program of its own, because the subscriber is
//! that of the whole program: the event loops report from their threads.
#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_http::{HttpServer, HttpServerBuilder, Request, Response};
use tidegate_loop::Pinned;
use tidegate_net::handlers::ProxyProtocol;
use tidegate_net::{ChannelOptions, Handler, NetGroup};
use tidegate_testkit::{RecordedEvent, Recorder, has, until};

const SECOND: Duration = Duration::from_secs(1);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// The subscriber of all tests. Each test looks at the events of its own server.
fn recorder() -> &'static Recorder {
    static RECORDER: OnceLock<Recorder> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let recorder = Recorder::new();
        tracing::subscriber::set_global_default(recorder.clone()).unwrap();
        recorder
    })
}

/// A server on one event loop, whose clock the test sets.
struct Served {
    server: HttpServer,
    clock: ManualClock,
    group: NetGroup,
}

impl Served {
    fn new(
        change: impl FnOnce(HttpServerBuilder<Pinned>) -> HttpServerBuilder<Pinned>,
        respond: impl Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
    ) -> Self {
        recorder();
        let clock = ManualClock::new();
        let group = NetGroup::builder("web").loops(1).clock(&clock);
        let group = group.build().unwrap();
        let server = change(HttpServer::builder(&group)).serve("127.0.0.1:0", respond);
        Self {
            server: server.wait().unwrap(),
            clock,
            group,
        }
    }

    /// Connects a client and sends a request.
    fn request(&self, request: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(self.address()).unwrap();
        let patience = Some(Duration::from_secs(30));
        client.set_read_timeout(patience).unwrap();
        client.write_all(request).unwrap();
        client
    }

    /// Sends a request, and returns everything up to the end of the connection.
    fn ask(&self, request: &[u8]) -> String {
        let mut response = String::new();
        let mut client = self.request(request);
        client.read_to_string(&mut response).unwrap();
        response
    }

    fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Advances time by half a minute at once, and waits until the loop has run what was due.
    fn pass(&self) {
        self.clock.jump(30 * SECOND);
        self.group.loops().submit(|| ()).unwrap().wait().unwrap();
        self.group.loops().submit(|| ()).unwrap().wait().unwrap();
    }

    /// Returns the events about refused clients of this server.
    fn refused(&self) -> Vec<RecordedEvent> {
        let address = self.address().to_string();
        let mut events = recorder().events("refused");
        events.retain(|event| event.field("name") == Some(&address));
        events
    }
}

fn fields<'a>(events: &'a [RecordedEvent], name: &str) -> Vec<&'a str> {
    let fields = events.iter().map(|event| event.field(name).unwrap());
    fields.collect()
}

#[test]
fn refusals_are_an_event_at_most_once_in_a_second_and_panics_are_unhandled_errors() {
    let served = Served::new(|server| server, |_, _| panic!("out of ink"));
    let no_host = b"GET / HTTP/1.1\r\n\r\n";
    for _ in 0..3 {
        assert!(served.ask(no_host).starts_with("HTTP/1.1 400 "));
    }
    let bad_length = b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n";
    assert!(served.ask(bad_length).starts_with("HTTP/1.1 400 "));
    served.clock.jump(SECOND);
    assert!(served.ask(no_host).starts_with("HTTP/1.1 400 "));
    let events = served.refused();
    assert_eq!(fields(&events, "left_out"), ["0", "0", "2"], "by reason");
    assert!(fields(&events, "kind").iter().all(|k| *k == "http_server"));
    let mut reasons = fields(&events, "reason").into_iter();
    assert!(reasons.all(|reason| reason.starts_with("the client ")));
    for _ in 0..2 {
        let response = served.ask(b"GET /ink?key=secret HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(response.starts_with("HTTP/1.1 500 "), "{response}");
    }
    until("the hook has reported", || {
        !recorder().events("unhandled_error").is_empty()
    });
    let events = recorder().events("unhandled_error");
    assert_eq!(events.len(), 1, "one in a second");
    let message = events[0].field("message").unwrap();
    assert!(message.contains("the service panicked"), "{message}");
    has(&message, [": out of ink; the request was GET /ink;"]);
    let server = format!("; the server is {}", served.address());
    assert!(message.contains(&server), "{message}");
    assert!(message.contains("; the peer is 127.0.0.1:"), "{message}");
    assert!(!message.contains("promise"), "{message}");
    assert!(!message.contains("secret"), "{message}");
    assert_eq!(served.server.metrics().panics, 2);
}

#[test]
fn failed_handshakes_are_an_event_at_most_once_in_a_second() {
    let front = |server: HttpServerBuilder<Pinned>| {
        server
            .front(|pipeline| pipeline.add_handler("proxy", Handler::inbound(ProxyProtocol::new())))
    };
    let served = Served::new(front, |_, response| response.body("hello"));
    for number in 1..=3 {
        // No header of the PROXY protocol.
        let _client = served.request(REQUEST);
        until("the client has failed", || {
            served.server.metrics().failed_handshakes == number
        });
    }
    served.clock.jump(SECOND);
    let _client = served.request(REQUEST);
    until("there is another event", || served.refused().len() == 2);
    let events = served.refused();
    assert_eq!(fields(&events, "left_out"), ["0", "2"]);
    let mut reasons = fields(&events, "reason").into_iter();
    assert!(reasons.all(|reason| reason.contains("before HTTP began")));
}

#[test]
fn slow_readers_are_an_event_at_most_once_in_a_second() {
    static LARGE: [u8; 4 << 20] = [b'x'; 4 << 20];
    let options = ChannelOptions {
        send_buffer: Some(16 * 1024),
        close_timeout: Duration::ZERO,
        ..ChannelOptions::default()
    };
    let served = Served::new(
        |server| server.configure(|net| net.options(options)),
        |_, response| response.body(&LARGE[..]),
    );
    let (mut cut, mut reported) = (0, 0);
    // The last one is alone, so that its event has the number of those that were left out.
    for clients in [5, 1] {
        let slow: Vec<_> = (0..clients).map(|_| served.request(REQUEST)).collect();
        cut += clients;
        until("all are served", || served.server.metrics().requests == cut);
        until("all are cut", || {
            // The sockets may still be taking bytes into their buffers, which is progress.
            served.pass();
            let events = served.refused().len();
            assert!(events <= reported + 1, "one for the same moment");
            reported = events;
            served.server.metrics().slow_readers == cut
        });
        drop(slow);
    }
    let events = served.refused();
    let left_out = fields(&events, "left_out").into_iter();
    let left_out: usize = left_out
        .map(|number| number.parse::<usize>().unwrap())
        .sum();
    assert_eq!(events.len() + left_out, 6, "each is shown or counted");
    let mut reasons = fields(&events, "reason").into_iter();
    assert!(reasons.all(|reason| reason.starts_with("the client took no byte")));
}

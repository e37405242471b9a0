//! Tests of the codec in a pipeline, over an embedded channel.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::{
    DrainAnnounced, Draining, EmbeddedChannel, Inbound, InboundContext, InputShutdown, Nothing,
};
use tidegate_promise::Completion;

use super::{HttpCodec, RequestPart, ResponsePart};
use crate::codec::{BodyFraming, OwnedResponseHead, Trailers};

/// Writes down each part, and passes nothing on.
struct Log(Arc<Mutex<Vec<String>>>);

impl Inbound for Log {
    type In = RequestPart;
    type Out = Nothing;
    type Write = ResponsePart;

    fn read(&mut self, part: RequestPart, _: &mut InboundContext<'_, Self>) {
        let line = match part {
            RequestPart::Head(head) => {
                let head = head.as_head();
                format!("{} {}", head.method(), head.target())
            }
            RequestPart::Data(data) => format!("+{}", String::from_utf8_lossy(&data)),
            RequestPart::Trailers(lines) => format!("{} trailers", Trailers::new(&lines).count()),
            RequestPart::End => "end".to_owned(),
            RequestPart::Refused(why) => format!("refused: {}", why.status()),
        };
        let mut lines = self.0.lock().unwrap();
        match lines.last_mut() {
            // Where a body is split depends on how it was received.
            Some(last) if line.starts_with('+') && last.starts_with('+') => {
                last.push_str(&line[1..]);
            }
            _ => lines.push(line),
        }
    }
}

/// One connection, whose service is the test.
struct Client {
    socket: EmbeddedChannel,
    parts: Arc<Mutex<Vec<String>>>,
}

impl Client {
    fn new() -> Self {
        let parts = Arc::new(Mutex::new(Vec::new()));
        let log = Log(Arc::clone(&parts));
        let socket =
            EmbeddedChannel::new(|p| p.add_duplex("http", HttpCodec::default()).add("log", log));
        Self {
            socket: socket.unwrap(),
            parts,
        }
    }

    /// Sends bytes and returns the parts that were passed on.
    fn send(&mut self, bytes: impl Into<Bytes>) -> Vec<String> {
        self.socket.receive(bytes);
        self.parts()
    }

    fn parts(&mut self) -> Vec<String> {
        self.socket.run();
        std::mem::take(&mut self.parts.lock().unwrap())
    }

    fn write(&mut self, part: ResponsePart) -> Completion<()> {
        let done = self.socket.channel().write_and_flush_with(part);
        self.socket.run();
        done
    }

    fn respond(&mut self, status: u16, body: &'static str) {
        for part in ResponsePart::whole(status, body).unwrap() {
            self.write(part);
        }
    }

    fn sent(&mut self) -> String {
        self.socket.run();
        String::from_utf8(self.socket.sent().to_vec()).unwrap()
    }
}

fn head(status: u16) -> ResponsePart {
    ResponsePart::Head(OwnedResponseHead::with_status(status).unwrap())
}

fn data(data: &'static str) -> ResponsePart {
    ResponsePart::Data(Bytes::from(data))
}

fn end() -> ResponsePart {
    ResponsePart::End(Vec::new())
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST /p HTTP/1.1\r\nHost: a\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn closing(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

#[test]
fn a_request_is_passed_on_in_parts_wherever_it_is_split() {
    let chunked = "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n";
    let message = format!("{GET}{POST}Content-Length: 5\r\n\r\nhello{POST}{chunked}{GET}");
    let expected = [
        "GET /a",
        "end",
        "POST /p",
        "+hello",
        "end",
        "POST /p",
        "+hello",
        "1 trailers",
        "end",
        "GET /a",
        "end",
    ];
    assert_eq!(Client::new().send(message.clone()), expected);
    for at in 1..message.len() {
        let mut client = Client::new();
        client.socket.receive(message[..at].to_owned());
        client.socket.run();
        assert_eq!(
            client.send(message[at..].to_owned()),
            expected,
            "split at {at}"
        );
    }
    let mut client = Client::new();
    for byte in message.bytes() {
        client.socket.receive(vec![byte]);
    }
    assert_eq!(client.parts(), expected);
}

#[test]
fn an_empty_line_before_a_request_is_ignored() {
    let mut peer = Client::new();
    let one = peer.send(GET);
    assert!(!one.is_empty());
    assert_eq!(peer.send(format!("\r\n{GET}\r\n")), one);
    assert_eq!(peer.send(GET), one);
}

#[test]
fn responses_follow_in_order_on_one_connection() {
    let mut client = Client::new();
    client.send(GET.to_owned() + GET);
    client.respond(200, "hello");
    client.respond(404, "");
    let second = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(client.sent(), HELLO.to_owned() + second);
    client.send(GET);
    client.respond(200, "hello");
    assert_eq!(client.sent(), HELLO);
    assert!(client.socket.is_open());
}

#[test]
fn a_response_without_a_length_is_chunked() {
    let mut client = Client::new();
    client.send(GET);
    client.write(head(200));
    client.write(data("hello"));
    client.write(data(""));
    let trailers = vec![("Sum".to_owned(), b"5".to_vec())];
    client.write(ResponsePart::End(trailers));
    let body = "5\r\nhello\r\n0\r\nSum: 5\r\n\r\n";
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(client.sent(), format!("{head}{body}"));
}

#[test]
fn http_1_0_ends_with_its_response() {
    let mut client = Client::new();
    client.send("GET / HTTP/1.0\r\n\r\n".to_owned() + GET);
    client.write(head(200));
    client.write(data("hello"));
    client.write(end());
    let sent = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello";
    assert_eq!(client.sent(), sent);
    assert!(!client.socket.is_open());
    let mut client = Client::new();
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    client.respond(200, "");
    assert!(client.sent().contains("\r\nConnection: keep-alive\r\n"));
    assert!(client.socket.is_open());
}

#[test]
fn connection_close_of_either_side_ends_the_connection() {
    let mut client = Client::new();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned() + GET);
    assert_eq!(client.parts(), [""; 0], "nothing after it is looked at");
    client.respond(200, "");
    assert_eq!(client.sent(), closing("200 OK"));
    assert!(!client.socket.is_open());

    let mut client = Client::new();
    client.send(GET.to_owned() + GET);
    let mut last = OwnedResponseHead::with_status(200).unwrap();
    last.set_framing(BodyFraming::Length(0)).unwrap();
    last.append("Connection", b"x, Close").unwrap();
    client.write(ResponsePart::Head(last));
    client.write(end());
    assert_eq!(client.sent(), closing("200 OK"));
    assert!(!client.socket.is_open());
}

#[test]
fn head_and_some_statuses_have_no_body() {
    let mut client = Client::new();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned() + &GET.repeat(3));
    client.respond(200, "hello");
    client.respond(204, "hello");
    client.respond(205, "hello");
    client.respond(304, "");
    let expected = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\n\r\n",
    ];
    assert_eq!(client.sent(), expected.concat());
    assert!(client.socket.is_open());
}

#[test]
fn an_interim_response_precedes_the_final_one() {
    let mut client = Client::new();
    client.send(format!(
        "{POST}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    ));
    client.write(head(100));
    assert_eq!(client.sent(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.send("ab"), ["+ab", "end"]);
    client.respond(200, "hello");
    assert_eq!(client.sent(), HELLO);
}

#[test]
fn a_refused_request_gets_its_status_after_the_others() {
    let mut client = Client::new();
    let parts = client.send(GET.to_owned() + "GET / HTTP/1.1\n\n" + GET);
    assert_eq!(parts, ["GET /a", "end", "refused: 400"]);
    assert_eq!(client.sent(), "");
    client.respond(200, "hello");
    assert_eq!(
        client.sent(),
        HELLO.to_owned() + &closing("400 Bad Request")
    );
    assert!(client.socket.is_open(), "the client may still be sending");
    assert_eq!(client.send(GET), [""; 0]);
    client.socket.advance(Duration::from_secs(3));
    assert!(!client.socket.is_open());
}

#[test]
fn a_refused_body_replaces_the_response_unless_that_has_begun() {
    let mut client = Client::new();
    let head_of = format!("{POST}Transfer-Encoding: chunked\r\n\r\n");
    client.send(head_of.clone() + "x\r\n");
    assert_eq!(client.sent(), closing("400 Bad Request"));
    client.respond(200, "hello");
    assert_eq!(client.sent(), "");
    client.socket.end_input();
    client.socket.run();
    assert!(!client.socket.is_open());

    let mut client = Client::new();
    client.send(head_of.clone());
    client.respond(200, "hello");
    client.send("x\r\n");
    assert_eq!(client.sent(), HELLO, "the response has ended already");
    assert!(!client.socket.is_open());

    let mut client = Client::new();
    client.send(head_of);
    client.write(head(200));
    client.send("x\r\n");
    client.write(end());
    let sent = client.sent();
    assert_eq!(sent.matches("HTTP/1.1").count(), 1, "{sent}");
    assert!(!client.socket.is_open());
}

#[test]
fn reading_stops_while_sixteen_responses_are_outstanding() {
    let mut client = Client::new();
    let parts = client.send(GET.repeat(20));
    assert_eq!(parts.len(), 2 * 16);
    assert_eq!(client.send(GET), [""; 0]);
    for _ in 0..16 {
        client.respond(200, "hello");
    }
    assert_eq!(client.parts().len(), 2 * 5);
    for _ in 0..5 {
        client.respond(200, "hello");
    }
    assert_eq!(client.sent(), HELLO.repeat(21));
}

#[test]
fn an_upgrade_makes_the_connection_a_tunnel() {
    let ask = "GET /u HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let mut client = Client::new();
    assert_eq!(client.send(ask.to_owned() + GET), ["GET /u", "end"]);
    let mut accepted = OwnedResponseHead::with_status(101).unwrap();
    accepted.append("Upgrade", b"x").unwrap();
    client.write(ResponsePart::Head(accepted));
    assert_eq!(client.parts(), [format!("+{GET}")]);
    client.write(data("raw"));
    let line = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
    assert_eq!(client.sent(), format!("{line}raw"));
    assert_eq!(client.send("more"), ["+more"]);

    let mut client = Client::new();
    client.send(ask.to_owned() + GET);
    client.respond(200, "hello");
    assert_eq!(client.parts(), ["GET /a", "end"], "refused: it stays HTTP");

    let mut client = Client::new();
    let ask = "CONNECT b:80 HTTP/1.1\r\nHost: b:80\r\n\r\n";
    assert_eq!(
        client.send(ask.to_owned() + "early"),
        ["CONNECT b:80", "end"]
    );
    client.write(head(200));
    assert_eq!(client.parts(), ["+early"]);
    assert_eq!(client.sent(), "HTTP/1.1 200 OK\r\n\r\n");
}

#[test]
fn a_client_that_ends_its_half_gets_its_responses() {
    let mut client = Client::new();
    client.send(GET);
    client.socket.end_input();
    client.socket.run();
    client.respond(200, "");
    assert_eq!(client.sent(), closing("200 OK"));
    assert!(!client.socket.is_open());
    let mut client = Client::new();
    client.send(format!("{POST}Content-Length: 2\r\n\r\n"));
    client.socket.end_input();
    assert_eq!(client.parts(), ["refused: 400"]);
    assert!(!client.socket.is_open());
}

#[test]
fn requests_that_wait_are_read_after_the_client_has_ended_its_half() {
    let mut client = Client::new();
    client.send(GET.repeat(40));
    // TLS in front passes the end on even if the connection does not read.
    client.socket.channel().fire_event(InputShutdown);
    client.socket.run();
    for _ in 0..40 {
        client.respond(200, "");
    }
    let sent = client.sent();
    assert_eq!(sent.matches("HTTP/1.1 200").count(), 40);
    assert!(sent.ends_with(&closing("200 OK")));
    assert!(!client.socket.is_open());
}

#[test]
fn only_the_last_outstanding_response_says_close_in_a_drain() {
    for announced in [false, true] {
        let mut client = Client::new();
        client.send(format!("{GET}{GET}"));
        match announced {
            true => client.socket.channel().fire_event(DrainAnnounced),
            false => client.socket.channel().fire_event(Draining),
        }
        client.socket.run();
        assert_eq!(client.send(GET), [""; 0]);
        client.respond(200, "hello");
        assert_eq!(client.sent(), HELLO);
        client.respond(200, "");
        assert_eq!(client.sent(), closing("200 OK"));
        assert!(!client.socket.is_open());
    }
}

#[test]
fn a_chunk_is_sent_with_its_line_end() {
    let mut client = Client::new();
    client.send(GET);
    client.write(head(200));
    client.sent();
    client.write(data("hello")).wait().unwrap();
    assert_eq!(client.sent(), "5\r\nhello\r\n");
    client.write(end());
    assert_eq!(client.sent(), "0\r\n\r\n");
}

#[test]
fn a_drain_ends_idle_connections_at_once_and_others_after_their_response() {
    let mut client = Client::new();
    client.send(GET);
    client.respond(200, "hello");
    client.socket.channel().fire_event(Draining);
    client.socket.run();
    assert!(!client.socket.is_open());
    let mut client = Client::new();
    client.send(GET);
    client.socket.channel().fire_event(Draining);
    client.socket.run();
    client.respond(200, "");
    assert_eq!(client.sent(), closing("200 OK"));
    assert!(!client.socket.is_open());
}

#[test]
fn the_first_request_of_a_new_connection_has_some_time_in_a_drain() {
    let linger = Duration::from_secs(2);
    let drained = |after: Duration| {
        let mut client = Client::new();
        client.socket.advance(after);
        client.socket.channel().fire_event(Draining);
        client.socket.run();
        client
    };
    let mut client = drained(Duration::ZERO);
    assert!(client.socket.is_open());
    client.send(GET);
    client.socket.advance(linger);
    client.respond(200, "");
    assert_eq!(client.sent(), closing("200 OK"));
    assert!(!client.socket.is_open());
    // It does not come.
    let mut client = drained(linger / 2);
    assert!(client.socket.is_open());
    client.socket.advance(linger / 2);
    assert!(!client.socket.is_open());
    assert!(!drained(linger).socket.is_open());
    // It comes, and its response is not taken within that time.
    let mut client = drained(linger / 4);
    client.send(GET);
    client.socket.set_room(Some(HELLO.len() / 2));
    client.respond(200, "hello");
    client.socket.advance(linger);
    assert!(client.socket.is_open(), "the rest waits to be sent");
    client.socket.set_room(None);
    assert!(client.sent().ends_with("hello"));
    assert!(!client.socket.is_open());
}

#[test]
fn parts_that_make_no_response_end_the_connection() {
    // Without a request.
    let mut client = Client::new();
    client.write(head(200)).wait().unwrap_err();
    assert!(!client.socket.is_open());
    // Before the head: the client still gets a response.
    for part in [data("x"), end()] {
        let mut client = Client::new();
        client.send(GET);
        client.write(part).wait().unwrap_err();
        assert_eq!(client.sent(), closing("500 Internal Server Error"));
        assert!(!client.socket.is_open());
    }
    // More or less than declared, or a second head: the client must not take it for the whole.
    for mistake in ["long", "short", "head"] {
        let mut client = Client::new();
        client.send(GET.to_owned() + GET);
        let [first, _, last] = ResponsePart::whole(200, "hello").unwrap();
        client.write(first).wait().unwrap();
        let failed = match mistake {
            "long" => client.write(data("hello!")),
            "short" => client.write(last),
            _ => client.write(head(200)),
        };
        failed.wait().unwrap_err();
        assert!(!client.socket.is_open(), "{mistake}");
    }
    // A change of the protocol that the request does not allow.
    let mut client = Client::new();
    client.send(GET);
    client.write(head(101)).wait().unwrap_err();
    assert_eq!(client.sent(), closing("500 Internal Server Error"));
}

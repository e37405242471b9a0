//! Receivers that take a head and its whole body at once.

use super::*;

/// Logs what it receives, and a whole response as one entry.
struct Wholes(Logs);

impl ExchangeHandler for Wholes {
    const TAKES_WHOLE: bool = true;

    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming, ctx: &mut HandlerContext<'_>) {
        self.0.head(head, framing, ctx);
    }

    fn whole(
        &mut self,
        head: ResponseHead<'_>,
        framing: BodyFraming,
        received: &Bytes,
        body: std::ops::Range<usize>,
        _: &mut HandlerContext<'_>,
    ) {
        let body = String::from_utf8(received[body].to_vec()).unwrap();
        let status = head.status();
        self.0
            .log
            .push(format!("whole {status} {framing:?} {body}"));
    }

    fn data(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) -> Flow {
        self.0.data(bytes, ctx)
    }

    fn end(self, ctx: &mut HandlerContext<'_>) {
        self.0.end(ctx);
    }

    fn fail(self, why: ClientError, ctx: &mut HandlerContext<'_>) {
        self.0.fail(why, ctx);
    }
}

/// Takes whole responses, and does with them what receivers do by default.
struct Plain(Logs);

impl ExchangeHandler for Plain {
    const TAKES_WHOLE: bool = true;

    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming, ctx: &mut HandlerContext<'_>) {
        self.0.head(head, framing, ctx);
    }

    fn data(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) -> Flow {
        self.0.data(bytes, ctx)
    }

    fn end(self, ctx: &mut HandlerContext<'_>) {
        self.0.end(ctx);
    }

    fn fail(self, why: ClientError, ctx: &mut HandlerContext<'_>) {
        self.0.fail(why, ctx);
    }
}

/// Sends a request on a new connection, and receives these segments. Returns `true` if the connection
/// is in the pool then.
fn received<R: ExchangeHandler>(receiver: R, method: Method<'static>, segments: &[&str]) -> bool {
    let (pool, lease) = one_lease();
    let handler = ClientHandler::new(Connection::<R>::new(LIMITS, HeadLimits::DEFAULT));
    let mut channel = EmbeddedChannel::new(|p| p.add("http", handler)).unwrap();
    let link: Link<R> = Link::of(&channel.channel()).unwrap();
    let begun = Begun {
        id: 1,
        method,
        receiver,
        terms: terms(),
        lease: Some(lease),
        shared: false,
    };
    let is_begun = link.slot.begin(begun, true, channel.clock().nanos());
    assert!(is_begun.is_ok());
    let head = Bytes::from("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    link.channel.write_and_flush(head);
    channel.run();
    for segment in segments {
        channel.receive(segment.to_string());
    }
    !pool.take_free().is_empty()
}

fn logging(log: &Log<String>) -> Logs {
    Logs {
        log: log.clone(),
        flow: Flow::More,
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";

#[test]
fn a_response_that_comes_at_once_is_taken_at_once() {
    let whole = format!("{HEAD}hello");
    let interim = format!("HTTP/1.1 103 Early Hints\r\n\r\n{whole}");
    let more = format!("{whole}x");
    let twice = format!("{whole}{whole}");
    let part = format!("{HEAD}he");
    let rows: [(&[&str], &[&str], bool); 8] = [
        (&[&whole], &["whole 200 Length(5) hello", "end"], true),
        (&[&interim], &["whole 200 Length(5) hello", "end"], true),
        // What nobody has asked for is delivered to nobody.
        (&[&more], &["whole 200 Length(5) hello", "end"], false),
        (&[&twice], &["whole 200 Length(5) hello", "end"], false),
        (&[HEAD, "hello"], &["200 Length(5)", "hello", "end"], true),
        (
            &[&part, "llo"],
            &["200 Length(5)", "he", "llo", "end"],
            true,
        ),
        (
            &["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"],
            &["200 Length(0)", "end"],
            true,
        ),
        (
            &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"],
            &["200 Chunked", "hello", "end"],
            true,
        ),
    ];
    for (segments, delivered, kept) in rows {
        let log = Log::new();
        let logs = logging(&log);
        let is_kept = received(Wholes(logs), Method::Get, segments);
        assert_eq!(log.take(), delivered, "{segments:?}");
        assert_eq!(is_kept, kept, "{segments:?}");
        // By default it is the head, and then the body.
        let logs = logging(&log);
        received(Plain(logs), Method::Get, segments);
        let plain: Vec<String> = delivered
            .iter()
            .flat_map(|one| match one.strip_prefix("whole ") {
                Some(_) => vec!["200 Length(5)".to_owned(), "hello".to_owned()],
                None => vec![(*one).to_owned()],
            })
            .collect();
        assert_eq!(log.take(), plain, "{segments:?}");
    }
}

#[test]
fn the_response_to_a_head_request_is_never_taken_with_a_body() {
    let log = Log::new();
    let logs = logging(&log);
    let is_kept = received(Wholes(logs), Method::Head, &[&format!("{HEAD}hello")]);
    assert_eq!(log.take(), ["200 Empty", "end"]);
    assert!(!is_kept, "what follows is no body");
}

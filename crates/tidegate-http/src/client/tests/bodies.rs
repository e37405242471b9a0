//! Bodies: back-pressure, ends and cuts.

use tidegate_net::Channel;

use super::*;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n";

#[test]
fn a_receiver_that_pauses_gets_the_rest_when_it_resumes() {
    let mut fixture = Fixture::new();
    let id = fixture.begin(Flow::Pause, false);
    fixture.receive(format!("{HEAD}abc"));
    fixture.receive("def");
    assert_eq!(fixture.log.take(), ["200 Length(6)", "abc"]);
    // While the receiver is slow, no limit of time applies.
    fixture.channel.advance(LIMITS.body_timeout * 3);
    fixture.signal(Signal::Resume(id + 1));
    assert!(fixture.log.is_empty(), "not its exchange");
    fixture.signal(Signal::Resume(id));
    assert_eq!(fixture.log.take(), ["def"]);
    fixture.signal(Signal::Resume(id));
    assert_eq!(fixture.log.take(), ["end"]);
    assert!(fixture.is_idle());
}

#[test]
fn small_chunks_that_were_received_together_are_one_part() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = "1\r\nx\r\n".repeat(200);
    let data = "x".repeat(200);
    let mut fixture = Fixture::asked();
    fixture.receive(format!("{CHUNKED}{chunks}"));
    fixture.receive(format!("{chunks}0\r\nSum: 1\r\n\r\n"));
    let expected = ["200 Chunked", &data, &data, "trailers 8", "end"];
    assert_eq!(fixture.log.take(), expected);
    assert!(fixture.is_idle());
    // A receiver that pauses gets what follows when it resumes.
    let mut fixture = Fixture::new();
    let id = fixture.begin(Flow::Pause, false);
    fixture.receive(format!("{CHUNKED}{chunks}"));
    fixture.receive(format!("{chunks}0\r\n\r\n"));
    assert_eq!(fixture.log.take(), ["200 Chunked", &data]);
    fixture.signal(Signal::Resume(id));
    assert_eq!(fixture.log.take(), [&data[..]]);
    fixture.signal(Signal::Resume(id));
    assert_eq!(fixture.log.take(), ["end"]);
}

#[test]
fn a_receiver_that_is_gone_ends_the_connection() {
    let mut fixture = Fixture::new();
    fixture.begin(Flow::Gone, false);
    fixture.receive(format!("{HEAD}abcdef"));
    assert_eq!(fixture.log.take(), ["200 Length(6)", "abcdef"]);
    assert!(fixture.is_over());
}

#[test]
fn a_body_until_close_ends_with_the_connection() {
    let mut fixture = Fixture::asked();
    fixture.receive("HTTP/1.1 200 OK\r\n\r\nabc");
    fixture.receive("def");
    assert_eq!(fixture.log.take(), ["200 UntilClose", "abc", "def"]);
    fixture.channel.end_input();
    assert_eq!(fixture.log.take(), ["end"]);
    assert!(fixture.is_over());
}

#[test]
fn a_body_until_close_that_breaks_is_not_complete() {
    let mut fixture = Fixture::asked();
    fixture.receive("HTTP/1.1 200 OK\r\n\r\nabc");
    fixture.channel.fail(std::io::ErrorKind::ConnectionReset);
    let log = fixture.log.take();
    assert_eq!(log, ["200 UntilClose", "abc", "closed: sent"]);
    assert!(fixture.is_over());
}

#[test]
fn a_body_until_close_that_this_side_ends_is_not_complete() {
    for paused in [false, true] {
        let mut fixture = Fixture::new();
        let flow = if paused { Flow::Pause } else { Flow::More };
        fixture.begin(flow, false);
        fixture.receive("HTTP/1.1 200 OK\r\n\r\nabc");
        drop(fixture.channel.channel().close());
        fixture.channel.run();
        let log = fixture.log.take();
        assert_eq!(log, ["200 UntilClose", "abc", "truncated: sent"]);
        assert!(fixture.is_over());
    }
}

#[test]
fn a_body_until_close_waits_for_a_receiver_that_pauses() {
    let mut fixture = Fixture::new();
    let id = fixture.begin(Flow::Pause, false);
    fixture.receive("HTTP/1.1 200 OK\r\n\r\nabc");
    fixture.receive("def");
    fixture.channel.end_input();
    assert_eq!(fixture.log.take(), ["200 UntilClose", "abc"]);
    fixture.signal(Signal::Resume(id));
    assert_eq!(fixture.log.take(), ["def"]);
    fixture.signal(Signal::Resume(id));
    assert_eq!(fixture.log.take(), ["end"]);
    assert!(fixture.is_over());
}

/// Logs whether its connection is open when it is dropped.
struct Held(Channel, Log<bool>);

impl ExchangeHandler for Held {
    fn head(&mut self, _: ResponseHead<'_>, _: BodyFraming, _: &mut HandlerContext<'_>) {}
    fn data(&mut self, bytes: Bytes, _: &mut HandlerContext<'_>) -> Flow {
        match bytes.first() {
            Some(b'!') => Flow::Gone,
            _ => Flow::More,
        }
    }
    fn trailers(&mut self, _: Bytes, _: &mut HandlerContext<'_>) {}
    fn end(self, _: &mut HandlerContext<'_>) {}
    fn fail(self, _: ClientError, _: &mut HandlerContext<'_>) {
        panic!("it has left");
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.1.push(self.0.is_active());
    }
}

#[test]
fn a_receiver_that_has_left_is_dropped_after_its_connection() {
    for cancel in [true, false] {
        let connection = Connection::<Held>::new(LIMITS, HeadLimits::DEFAULT);
        let handler = ClientHandler::new(connection);
        let mut channel = EmbeddedChannel::new(|p| p.add("http", handler)).unwrap();
        let link = Link::<Held>::of(&channel.channel()).unwrap();
        let log = Log::new();
        let begun = Begun {
            id: 1,
            method: Method::Get,
            receiver: Held(channel.channel(), log.clone()),
            terms: terms(),
            lease: None,
            shared: false,
        };
        assert!(link.slot.begin(begun, true, 0).is_ok());
        link.channel.write_and_flush("GET / HTTP/1.1\r\n\r\n");
        channel.run();
        channel.receive(format!("{HEAD}abc"));
        match cancel {
            true => link.channel.fire_event(Signal::Cancel(1)),
            false => channel.receive("!"),
        }
        channel.run();
        assert_eq!(log.take(), [false]);
    }
}

#[test]
fn every_cut_of_a_response_is_noticed() {
    let whole = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let head = whole.find("3\r\n").unwrap();
    for length in 0..whole.len() {
        let mut fixture = Fixture::asked();
        fixture.receive(whole[..length].to_owned());
        fixture.channel.end_input();
        let expected = match length < head {
            true => "closed: sent",
            false => "truncated: sent",
        };
        assert_eq!(fixture.log.take().last().unwrap(), expected, "{length}");
        assert!(fixture.is_over(), "{length}");
    }
}

#[test]
fn a_bad_body_ends_the_connection() {
    let mut fixture = Fixture::asked();
    fixture.receive("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    let log = fixture.log.take();
    assert!(log[1].starts_with("bad ") && log.len() == 2, "{log:?}");
    assert!(fixture.is_over());
}

//! Bodies: back-pressure, ends and cuts.

use super::*;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n";

#[test]
fn a_receiver_that_pauses_gets_the_rest_when_it_resumes() {
    let mut fixture = Fixture::new();
    let id = fixture.begin(Flow::Pause, false);
    fixture.channel.receive(format!("{HEAD}abc"));
    fixture.channel.receive("def");
    assert_eq!(fixture.log.take(), ["200 Length(6)", "abc"]);
    // While the receiver is slow, no limit of time applies.
    fixture.channel.advance(LIMITS.body_timeout * 3);
    fixture.order(Order::Resume(id + 1));
    assert!(fixture.log.is_empty(), "not its exchange");
    fixture.order(Order::Resume(id));
    assert_eq!(fixture.log.take(), ["def"]);
    fixture.order(Order::Resume(id));
    assert_eq!(fixture.log.take(), ["end"]);
    assert!(fixture.is_idle());
}

#[test]
fn a_receiver_that_is_gone_ends_the_connection() {
    let mut fixture = Fixture::new();
    fixture.begin(Flow::Gone, false);
    fixture.channel.receive(format!("{HEAD}abcdef"));
    assert_eq!(fixture.log.take(), ["200 Length(6)", "abcdef"]);
    assert!(fixture.is_over());
}

#[test]
fn a_body_until_close_ends_with_the_connection() {
    let mut fixture = Fixture::new();
    fixture.get();
    fixture.channel.receive("HTTP/1.1 200 OK\r\n\r\nabc");
    fixture.channel.receive("def");
    assert_eq!(fixture.log.take(), ["200 UntilClose", "abc", "def"]);
    fixture.channel.end_input();
    assert_eq!(fixture.log.take(), ["end"]);
    assert!(fixture.is_over());
}

#[test]
fn a_body_until_close_that_breaks_is_not_complete() {
    let mut fixture = Fixture::new();
    fixture.get();
    fixture.channel.receive("HTTP/1.1 200 OK\r\n\r\nabc");
    fixture.channel.fail(std::io::ErrorKind::ConnectionReset);
    let log = fixture.log.take();
    assert_eq!(log, ["200 UntilClose", "abc", "closed: sent responded"]);
    assert!(fixture.is_over());
}

#[test]
fn every_cut_of_a_response_is_noticed() {
    let whole = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let head = whole.find("3\r\n").unwrap();
    for length in 0..whole.len() {
        let mut fixture = Fixture::new();
        fixture.get();
        fixture.channel.receive(whole[..length].to_owned());
        fixture.channel.end_input();
        let expected = match length {
            0 => "closed: sent",
            _ if length < head => "closed: sent responded",
            _ => "truncated: sent responded",
        };
        assert_eq!(fixture.log.take().last().unwrap(), expected, "{length}");
        assert!(fixture.is_over(), "{length}");
    }
}

#[test]
fn a_bad_body_ends_the_connection() {
    let mut fixture = Fixture::new();
    fixture.get();
    fixture
        .channel
        .receive("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    let log = fixture.log.take();
    assert!(log[1].starts_with("bad ") && log.len() == 2, "{log:?}");
    assert!(fixture.is_over());
}

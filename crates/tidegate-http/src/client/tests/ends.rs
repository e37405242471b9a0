//! Ends of connections: time, cancels, idle bytes, age.

use super::*;

const RESPONSE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_head_that_does_not_come_in_time_fails() {
    let mut fixture = Fixture::asked();
    fixture.channel.advance(LIMITS.head_timeout / 2);
    fixture.receive("HTTP/1.1 200 OK\r\n");
    assert!(fixture.channel.is_open());
    fixture.channel.advance(LIMITS.head_timeout);
    assert_eq!(fixture.log.take(), ["head timeout: sent"]);
    assert!(fixture.is_over());
}

#[test]
fn a_body_may_be_slow_but_not_silent() {
    let mut fixture = Fixture::asked();
    fixture.receive("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    for _ in 0..4 {
        fixture.channel.advance(LIMITS.body_timeout * 3 / 4);
        fixture.receive("x");
    }
    assert!(fixture.channel.is_open());
    fixture.channel.advance(LIMITS.body_timeout * 2);
    assert_eq!(fixture.log.take().last().unwrap(), "body timeout: sent");
    assert!(fixture.is_over());
}

#[test]
fn an_idle_connection_ends_after_a_while_or_when_bytes_arrive() {
    for bytes in [false, true] {
        let mut fixture = Fixture::asked();
        fixture.receive(RESPONSE);
        match bytes {
            true => fixture.receive("HTTP/1.1 408 Request Timeout\r\n\r\n"),
            false => {
                fixture.channel.advance(LIMITS.idle / 2);
                assert!(fixture.channel.is_open());
                fixture.channel.advance(LIMITS.idle);
            }
        }
        assert!(fixture.is_over());
        assert_eq!(fixture.log.take().last().unwrap(), "end");
    }
}

#[test]
fn bytes_before_the_first_request_end_the_connection() {
    let mut fixture = Fixture::new();
    fixture.receive(RESPONSE);
    assert!(!fixture.channel.is_open());
    fixture.get();
    assert_eq!(fixture.log.take(), ["closed: safe"]);
}

#[test]
fn the_server_can_shorten_the_idle_time() {
    let fields = [
        ("Keep-Alive: timeout=5, max=100\r\n", 4),
        ("keep-alive: max=3, Timeout=\"2\"\r\n", 1),
        ("Keep-Alive: timeout=60\r\n", 15),
        ("Keep-Alive: timeout=x\r\n", 15),
        ("Keep-Alive: nothing\r\n", 15),
        ("", 15),
    ];
    for (field, seconds) in fields {
        let mut fixture = Fixture::asked();
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{field}\r\n");
        fixture.receive(response);
        let limit = Duration::from_secs(seconds);
        fixture.channel.advance(limit * 9 / 10);
        assert!(fixture.channel.is_open(), "{field}");
        fixture.channel.advance(limit * 2 / 10);
        assert!(fixture.is_over(), "{field}");
    }
}

#[test]
fn a_connection_ends_after_its_last_request_and_at_its_age() {
    let few = ConnectionLimits {
        max_requests: 2,
        ..LIMITS
    };
    let mut fixture = Fixture::with(few);
    for open in [true, false] {
        fixture.get();
        fixture.receive(RESPONSE);
        assert_eq!(fixture.channel.is_open(), open);
    }
    let young = ConnectionLimits {
        max_age: Duration::from_secs(10),
        idle: Duration::from_secs(100),
        ..LIMITS
    };
    let mut fixture = Fixture::with(young);
    for open in [true, false] {
        fixture.get();
        fixture.receive(RESPONSE);
        assert_eq!(fixture.channel.is_open(), open);
        fixture.channel.advance(Duration::from_secs(10));
    }
}

#[test]
fn a_cancelled_exchange_ends_its_connection_and_no_other() {
    let mut fixture = Fixture::new();
    let first = fixture.get();
    fixture.receive(RESPONSE);
    let second = fixture.get();
    fixture.signal(Signal::Cancel(first));
    assert!(fixture.channel.is_open());
    drop(fixture.log.take());
    fixture.signal(Signal::Cancel(second));
    assert!(fixture.log.is_empty(), "its caller has left");
    assert!(fixture.is_over());
}

#[test]
fn a_reused_connection_that_ends_says_so() {
    let mut fixture = Fixture::asked();
    fixture.receive(RESPONSE);
    fixture.get();
    drop(fixture.log.take());
    fixture.channel.end_input();
    assert_eq!(fixture.log.take(), ["closed: sent safe"]);
    fixture.get();
    assert_eq!(fixture.log.take(), ["closed: safe"], "nothing was sent");
    assert!(fixture.is_over());
}

#[test]
fn a_final_response_before_the_end_of_the_request_stops_it_and_closes_afterwards() {
    let mut fixture = Fixture::new();
    let id = fixture.begin_part(Flow::More, false, false);
    assert!(!fixture.link.slot.is_stopped(id));
    fixture.receive("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\n");
    assert!(fixture.link.slot.is_stopped(id), "nothing more is sent");
    assert!(fixture.channel.is_open(), "the body is still outstanding");
    fixture.receive("no");
    assert_eq!(fixture.log.take(), ["413 Length(2)", "no", "end"]);
    assert!(fixture.is_over());
}

#[test]
fn a_server_may_read_on_while_it_responds() {
    let mut fixture = Fixture::new();
    let id = fixture.begin_part(Flow::More, false, false);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
    fixture.receive(head);
    assert!(!fixture.link.slot.is_stopped(id), "the rest is sent");
    fixture.link.slot.complete(id, 0);
    fixture.receive("ok");
    assert_eq!(fixture.log.take(), ["200 Length(2)", "ok", "end"]);
    assert!(!fixture.is_over(), "it can serve another request");
    // A response that ends first ends the request, too.
    let id = fixture.begin_part(Flow::More, false, false);
    fixture.receive(format!("{head}ok"));
    assert!(fixture.link.slot.is_stopped(id));
    assert!(fixture.is_over());
    // A server that closes the connection reads no more.
    let mut fixture = Fixture::new();
    let id = fixture.begin_part(Flow::More, false, false);
    fixture.receive("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n");
    assert!(fixture.link.slot.is_stopped(id));
}

#[test]
fn a_request_that_becomes_complete_is_like_any_other() {
    let mut fixture = Fixture::new();
    let id = fixture.begin_part(Flow::More, false, false);
    // As long as the rest of the request is missing, the server is not slow.
    fixture.channel.advance(LIMITS.head_timeout * 2);
    assert!(fixture.channel.is_open());
    fixture
        .link
        .slot
        .complete(id, fixture.channel.clock().nanos());
    fixture.channel.advance(LIMITS.head_timeout / 2);
    fixture.receive(RESPONSE);
    assert!(fixture.is_idle());
    let id = fixture.begin_part(Flow::More, false, false);
    fixture
        .link
        .slot
        .complete(id, fixture.channel.clock().nanos());
    drop(fixture.log.take());
    fixture.channel.advance(LIMITS.head_timeout * 2);
    assert_eq!(fixture.log.take(), ["head timeout: sent"]);
    assert!(fixture.is_over());
}

#[test]
fn bytes_that_came_before_the_request_was_sent_are_no_response_to_it() {
    let mut fixture = Fixture::asked();
    fixture.receive(RESPONSE);
    drop(fixture.log.take());
    // The peer takes nothing, and a second response to the first request arrives.
    fixture.channel.set_room(Some(0));
    fixture.get();
    fixture.receive(RESPONSE);
    assert_eq!(fixture.log.take(), ["closed: safe"], "nothing was sent");
    assert!(fixture.is_over());
}

#[test]
fn a_head_that_comes_byte_by_byte_ends_by_the_time_of_the_head() {
    let mut fixture = Fixture::asked();
    let second = Duration::from_secs(1);
    let mut sent = 0;
    for byte in RESPONSE.bytes() {
        fixture.channel.advance(second);
        if !fixture.channel.is_open() {
            break;
        }
        fixture.receive(vec![byte]);
        sent += 1;
    }
    assert_eq!(fixture.log.take(), ["head timeout: sent"]);
    assert!(sent <= LIMITS.head_timeout.as_secs(), "{sent}");
    assert!(fixture.is_over());
}

#[test]
fn a_server_that_reads_nothing_ends_by_the_time_of_the_head() {
    let mut fixture = Fixture::new();
    fixture.channel.set_room(Some(0));
    fixture.get();
    fixture.channel.advance(LIMITS.head_timeout * 2);
    assert_eq!(fixture.log.take(), ["head timeout: "], "nothing was sent");
    assert!(fixture.is_over());
    // A request of which a part was taken.
    let mut fixture = Fixture::new();
    fixture.channel.set_room(Some(5));
    fixture.get();
    for _ in 0..4 {
        fixture.channel.advance(LIMITS.head_timeout);
    }
    assert_eq!(fixture.log.take(), ["head timeout: sent"]);
    assert!(fixture.is_over());
}

#[test]
fn a_reset_after_the_head_is_an_error_of_the_body() {
    let mut fixture = Fixture::asked();
    fixture.receive("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    fixture.channel.fail(std::io::ErrorKind::ConnectionReset);
    assert_eq!(fixture.log.take(), ["200 Length(9)", "closed: sent"]);
    assert!(fixture.is_over());
}

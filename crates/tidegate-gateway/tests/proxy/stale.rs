//! Connections that end before their requests: by the server, when one is to be sent, or by us.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::loops::EventLoop;

use tidegate_testkit::begins;

use crate::*;

const POST: &str = "POST /pay HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n";

/// What a server does with an idle connection.
const ENDS: [fn(&mut Peer); 2] = [
    |server| server.0.shutdown_output(),
    |server| server.write("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"),
];

/// Serves a request, and lets the server end its connection while the next request is on its way to it.
/// Returns the client and that server. Only a poller finds both in one turn, so they are sockets.
fn interrupt(
    fixture: &Fixture,
    back: &Upstream,
    request: &str,
    end: fn(&mut Peer),
) -> (Peer, Peer) {
    let (mut client, mut server) = serve_first(fixture, back);
    fixture.in_one_turn(|| {
        client.write(request);
        end(&mut server);
    });
    (client, server)
}

#[test]
fn a_request_that_is_sent_elsewhere_is_not_sent_on_the_old_connection() {
    let rows = ENDS.map(|end| [(end, ""), (end, "retry = 1")]);
    for (end, settings) in rows.into_iter().flatten() {
        let back = Upstream::on_socket();
        let fixture = Fixture::on_sockets(&route(&[&back], settings));
        let (mut client, mut server) = interrupt(&fixture, &back, POST, end);
        let request = back.accept().serve(OK_CLOSE);
        begins(&request.head, "POST /pay ");
        assert_eq!(client.message().body, "ok");
        assert_eq!(server.rest(), "");
        assert_eq!(fixture.total(Event::Failure), 0);
        fixture.wait_idle();
    }
}

/// Bodies, with their fields: what is read before the connection ends, and the rest.
const BODIES: [(&str, &str, &str); 4] = [
    ("Content-Length: 4", "abcd", ""),
    ("Content-Length: 4", "ab", "cd"),
    (
        "Transfer-Encoding: chunked\r\nTrailer: Checksum",
        "4\r\nabcd\r\n0\r\nChecksum: 7\r\n\r\n",
        "",
    ),
    (
        "Transfer-Encoding: chunked",
        "2\r\nab\r\n",
        "2\r\ncd\r\n0\r\n\r\n",
    ),
];

#[test]
fn a_body_that_was_read_is_sent_elsewhere_too() {
    for end in ENDS {
        for (fields, begin, rest) in BODIES {
            let back = Upstream::on_socket();
            let fixture = Fixture::on_sockets(&route(&[&back], ""));
            let head = POST.replace("Content-Length: 0", fields);
            let (mut client, mut old) = interrupt(&fixture, &back, &(head + begin), end);
            let mut server = back.accept();
            assert!(server.head().starts_with("POST /pay "));
            assert_eq!(server.bytes(begin.len()), begin);
            client.write(rest);
            assert_eq!(server.bytes(rest.len()), rest);
            server.write(OK);
            assert_eq!(client.message().body, "ok", "{fields}");
            assert_eq!(old.rest(), "");
            assert_eq!(fixture.total(Event::Failure), 0);
            // Both connections are used again.
            client.ask(&mut server);
            fixture.wait_idle();
        }
    }
}

#[test]
fn a_long_body_of_which_a_part_was_read_is_not_sent_elsewhere() {
    let back = Upstream::on_socket();
    let fixture = Fixture::on_sockets(&route(&[&back], "retry = 1"));
    let body = "x".repeat(17 * 1024);
    let head = POST.replace("Content-Length: 0", "Content-Length: 17408");
    let (mut client, mut old) = interrupt(&fixture, &back, &(head + &body), ENDS[0]);
    assert_eq!(client.message().status(), "502");
    assert_eq!(old.rest(), "");
    fixture.wait_idle();
    assert!(back.is_quiet());
}

#[test]
fn an_upload_that_is_given_up_resets_its_connection() {
    let (back, fixture) = Fixture::of("timeout = \"2s\"");
    let mut client =
        fixture.send("PUT /a HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 9\r\n\r\npart");
    let mut server = back.accept_head();
    assert_eq!(server.bytes(4), "part");
    fixture.clock.advance(Duration::from_secs(3));
    assert_eq!(client.message().status(), "408");
    // Otherwise the system would keep the rest for a server that does not read.
    let why = server.0.read(&mut [0; 9]).unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::ConnectionReset);
    fixture.wait_idle();
}

/// Closes the connections of a server as soon as they are made. It runs on the loop of the gateway, which
/// finds each connection made and ended at once. Stops after 20 of them.
fn close_each(home: &EventLoop, back: Arc<Listener>, closed: Arc<AtomicU32>) {
    let again = home.clone();
    let close = move || {
        if back.try_accept().is_ok() {
            closed.fetch_add(1, Ordering::Relaxed);
        }
        if closed.load(Ordering::Relaxed) < 20 && Arc::strong_count(&back) > 1 {
            close_each(&again, back, closed);
        }
    };
    drop(home.execute(close));
}

#[test]
fn a_new_connection_that_ends_at_once_is_replaced_once() {
    for (settings, most) in [("", 2), ("retry = 1", 4)] {
        let (back, fixture) = Fixture::of(settings);
        let (listener, closed) = (Arc::new(back.0), Arc::<AtomicU32>::default());
        let home = fixture.group.loops().next();
        close_each(home, Arc::clone(&listener), Arc::clone(&closed));
        let response = fixture.send(GET).message();
        assert_eq!(response.field("tidegate-failed"), Some("closed shop"));
        assert_eq!(closed.load(Ordering::Relaxed), most, "{settings}");
        drop(listener);
        fixture.wait_idle();
        assert_eq!(fixture.total(Event::Failure), u64::from(most / 2));
    }
}

//! The handshake: its result, the writes that wait for it, its time limit.

use std::time::Duration;

use bytes::Bytes;
use tidegate_net::tls::{TlsClient, TlsError, TlsHandshake, TlsVersion, rustls};
use tidegate_net::{EmbeddedChannel, PipelineBuilder};
use tidegate_testkit::Log;

use super::{Authority, Pair, SECOND, only_error, whole};
use crate::acts::Acts;
use crate::{marks, no_auto_read};

#[test]
fn both_sides_learn_what_was_agreed_and_understand_each_other() {
    let authority = Authority::new();
    let server = authority.server("a.test").alpn(["h2", "http/1.1"]);
    let client = authority.client().alpn(["http/1.1"]);
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.run();
    let [ours, theirs] = pair.handshakes().map(Option::unwrap);
    for one in [&ours, &theirs] {
        assert_eq!(one.version, TlsVersion::V1_3);
        assert_eq!(one.alpn.as_deref(), Some(&b"http/1.1"[..]));
        assert_eq!(one.server_name.as_deref(), Some("a.test"));
    }
    assert!(ours.peer_certificate.is_some() && theirs.peer_certificate.is_none());
    let big = Bytes::from(vec![7; 300_000]);
    pair.client.channel().write("hello ");
    pair.client.channel().write_and_flush("world");
    pair.server.channel().write_and_flush(big.clone());
    pair.client.run();
    pair.server.run();
    pair.run();
    assert_eq!(whole(&mut pair.server), "hello world");
    assert_eq!(whole(&mut pair.client), big);
}

#[test]
fn the_handshake_event_comes_before_the_first_bytes_even_in_one_read() {
    fn log_events(log: Log<String>) -> Acts {
        let in_read = log.clone();
        Acts::on_read(move |bytes, _| in_read.push(format!("{bytes:?}"))).on_event(
            move |event, _| {
                let done = event.downcast_ref::<TlsHandshake>().is_some();
                log.push(format!("handshake {done}"));
            },
        )
    }
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let log = Log::new();
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.server = EmbeddedChannel::new(|p| {
        p.add_duplex("tls", server.handler())
            .add("notes", log_events(log.clone()))
    })
    .unwrap();
    // Written before the handshake is done, so it is sent with the last message of the handshake.
    pair.client.channel().write_and_flush("early");
    pair.client.run();
    pair.run();
    assert_eq!(log.take(), ["handshake true", "b\"early\""]);
}

#[test]
fn one_byte_at_a_time_is_enough() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.client.channel().write_and_flush("slowly");
    pair.client.run();
    loop {
        let (there, back) = (pair.client.sent(), pair.server.sent());
        if there.is_empty() && back.is_empty() {
            break;
        }
        for byte in there {
            pair.server.receive(vec![byte]);
        }
        for byte in back {
            pair.client.receive(vec![byte]);
        }
    }
    assert_eq!(whole(&mut pair.server), "slowly");
}

#[test]
fn a_flush_makes_one_record_of_many_writes_and_completes_them_all() {
    let mut pair = Pair::joined(&Authority::new());
    let channel = pair.client.channel();
    let sent: Vec<_> = (0..50).map(|_| channel.write_with("0123456789")).collect();
    pair.client.run();
    assert!(pair.client.sent().is_empty(), "nothing before a flush");
    channel.flush();
    pair.client.run();
    let record = pair.client.sent();
    assert!(record.len() < 500 + 64, "{}", record.len());
    for one in sent {
        one.wait().unwrap();
    }
}

#[test]
fn garbage_instead_of_a_greeting_is_an_error() {
    let server = Authority::new().server("a.test");
    for garbage in ["GET / HTTP/1.1\r\n\r\n", "\u{16}\u{3}\u{1}\0\u{5}aaaaa"] {
        let mut channel = EmbeddedChannel::new(|p| p.add_duplex("tls", server.handler())).unwrap();
        channel.receive(garbage);
        let why = only_error(&mut channel);
        assert!(matches!(why, TlsError::Handshake(_)), "{why}");
        assert!(!channel.is_open());
    }
}

#[test]
fn no_protocol_in_common_is_an_error() {
    let authority = Authority::new();
    let server = authority.server("a.test").alpn(["h2"]);
    let client = authority.client().alpn(["smtp"]);
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.run();
    assert!(matches!(
        only_error(&mut pair.server),
        TlsError::Handshake(rustls::Error::NoApplicationProtocol)
    ));
}

#[test]
fn only_a_handshake_that_takes_too_long_is_ended() {
    let authority = Authority::new();
    let server = authority.server("a.test").handshake_timeout(3 * SECOND);
    let client = authority.client().handshake_timeout(Duration::ZERO);
    let mut slow = Pair::new(&server, &client, "a.test");
    slow.server.advance(2 * SECOND);
    assert!(slow.server.is_open());
    slow.server.advance(SECOND);
    let why = only_error(&mut slow.server);
    assert!(matches!(why, TlsError::HandshakeTimeout(after) if after == 3 * SECOND));
    slow.client.advance(3600 * SECOND);
    assert!(slow.client.is_open(), "zero is for ever");

    let mut quick = Pair::new(&server, &client, "a.test");
    quick.run();
    quick.server.advance(60 * SECOND);
    assert!(quick.server.is_open());
}

/// Tells the handlers behind it later that the channel is open.
fn connecting() -> Acts {
    Acts::on_read(|bytes, ctx| ctx.fire_read(bytes))
        .on_active(|_| ())
        .on_event(|event, ctx| match event.downcast_ref::<Connected>() {
            Some(_) => ctx.fire_active(),
            None => ctx.fire_event(event),
        })
}

/// The event that says so.
struct Connected;

/// Returns a channel whose connect has taken this long.
fn connected_after(took: Duration, tls: &TlsClient) -> EmbeddedChannel {
    let name = tls.name("a.test").unwrap();
    let pipeline = |p: PipelineBuilder| {
        let p = p.add("connecting", connecting());
        p.add_duplex("tls", name.handler())
    };
    let mut channel = EmbeddedChannel::new(pipeline).unwrap();
    channel.advance(took);
    assert!(channel.sent().is_empty(), "not connected yet");
    channel.channel().fire_event(Connected);
    channel.run();
    assert!(!channel.sent().is_empty(), "the handshake has begun");
    channel
}

#[test]
fn connect_and_handshake_share_one_limit() {
    let client = Authority::new().client();
    let both = client.clone().connect_timeout(5 * SECOND);
    let mut slow = connected_after(3 * SECOND, &both);
    slow.advance(SECOND);
    assert!(slow.is_open());
    slow.advance(SECOND);
    let why = only_error(&mut slow);
    assert!(matches!(why, TlsError::ConnectTimeout(after) if after == 5 * SECOND));

    // The handshake alone has its own limit, whichever is over first.
    let short = both.clone().handshake_timeout(SECOND);
    let mut slow = connected_after(SECOND, &short);
    slow.advance(SECOND);
    let why = only_error(&mut slow);
    assert!(matches!(why, TlsError::HandshakeTimeout(after) if after == SECOND));

    // Without a limit for both, the connect does not count.
    let mut slow = connected_after(60 * SECOND, &client.handshake_timeout(3 * SECOND));
    slow.advance(2 * SECOND);
    assert!(slow.is_open());
    slow.advance(SECOND);
    assert!(!slow.is_open());
}

#[test]
fn what_waits_for_the_handshake_counts_against_the_marks_and_the_cap() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::with_options(&server, &client, "a.test", &marks(1_000, 2_000, 10_000));
    let channel = pair.client.channel();
    let hello = pair.client.sent();
    channel.write_and_flush(vec![1; 3_000]);
    pair.client.run();
    assert!(!channel.is_writable() && channel.pending_bytes() >= 3_000);
    let room = channel.writable();
    let refused = channel.write_with(vec![1; 9_000]);
    channel.flush();
    pair.client.run();
    let why = refused.wait().unwrap_err();
    assert!(why.to_string().contains("cap"), "{why}");
    pair.server.receive(hello);
    pair.run();
    assert!(channel.is_writable());
    room.wait().unwrap();
    assert_eq!(channel.pending_bytes(), 0);
    assert_eq!(whole(&mut pair.server).len(), 3_000);

    // If the peer does not read, encrypted bytes count, too.
    pair.client.set_room(Some(0));
    channel.write_and_flush(vec![1; 3_000]);
    pair.client.run();
    assert!(!channel.is_writable());
    pair.client.set_room(None);
    assert!(channel.is_writable());
}

#[test]
fn a_graceful_close_waits_for_the_handshake() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.client.channel().write("all of it");
    drop(pair.client.channel().close_when_flushed());
    pair.client.run();
    assert!(pair.client.is_open());
    pair.run();
    assert!(!pair.client.is_open());
    assert_eq!(whole(&mut pair.server), "all of it");
    assert!(pair.server.errors().is_empty());
}

#[test]
fn the_handshake_reads_on_its_own_where_the_channel_does_not() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::with_options(&server, &client, "a.test", &no_auto_read());
    pair.run();
    assert!(pair.handshakes().iter().all(Option::is_some));
    for word in ["one", "two"] {
        pair.client.channel().write_and_flush(word);
        pair.client.run();
        pair.run();
    }
    let first = whole(&mut pair.server);
    assert!(first.len() <= 6);
    pair.server.channel().read();
    pair.server.run();
    let rest = whole(&mut pair.server);
    assert_eq!([first, rest].concat(), b"onetwo");
}

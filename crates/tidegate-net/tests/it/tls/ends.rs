//! The end of an encrypted connection, with and without a `close_notify`.

use std::io::ErrorKind;

use tidegate_net::tls::TlsError;
use tidegate_net::{ChannelOptions, EmbeddedChannel, InputShutdown};
use tidegate_testkit::Log;

use super::{Authority, Pair, only_error, whole};
use crate::acts::Acts;
use crate::half_closure;

#[test]
fn a_close_notify_is_sent_received_and_answered() {
    let mut pair = Pair::joined(&Authority::new());
    pair.client.channel().write("last words");
    drop(pair.client.channel().close_when_flushed());
    pair.client.run();
    assert!(!pair.client.is_open());
    let there = pair.client.sent();
    pair.server.receive(there);
    assert_eq!(whole(&mut pair.server), "last words");
    assert!(!pair.server.is_open());
    assert!(!pair.server.sent().is_empty(), "answered");
    assert!(pair.server.errors().is_empty());

    let mut pair = Pair::joined(&Authority::new());
    pair.server.close();
    let back = pair.server.sent();
    assert!(!back.is_empty(), "sent at a plain close too");
    pair.client.receive(back);
    pair.client.end_input();
    assert!(!pair.client.is_open());
    assert!(pair.client.errors().is_empty());
}

#[test]
fn a_close_notify_ends_one_direction_where_half_closure_is_allowed() {
    fn ends(log: Log<()>) -> Acts {
        Acts::on_read(|bytes, ctx| ctx.fire_read(bytes)).on_event(move |event, _| {
            if event.downcast_ref::<InputShutdown>().is_some() {
                log.push(());
            }
        })
    }
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let options = half_closure();
    let mut pair = Pair::with_options(&server, &client, "a.test", &options);
    let log = Log::new();
    pair.server = EmbeddedChannel::with_options(options, |p| {
        p.add_duplex("tls", server.handler())
            .add("ends", ends(log.clone()))
    })
    .unwrap();
    pair.client.channel().write_and_flush("a question");
    drop(pair.client.channel().shutdown_output());
    pair.client.run();
    assert!(!pair.client.is_output_shut(), "not before it is sent");
    pair.run();
    assert!(pair.client.is_output_shut());
    assert_eq!(whole(&mut pair.server), "a question");
    pair.server.end_input();
    assert_eq!(log.take().len(), 1, "reported once");
    pair.server.channel().write_and_flush("an answer");
    pair.server.run();
    pair.run();
    assert_eq!(whole(&mut pair.client), "an answer");
    assert!(pair.client.errors().is_empty() && pair.server.errors().is_empty());
}

#[test]
fn a_close_notify_is_sent_if_an_unhandled_error_closes_the_channel() {
    fn fails() -> Acts {
        Acts::on_read(|_, _| panic!("on purpose"))
    }
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.server =
        EmbeddedChannel::new(|p| p.add_duplex("tls", server.handler()).add("fails", fails()))
            .unwrap();
    pair.run();
    pair.client.channel().write_and_flush("hello");
    pair.client.run();
    let there = pair.client.sent();
    pair.server.receive(there);
    assert!(!pair.server.is_open());
    assert_eq!(pair.server.errors().len(), 1);
    let back = pair.server.sent();
    assert!(!back.is_empty(), "sent");
    pair.client.receive(back);
    pair.client.end_input();
    assert!(!pair.client.is_open());
    assert!(pair.client.errors().is_empty(), "not cut short");
}

#[test]
fn an_end_without_a_close_notify_is_an_error() {
    let mut pair = Pair::joined(&Authority::new());
    pair.client.end_input();
    assert!(matches!(only_error(&mut pair.client), TlsError::Truncated));
    let cause = pair.client.channel().close_cause().unwrap();
    assert!(cause.to_string().contains("may be incomplete"), "{cause}");

    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.server.end_input();
    let why = only_error(&mut pair.server);
    assert!(matches!(why, TlsError::ClosedInHandshake));
    assert!(!pair.server.is_open());
}

#[test]
fn a_channel_that_is_aborted_sends_no_close_notify() {
    let mut pair = Pair::joined(&Authority::new());
    pair.server.channel().write_and_flush("a part");
    drop(pair.server.channel().abort());
    pair.server.run();
    assert!(!pair.server.is_open());
    let back = pair.server.sent();
    pair.client.receive(back);
    assert_eq!(whole(&mut pair.client), "a part", "it was flushed before");
    assert!(pair.client.is_open(), "no `close_notify` was sent");
    pair.client.end_input();
    assert!(matches!(only_error(&mut pair.client), TlsError::Truncated));
}

#[test]
fn a_broken_record_ends_the_connection() {
    let mut pair = Pair::joined(&Authority::new());
    pair.client.channel().write_and_flush("hello");
    pair.client.run();
    let mut record = pair.client.sent().to_vec();
    *record.last_mut().unwrap() ^= 1;
    pair.server.receive(record);
    assert!(matches!(
        only_error(&mut pair.server),
        TlsError::ConnectionFailed(_)
    ));
    assert!(whole(&mut pair.server).is_empty() && !pair.server.is_open());
    let alert = pair.server.sent();
    pair.client.receive(alert);
    assert!(matches!(
        only_error(&mut pair.client),
        TlsError::ConnectionFailed(_)
    ));
}

#[test]
fn writes_after_the_end_fail() {
    let mut pair = Pair::joined(&Authority::new());
    let channel = pair.client.channel();
    let never = channel.write_with("not flushed");
    pair.client.run();
    pair.client.close();
    assert!(never.wait().is_err());
    let late = channel.write_with("late");
    pair.client.run();
    assert!(late.wait().is_err());
}

#[test]
fn a_peer_that_leaves_after_its_close_notify_is_no_error() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    for options in [ChannelOptions::default(), half_closure()] {
        for kind in [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe] {
            let mut pair = Pair::with_options(&server, &client, "a.test", &options);
            pair.run();
            pair.server.set_room(Some(0));
            let lost = pair.server.channel().write_and_flush_with("not taken");
            pair.client.close();
            let there = pair.client.sent();
            pair.server.receive(there);
            assert!(pair.server.is_open(), "the rest is still to be sent");
            pair.server.fail(kind);
            assert!(!pair.server.is_open() && lost.wait().is_err());
            assert!(pair.server.errors().is_empty());
        }
    }
}

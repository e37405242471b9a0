//! Channels with one closed half.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};

use bytes::Bytes;
use tidegate_net::handlers::FlushConsolidation;
use tidegate_net::{
    Channel, Client, EmbeddedChannel, Inbound, InboundContext, InputShutdown, NetError, Nothing,
    UserEvent,
};
use tidegate_pool::WorkerPool;
use tidegate_testkit::Log;

use crate::acts::Acts;
use crate::roaming::roaming;
use crate::{dial, group, half_closure, serve};

/// Logs messages and errors.
fn log_events(log: Log<String>) -> Acts {
    let in_read = log.clone();
    Acts::on_read(move |bytes, ctx| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text == "bye" {
            ctx.write("good");
            ctx.write("bye");
            ctx.shutdown_output();
            ctx.write("too late");
            ctx.flush();
        }
        in_read.push(text);
    })
    .on_error(move |why, _| log.push(why.to_string()))
}

#[test]
fn what_was_written_and_not_flushed_goes_before_the_end() {
    let (_log, own) = Log::pair();
    let mut channel =
        EmbeddedChannel::with_options(half_closure(), |p| p.add("notes", log_events(own))).unwrap();
    channel.channel().write("never ");
    channel.channel().write("flushed");
    let shut = channel.channel().shutdown_output();
    channel.run();
    shut.wait().unwrap();
    assert!(channel.is_output_shut());
    assert_eq!(channel.sent(), "never flushed");
}

#[test]
fn a_handler_that_ends_its_half_sends_earlier_writes_and_nothing_after() {
    let log = Log::new();
    for held_back in [false, true] {
        let own = log.clone();
        let mut channel = EmbeddedChannel::with_options(half_closure(), |p| {
            let p = if held_back {
                p.add_duplex("fewer", FlushConsolidation::every(256))
            } else {
                p
            };
            p.add("notes", log_events(own))
        })
        .unwrap();
        channel.receive("bye");
        assert!(channel.is_output_shut());
        assert_eq!(channel.sent(), "goodbye");
        channel.receive("more");
        assert_eq!(
            log.take(),
            ["bye", "more"],
            "it reads on, and no error was reported"
        );
    }
}

fn a_late_write_fails_alone(channel: &Channel, listener: &TcpListener, log: &Log<String>) {
    let (mut peer, _) = listener.accept().unwrap();
    channel.shutdown_output().wait().unwrap();
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    channel.write_and_flush("unasked");
    let late = channel.write_with("late");
    let notified = channel.flush_with();
    let flushed = channel.flush_with();
    for late in [late, notified] {
        let why = late.wait().unwrap_err().failure().unwrap();
        let why = why.downcast_ref::<NetError>();
        assert!(matches!(why, Some(NetError::OutputShut)), "{why:?}");
    }
    flushed.wait().unwrap();
    peer.write_all(b"hello").unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), ["hello"]);
    assert!(channel.is_active() && channel.pending_bytes() == 0);
    drop(peer);
    channel.closed().wait().unwrap();
    assert!(channel.close_cause().is_none(), "both halves have ended");
}

#[test]
fn a_write_after_the_end_of_its_half_fails_and_the_other_half_lives_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let log = Log::new();
    let (on_pinned, on_roaming) = (log.clone(), log.clone());
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    let client = Client::builder(&pinned).options(half_closure());
    let client = client
        .pipeline(move |p| p.add("notes", log_events(on_pinned.clone())))
        .build();
    a_late_write_fails_alone(&client.connect(address).wait().unwrap(), &listener, &log);

    let workers = WorkerPool::builder("workers").core(3).max(3);
    let workers = workers.build().unwrap();
    let roaming = tidegate_net::roaming("io", 1, &workers).unwrap();
    let client = Client::builder(&roaming).options(half_closure());
    let client = client
        .pipeline(move |p| p.add("notes", log_events(on_roaming.clone())))
        .build();
    a_late_write_fails_alone(&client.connect(address).wait().unwrap(), &listener, &log);
}

#[test]
fn a_channel_that_is_aborted_resets_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    let connecting = Client::builder(&pinned).connect(listener.local_addr().unwrap());
    let channel = connecting.wait().unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    channel.abort().wait().unwrap();
    let why = peer.read(&mut [0; 8]).unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset);
}

/// Writes and flushes what it receives, then aborts.
fn takes_back() -> Acts {
    Acts::on_read(|bytes, ctx| {
        ctx.write(bytes);
        ctx.flush();
        ctx.abort();
        ctx.flush();
    })
}

#[test]
fn what_was_flushed_before_an_abort_is_not_sent() {
    // Before the abort, in the same turn: by the handler, or by another part of the program.
    for early in [false, true] {
        let mut channel = EmbeddedChannel::new(|p| p.add("back", takes_back())).unwrap();
        let done = early.then(|| channel.channel().write_and_flush_with("early"));
        channel.receive("late");
        assert!(!channel.is_open());
        let sent = channel.sent();
        assert!(!sent.ends_with(b"late"), "{sent:?}");
        assert!(done.is_none_or(|done| done.wait().is_ok() == (sent == "early")));
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    let client = Client::builder(&pinned).pipeline(|p| p.add("back", takes_back()));
    let connecting = client.connect(listener.local_addr().unwrap());
    let (mut peer, _) = listener.accept().unwrap();
    connecting.wait().unwrap();
    peer.write_all(b"hi").unwrap();
    let why = peer.read(&mut [0; 8]).unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset);
}

/// Counts what the peer sends, and responds at the end of the peer's stream: it enables half-closure
/// itself.
#[derive(Default)]
struct Sums {
    received: usize,
    /// Whether it closes the channel after its response.
    stays: bool,
}

impl Inbound for Sums {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        assert!(!ctx.half_closure());
        ctx.set_half_closure(true);
        assert!(ctx.half_closure());
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.received += bytes.len();
        if bytes == "no" {
            ctx.set_half_closure(false);
        }
        ctx.give_back(bytes);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<InputShutdown>().is_none() {
            return ctx.fire_event(event);
        }
        ctx.write(self.received.to_string());
        match self.stays {
            true => ctx.flush(),
            false => ctx.close_when_flushed(),
        }
    }
}

#[test]
fn a_handler_that_enables_half_closure_receives_the_end_and_writes_until_it_closes() {
    let stays = Sums {
        stays: true,
        ..Sums::default()
    };
    let mut channel = EmbeddedChannel::new(|p| p.add("sums", stays)).unwrap();
    channel.receive("four");
    channel.end_input();
    assert_eq!(channel.sent(), "4");
    channel.channel().write_and_flush(" and later");
    channel.run();
    assert!(channel.is_open());
    assert_eq!(channel.sent(), " and later");
    drop(channel.channel().shutdown_output());
    channel.run();
    assert!(!channel.is_open(), "both halves are closed");
}

#[test]
fn a_handler_can_disable_half_closure_again() {
    let mut channel = EmbeddedChannel::new(|p| p.add("sums", Sums::default())).unwrap();
    channel.receive("no");
    channel.end_input();
    assert!(!channel.is_open() && channel.sent().is_empty());
    let mut other = EmbeddedChannel::new(|p| p.add("sums", Sums::default())).unwrap();
    other.end_input();
    assert_eq!(other.sent(), "0", "the channels do not share it");
}

#[test]
fn over_sockets_of_pinned_and_roaming_loops_the_response_follows_the_end() {
    let pinned = group(1);
    let first = serve(&pinned, |p| p.add("sums", Sums::default()));
    let (_pool, roams) = roaming(2);
    let second = serve(&roams, |p| p.add("sums", Sums::default()));
    for server in [&first, &second] {
        for size in [0, 1, 100_000] {
            let mut stream = dial(server);
            stream.write_all(&vec![7; size]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            assert_eq!(response, size.to_string());
        }
    }
}

#[cfg(feature = "tls")]
#[test]
fn with_tls_in_front_the_end_is_the_close_notify_of_the_peer() {
    use crate::tls::{Authority, Pair, whole};
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::with_options(&server, &client, "a.test", &half_closure());
    pair.server = EmbeddedChannel::new(|p| {
        p.add_duplex("tls", server.handler())
            .add("sums", Sums::default())
    })
    .unwrap();
    pair.run();
    pair.client.channel().write_and_flush("four");
    drop(pair.client.channel().shutdown_output());
    pair.client.run();
    pair.run();
    assert_eq!(whole(&mut pair.client), "4");
    assert!(!pair.server.is_open());
}

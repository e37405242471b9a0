//! Channels with one closed half.

use std::io::{Read, Write};
use std::net::TcpListener;

use bytes::Bytes;
use tidegate_net::handlers::FlushConsolidation;
use tidegate_net::{
    Channel, ChannelOptions, Client, EmbeddedChannel, Inbound, InboundContext, NetError, Nothing,
};
use tidegate_pool::WorkerPool;
use tidegate_promise::Failure;
use tidegate_testkit::Log;

fn options() -> ChannelOptions {
    ChannelOptions {
        half_closure: true,
        ..ChannelOptions::default()
    }
}

/// Logs messages and errors.
struct LogEvents(Log<String>);

impl Inbound for LogEvents {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text == "bye" {
            ctx.write("good");
            ctx.write("bye");
            ctx.shutdown_output();
            ctx.write("too late");
            ctx.flush();
        }
        self.0.push(text);
    }

    fn error(&mut self, why: Failure, _: &mut InboundContext<'_, Self>) {
        self.0.push(why.to_string());
    }
}

#[test]
fn what_was_written_and_not_flushed_goes_before_the_end() {
    let log = Log::new();
    let own = log.clone();
    let mut channel =
        EmbeddedChannel::with_options(options(), |p| p.add("notes", LogEvents(own))).unwrap();
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
        let mut channel = EmbeddedChannel::with_options(options(), |p| {
            let p = if held_back {
                p.add_duplex("fewer", FlushConsolidation::every(256))
            } else {
                p
            };
            p.add("notes", LogEvents(own))
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
    let client = Client::builder(&pinned).options(options());
    let client = client
        .pipeline(move |p| p.add("notes", LogEvents(on_pinned.clone())))
        .build();
    a_late_write_fails_alone(&client.connect(address).wait().unwrap(), &listener, &log);

    let workers = WorkerPool::builder("workers").core(3).max(3);
    let workers = workers.build().unwrap();
    let roaming = tidegate_net::roaming("io", 1, &workers).unwrap();
    let client = Client::builder(&roaming).options(options());
    let client = client
        .pipeline(move |p| p.add("notes", LogEvents(on_roaming.clone())))
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

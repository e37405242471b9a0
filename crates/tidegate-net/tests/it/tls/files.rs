//! Ranges of files on encrypted connections: read by a pool, encrypted in order.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_net::{Channel, Client, EmbeddedChannel, FileRange, NetError, NetGroup, Server};
use tidegate_promise::Completion;
use tidegate_testkit::{Log, until};

use super::{Authority, Pair, whole};
use crate::acts::Acts;
use crate::files::{TestFile, content};
use crate::{LogChannel, LogReads, first, group, marks, serve};

/// Runs both ends until the client has `count` bytes.
fn receive(pair: &mut Pair, count: usize) -> Vec<u8> {
    let mut received = Vec::new();
    until("the client has everything", || {
        pair.server.run();
        pair.run();
        received.extend_from_slice(&whole(&mut pair.client));
        received.len() >= count
    });
    received
}

#[test]
fn files_and_bytes_are_encrypted_in_the_order_of_the_writes() {
    let file = TestFile::new(300_000);
    let all = content(300_000);
    let mut pair = Pair::joined(&Authority::new());
    let channel = pair.server.channel();
    let written: Vec<Completion<()>> = vec![
        channel.write_with("head "),
        channel.write_with(file.range(0..300_000)),
        channel.write_with(" middle "),
        channel.write_with(file.range(5..5)),
        channel.write_with(file.range(10..20)),
        channel.write_with(file.range(20..70_000)),
        channel.write_with(" tail"),
    ];
    channel.flush();
    let later = channel.write_with(" later");
    let parts = [b"head ", &all[..], b" middle ", &all[10..70_000], b" tail"];
    let expected = parts.concat();
    let received = receive(&mut pair, expected.len());
    assert!(received == expected);
    for one in written {
        one.wait().unwrap();
    }
    assert!(!later.is_done());
    channel.flush();
    assert_eq!(receive(&mut pair, 6), b" later");
    later.wait().unwrap();
    assert_eq!(channel.pending_bytes(), 0);
    assert!(channel.is_writable());
}

#[test]
fn a_file_that_is_written_before_the_handshake_is_sent_after_it() {
    let file = TestFile::new(100_000);
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    for closes in [false, true] {
        let mut pair = Pair::new(&server, &client, "a.test");
        let channel = pair.server.channel();
        channel.write("early ");
        channel.write_and_flush(file.range(0..100_000));
        if closes {
            drop(channel.close_when_flushed());
        }
        pair.server.run();
        let received = receive(&mut pair, 100_006);
        assert!(received == [b"early ", &content(100_000)[..]].concat());
        until("the end is as requested", || {
            pair.server.run();
            pair.run();
            pair.server.is_open() != closes
        });
    }
}

#[test]
fn a_close_and_a_shutdown_wait_for_the_file() {
    let file = TestFile::new(200_000);
    for half in [false, true] {
        let mut pair = Pair::joined(&Authority::new());
        let channel = pair.server.channel();
        channel.write(file.range(0..200_000));
        if half {
            drop(channel.shutdown_output());
        } else {
            drop(channel.close_when_flushed());
        }
        let late = channel.write_with("late");
        let received = receive(&mut pair, 200_000);
        assert!(received == content(200_000));
        late.wait().unwrap_err();
        until("the server has ended", || {
            pair.server.run();
            pair.run();
            match half {
                true => pair.server.is_output_shut(),
                false => !pair.server.is_open(),
            }
        });
    }
}

#[test]
fn a_file_that_is_too_short_closes_the_connection_without_a_proper_end() {
    let file = TestFile::new(100_000);
    let mut pair = Pair::joined(&Authority::new());
    let channel = pair.server.channel();
    let sent = channel.write_and_flush_with(file.range(0..100_001));
    let behind = channel.write_and_flush_with("behind");
    until("the server has closed", || {
        pair.server.run();
        pair.run();
        !pair.server.is_open()
    });
    let why = sent.wait().unwrap_err();
    assert!(why.to_string().contains("1 bytes before the end"), "{why}");
    behind.wait().unwrap_err();
    let cause = channel.close_cause().unwrap();
    let cause = cause.downcast_ref::<NetError>().unwrap();
    assert!(
        matches!(cause, NetError::FileTruncated { missing: 1 }),
        "{cause}"
    );
    assert!(whole(&mut pair.client).len() <= 100_000);
    assert!(pair.client.is_open(), "no `close_notify` was sent");
}

#[test]
fn unsent_bytes_of_a_file_count_for_the_marks_and_memory_is_bounded() {
    let file = TestFile::new(2_000_000);
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::with_options(&server, &client, "a.test", &marks(32_768, 65_536, 300_000));
    pair.run();
    pair.server.set_room(Some(0));
    let channel = pair.server.channel();
    let sent = channel.write_and_flush_with(file.range(0..2_000_000));
    let cancelled = channel.write_with(file.range(0..100_000));
    until("a chunk waits for the client", || {
        pair.server.run();
        channel.pending_bytes() > 65_536
    });
    assert!(!channel.is_writable() && channel.pending_bytes() < 300_000);
    cancelled.cancel();
    channel.flush();
    pair.server.set_room(None);
    let received = receive(&mut pair, 2_000_000);
    assert!(received == content(2_000_000));
    sent.wait().unwrap();
    until("everything is sent", || {
        pair.server.run();
        channel.pending_bytes() == 0
    });
    assert!(channel.is_writable());
}

#[test]
fn a_close_in_the_middle_releases_the_file() {
    let file = TestFile::new(2_000_000);
    let shared = file.open();
    let part = FileRange::new(Arc::clone(&shared), 0..2_000_000);
    let mut pair = Pair::joined(&Authority::new());
    pair.server.set_room(Some(0));
    let channel = pair.server.channel();
    let sent = channel.write_and_flush_with(part);
    let behind = channel.write_and_flush_with("behind");
    until("a chunk waits for the client", || {
        pair.server.run();
        channel.pending_bytes() > 65_536
    });
    drop(channel.close());
    pair.server.run();
    sent.wait().unwrap_err();
    behind.wait().unwrap_err();
    until("the file is released", || Arc::strong_count(&shared) == 1);
}

/// Logs whether data is waiting to be sent, for each event.
fn waits(log: Log<bool>) -> Acts {
    Acts::on_read(|bytes, ctx| ctx.fire_read(bytes))
        .on_event(move |_, ctx| log.push(ctx.has_unsent()))
}

#[test]
fn a_file_that_is_being_read_counts_as_data_to_send() {
    let file = TestFile::new(100_000);
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::new(&server, &client, "a.test");
    let told = Log::new();
    let (tls, own) = (server.handler(), waits(told.clone()));
    pair.server = EmbeddedChannel::new(|p| p.add_duplex("tls", tls).add("waits", own)).unwrap();
    pair.run();
    let _ = told.take();
    let channel = pair.server.channel();
    channel.fire_event(());
    channel.write_and_flush(file.range(0..100_000));
    channel.fire_event(());
    pair.server.run();
    assert_eq!(told.take(), [false, true]);
    receive(&mut pair, 100_000);
    until("nothing waits", || {
        channel.fire_event(());
        pair.server.run();
        pair.run();
        told.take() == [false]
    });
}

/// Connects a client to a server with TLS. Returns the channel of the server, and what the client
/// receives.
fn connected(group: &NetGroup) -> (Server, Channel, Channel, Log<Bytes>) {
    let authority = Authority::new();
    let tls = authority.server("localhost");
    let (channels, own) = Log::pair();
    let server = serve(group, move |p| {
        p.add_duplex("tls", tls.handler())
            .add("gives", LogChannel(own.clone()))
    });
    let name = authority.client().name("localhost").unwrap();
    let (bytes, own) = Log::pair();
    let client = Client::builder(group)
        .pipeline(move |p| {
            p.add_duplex("tls", name.handler())
                .add("reads", LogReads(own.clone()))
        })
        .build();
    let near = client.connect(server.local_addr()).wait().unwrap();
    (server, first(&channels), near, bytes)
}

#[test]
fn a_large_file_is_sent_over_a_socket_with_tls() {
    let file = TestFile::new(3_000_000);
    let group = group(2);
    let (_server, channel, near, bytes) = connected(&group);
    let sent = channel.write_and_flush_with(file.range(0..3_000_000));
    sent.wait().unwrap();
    let mut received = Vec::new();
    until("everything has arrived", || {
        received.extend(bytes.take().concat());
        received.len() >= 3_000_000
    });
    assert!(received == content(3_000_000));
    near.close().wait().unwrap();
}

#[test]
fn the_sizes_of_several_encrypted_files_may_exceed_64_bits() {
    let file = TestFile::new(10);
    let mut pair = Pair::joined(&Authority::new());
    let channel = pair.server.channel();
    let files = [(); 3].map(|()| channel.write_with(file.range(0..u64::MAX)));
    channel.read();
    channel.set_user_writable(1, true);
    pair.server.run();
    assert!(!channel.is_writable());
    files.iter().for_each(|file| assert!(file.cancel()));
    channel.flush();
    pair.server.run();
    assert!(channel.is_writable() && channel.is_active());
    assert_eq!(channel.pending_bytes(), 0);
}

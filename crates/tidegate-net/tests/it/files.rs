//! Ranges of files as writes: sent in order, whole or not at all, over every transport.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_net::handlers::{LengthField, LengthPrefix, Logging, WriteTimeout};
use tidegate_net::{
    Channel, ChannelOptions, EmbeddedChannel, FileRange, NetError, NetGroup, WaterMarks,
};
use tidegate_pool::WorkerPool;
use tidegate_promise::{Completion, Failure, Outcome};
use tidegate_testkit::{Log, until};

use crate::acts::Acts;
use crate::{LogReads, dial, first, giving, group, serve};

const SECOND: Duration = Duration::from_secs(1);
const LARGE: usize = 8 * 1024 * 1024;

/// A file that is removed at the end of its test.
pub(crate) struct TestFile(PathBuf);

impl TestFile {
    /// Creates a file of `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-net-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        File::create(&path)
            .unwrap()
            .write_all(&content(len))
            .unwrap();
        Self(path)
    }

    pub(crate) fn open(&self) -> Arc<File> {
        File::open(&self.0).unwrap().into()
    }

    pub(crate) fn range(&self, range: std::ops::Range<u64>) -> FileRange {
        FileRange::new(self.open(), range)
    }

    fn truncate(&self, len: u64) {
        let file = OpenOptions::new().write(true).open(&self.0).unwrap();
        file.set_len(len).unwrap();
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns bytes that differ from place to place.
pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Responds to each read with a part of a file between two lines.
fn sends_part(part: FileRange) -> Acts {
    Acts::on_read(move |bytes, ctx| {
        ctx.output().extend_from_slice(b"head ");
        ctx.write_file(part.clone());
        ctx.write_file(part.clone());
        ctx.output().extend_from_slice(b" tail");
        ctx.give_back(bytes);
        ctx.flush();
    })
}

fn expected(part: &[u8]) -> Vec<u8> {
    [b"head ", part, part, b" tail"].concat()
}

#[test]
fn a_handler_sends_a_file_between_its_bytes() {
    let file = TestFile::new(300_000);
    for range in [0..300_000, 7..200_000, 5..6, 9..9] {
        let part = file.range(range.clone());
        let group = group(1);
        let server = serve(&group, move |p| p.add("sends", sends_part(part.clone())));
        let mut client = dial(&server);
        let whole = content(300_000);
        let expected = expected(&whole[range.start as usize..range.end as usize]);
        for _ in 0..2 {
            client.write_all(b"go").unwrap();
            let mut received = vec![0; expected.len()];
            client.read_exact(&mut received).unwrap();
            assert!(received == expected, "{range:?}");
        }
    }
}

#[test]
fn a_roaming_channel_and_a_local_one_send_files() {
    let file = TestFile::new(300_000);
    let part = file.range(10..290_000);
    let workers = WorkerPool::builder("workers").max(4).build().unwrap();
    let roaming = tidegate_net::roaming("roam", 1, &workers).unwrap();
    let own = part.clone();
    let server = serve(&roaming, move |p| p.add("sends", sends_part(own.clone())));
    let mut client = dial(&server);
    client.write_all(b"go").unwrap();
    let expected = expected(&content(300_000)[10..290_000]);
    let mut received = vec![0; expected.len()];
    client.read_exact(&mut received).unwrap();
    assert!(received == expected);

    let (bytes, own) = Log::pair();
    let pinned = group(1);
    let (one, _other) = pinned
        .local_pair(|p| p, move |p| p.add("reads", LogReads(own.clone())))
        .wait()
        .unwrap();
    one.write("head ");
    one.write(part.clone());
    one.write(part);
    one.write_and_flush_with(" tail").wait().unwrap();
    let mut received = Vec::new();
    until("everything has arrived", || {
        received.extend(bytes.take().concat());
        received.len() >= expected.len()
    });
    assert!(received == expected);
}

/// Writes a part of a file to the channel of the first connection. Returns the channel, the client,
/// the completion of the write, and the group.
fn sending(part: FileRange) -> (Channel, TcpStream, Completion<()>, NetGroup) {
    let group = group(1);
    let (server, channels) = giving(&group);
    let client = dial(&server);
    let channel = first(&channels);
    let sent = channel.write_and_flush_with(part);
    (channel, client, sent, group)
}

#[test]
fn a_client_that_does_not_read_makes_the_channel_unwritable_until_it_does() {
    let file = TestFile::new(LARGE);
    let (channel, mut client, sent, _group) = sending(file.range(0..LARGE as u64));
    until("the channel is not writable", || !channel.is_writable());
    let later = channel.write_and_flush_with("later");
    assert!(channel.pending_bytes() < 1024, "a file is not in memory");
    assert!(!sent.is_done());
    let mut received = vec![0; LARGE + 5];
    client.read_exact(&mut received).unwrap();
    assert!(received[..LARGE] == content(LARGE) && &received[LARGE..] == b"later");
    sent.wait().unwrap();
    later.wait().unwrap();
    channel.writable().wait().unwrap();
}

#[test]
fn a_file_that_is_shorter_than_its_range_closes_the_connection() {
    let file = TestFile::new(1000);
    let (channel, mut client, sent, _group) = sending(file.range(0..1001));
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert!(received == content(1000));
    let why = sent.wait().unwrap_err();
    assert!(why.to_string().contains("1 bytes before the end"), "{why}");
    let cause = channel.close_cause().unwrap();
    let cause = cause.downcast_ref::<NetError>().unwrap();
    assert!(
        matches!(cause, NetError::FileTruncated { missing: 1 }),
        "{cause}"
    );
}

#[test]
fn a_file_that_is_truncated_while_it_is_sent_closes_the_connection() {
    let file = TestFile::new(LARGE);
    let (channel, mut client, sent, _group) = sending(file.range(0..LARGE as u64));
    until("the socket is full", || !channel.is_writable());
    file.truncate(10);
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert!(received.len() < LARGE);
    sent.wait().unwrap_err();
    let cause = channel.close_cause().unwrap();
    let cause = cause.downcast_ref::<NetError>().unwrap();
    assert!(matches!(cause, NetError::FileTruncated { .. }), "{cause}");
}

#[test]
fn a_close_and_a_lost_peer_end_the_transfer_and_release_the_file() {
    for by_peer in [false, true] {
        let file = TestFile::new(LARGE);
        let shared = file.open();
        let part = FileRange::new(Arc::clone(&shared), 0..LARGE as u64);
        let (channel, client, sent, _group) = sending(part);
        until("the socket is full", || !channel.is_writable());
        let behind = channel.write_and_flush_with("behind");
        if by_peer {
            drop(client);
        } else {
            channel.close().wait().unwrap();
        }
        sent.wait().unwrap_err();
        behind.wait().unwrap_err();
        until("the file is released", || Arc::strong_count(&shared) == 1);
    }
}

fn embedded(marks: WaterMarks) -> EmbeddedChannel {
    let options = ChannelOptions {
        marks,
        close_timeout: 10 * SECOND,
        ..ChannelOptions::default()
    };
    EmbeddedChannel::with_options(options, |p| p).unwrap()
}

#[test]
fn unsent_bytes_of_a_file_count_for_the_marks_and_not_for_the_cap() {
    let file = TestFile::new(10_000);
    let mut embedded = embedded(WaterMarks::new(1000, 2000, 3000).unwrap());
    let channel = embedded.channel();
    embedded.set_room(Some(7000));
    let sent = channel.write_with(file.range(0..10_000));
    channel.write_and_flush("tail");
    embedded.run();
    assert!(!channel.is_writable() && channel.pending_bytes() < 1000);
    embedded.set_room(Some(1000));
    assert!(
        !channel.is_writable() && !sent.is_done(),
        "2000 bytes are left"
    );
    embedded.set_room(Some(1500));
    assert!(
        channel.is_writable() && !sent.is_done(),
        "500 bytes are left"
    );
    embedded.set_room(None);
    sent.wait().unwrap();
    assert_eq!(channel.pending_bytes(), 0);
    assert!(embedded.sent() == [&content(10_000), &b"tail"[..]].concat());
}

#[test]
fn a_cancelled_file_is_taken_back_and_the_others_are_sent() {
    let file = TestFile::new(10_000);
    let mut embedded = embedded(WaterMarks::new(1000, 2000, 3000).unwrap());
    let channel = embedded.channel();
    let first = channel.write_with(file.range(0..5));
    let second = channel.write_with(file.range(0..10_000));
    let third = channel.write_with(file.range(5..10));
    channel.read();
    embedded.run();
    assert!(!channel.is_writable());
    second.cancel();
    channel.flush();
    embedded.run();
    assert!(channel.is_writable() && channel.pending_bytes() == 0);
    first.wait().unwrap();
    third.wait().unwrap();
    assert_eq!(embedded.sent()[..], content(10)[..]);
}

#[test]
fn too_many_files_are_refused_like_other_writes() {
    let file = TestFile::new(1);
    let mut embedded = embedded(WaterMarks::new(1000, 2000, 3000).unwrap());
    let channel = embedded.channel();
    let writes: Vec<_> = (0..100)
        .map(|_| channel.write_with(file.range(0..1)))
        .collect();
    channel.flush();
    embedded.run();
    let failed = writes
        .into_iter()
        .filter_map(|write| write.wait().err())
        .count();
    assert!((70..100).contains(&failed), "{failed}");
    assert_eq!(embedded.sent().len(), 100 - failed);
}

#[test]
fn the_close_timeout_runs_anew_while_a_file_makes_progress() {
    let file = TestFile::new(10_000);
    let mut embedded = embedded(WaterMarks::default());
    let channel = embedded.channel();
    embedded.set_room(Some(0));
    channel.write(file.range(0..10_000));
    drop(channel.close_when_flushed());
    embedded.run();
    for _ in 0..3 {
        embedded.set_room(Some(1000));
        embedded.advance(9 * SECOND);
        assert!(embedded.is_open());
        embedded.advance(2 * SECOND);
        assert!(embedded.is_open());
    }
    embedded.advance(10 * SECOND);
    assert!(!embedded.is_open(), "no progress for 10 s");
    let cause = channel.close_cause().unwrap();
    assert!(matches!(
        cause.downcast_ref(),
        Some(NetError::CloseTimeout(_))
    ));
}

#[test]
fn the_write_timeout_looks_at_the_progress_of_a_file() {
    let file = TestFile::new(10_000);
    let timeout = WriteTimeout::new(10 * SECOND);
    let mut embedded = EmbeddedChannel::new(|p| p.add_duplex("timeout", timeout)).unwrap();
    embedded.set_room(Some(0));
    embedded.channel().write_and_flush(file.range(0..10_000));
    embedded.run();
    for _ in 0..5 {
        embedded.set_room(Some(1000));
        embedded.advance(10 * SECOND);
        assert!(embedded.is_open(), "a part was sent");
    }
    embedded.advance(10 * SECOND);
    embedded.advance(10 * SECOND);
    assert!(!embedded.is_open());
    assert!(matches!(
        embedded.errors()[0].downcast_ref(),
        Some(NetError::WriteTimeout(_))
    ));
}

#[test]
fn a_handler_that_takes_bytes_refuses_a_file_unless_it_passes_it_on() {
    let file = TestFile::new(10);
    let prefix = LengthPrefix::new(LengthField::u16()).unwrap();
    let mut framed = EmbeddedChannel::new(|p| p.add_outbound("prefix", prefix)).unwrap();
    let refused = framed.channel().write_and_flush_with(file.range(0..10));
    framed.run();
    let why = refused.wait().unwrap_err();
    assert!(why.to_string().contains("range of a file"), "{why}");
    framed.channel().write_and_flush(file.range(0..10));
    framed.run();
    assert!(matches!(
        framed.errors()[0].downcast_ref(),
        Some(NetError::TypeMismatch { .. })
    ));

    let (lines, own) = Log::pair();
    let logging = Logging::new(move |line: &str| own.push(line.to_owned()));
    let mut logged = EmbeddedChannel::new(|p| p.add_duplex("log", logging)).unwrap();
    let sent = logged.channel().write_and_flush_with(file.range(0..10));
    logged.run();
    sent.wait().unwrap();
    assert_eq!(logged.sent()[..], content(10)[..]);
    assert!(
        lines
            .take()
            .iter()
            .any(|line| line.contains("10 bytes of a file"))
    );
}

/// Writes a file as soon as the channel is open, and logs its errors.
fn fails(part: FileRange, log: Log<Failure>) -> Acts {
    let in_active = log.clone();
    Acts::on_read(|_, _| ())
        .on_active(move |ctx| {
            let sent = ctx.write_file_with(part.clone());
            ctx.flush();
            let log = in_active.clone();
            sent.finally(move |outcome| {
                if let Outcome::Failure(why) = outcome {
                    log.push(why.clone());
                }
            });
        })
        .on_error(move |why, ctx| {
            log.push(why);
            ctx.close();
        })
}

#[test]
fn handlers_get_the_error_of_a_file_that_is_too_short() {
    let file = TestFile::new(10);
    let errors = Log::new();
    let (part, own) = (file.range(0..20), errors.clone());
    let mut embedded = EmbeddedChannel::new(|p| p.add("fails", fails(part, own))).unwrap();
    embedded.run();
    assert!(!embedded.is_open());
    let errors = errors.take();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors
            .iter()
            .all(|why| why.to_string().contains("do not truncate"))
    );
}

#[test]
fn the_sizes_of_several_files_may_exceed_64_bits() {
    let file = TestFile::new(10);
    let mut embedded = embedded(WaterMarks::new(1000, 2000, 3000).unwrap());
    let channel = embedded.channel();
    let files = [(); 3].map(|()| channel.write_with(file.range(0..u64::MAX)));
    channel.read();
    channel.set_user_writable(1, true);
    embedded.run();
    assert!(!channel.is_writable());
    files.iter().for_each(|file| assert!(file.cancel()));
    channel.flush();
    embedded.run();
    assert!(channel.is_writable() && channel.is_active());
    assert_eq!(channel.pending_bytes(), 0);
}

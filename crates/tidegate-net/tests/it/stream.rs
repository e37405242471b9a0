//! Channels that were taken over by a future whose stream any thread may use. What both kinds of
//! streams do is tested in `local_stream`.

use std::future::{Future, poll_fn};
use std::io::{self, Read as _};
use std::net::Shutdown;
use std::pin::Pin;

use futures_io::{AsyncRead, AsyncWrite};
use tidegate_core::thread::ThreadBuilder;
use tidegate_net::{
    ByteStream, ChannelOptions, EmbeddedChannel, PipelineBuilder, StreamHandler, WaterMarks,
};
use tidegate_testkit::Log;

use crate::local_stream::echoed_meanwhile;
use crate::{dial, group, no_auto_read, round_trip, serve};

async fn read(stream: &mut ByteStream, buffer: &mut [u8]) -> io::Result<usize> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, buffer)).await
}

async fn write(stream: &mut ByteStream, bytes: &[u8]) -> io::Result<usize> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, bytes)).await
}

async fn flush(stream: &mut ByteStream) -> io::Result<()> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await
}

async fn close(stream: &mut ByteStream) -> io::Result<()> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_close(cx)).await
}

async fn write_all(stream: &mut ByteStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = write(stream, bytes).await?;
        bytes = &bytes[count..];
    }
    flush(stream).await
}

async fn echo(mut stream: ByteStream) {
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = read(&mut stream, &mut buffer).await {
        if write_all(&mut stream, &buffer[..count]).await.is_err() {
            return;
        }
    }
}

#[test]
fn a_stream_that_has_moved_to_another_thread_goes_on() {
    let group = group(1);
    let server = serve(&group, |p| {
        let begin = |stream: ByteStream| async move {
            let threads = ThreadBuilder::new("other");
            let run = move || tidegate_loop::block_on(echo(stream)).unwrap();
            threads.spawn(run).unwrap();
        };
        p.add("take", StreamHandler::new(begin))
    });
    let mut client = dial(&server);
    for round in 0..1_000_u32 {
        let sent = round.to_le_bytes();
        assert_eq!(round_trip(&mut client, &sent), sent);
    }
    // More than both water marks and the socket hold, in both directions at once.
    let large = vec![7; 4 << 20];
    assert!(echoed_meanwhile(&client, &large) == large);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn a_vectored_write_takes_every_slice_and_is_one_call() {
    let take = StreamHandler::new(|mut stream: ByteStream| async move {
        let slices = ["one ", "", "two ", "three"].map(|text| io::IoSlice::new(text.as_bytes()));
        let wrote = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &slices)).await;
        assert_eq!(wrote.unwrap(), 13);
        flush(&mut stream).await.unwrap();
        let _ = read(&mut stream, &mut [0; 1]).await;
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("take", take)).unwrap();
    channel.run();
    assert_eq!(
        (channel.sent(), channel.write_calls()),
        ("one two three".into(), 1)
    );
}

/// Creates a channel with little room whose stream runs `then`.
fn slow<T: Future<Output = ()> + 'static>(
    log: &Log<String>,
    marks: WaterMarks,
    then: impl FnOnce(ByteStream, Log<String>) -> T + 'static,
) -> EmbeddedChannel {
    let own = log.clone();
    let take = StreamHandler::new(move |mut stream: ByteStream| async move {
        // Waits for the start signal of the test.
        read(&mut stream, &mut [0; 8]).await.unwrap();
        then(stream, own).await;
    });
    let options = ChannelOptions {
        marks,
        half_closure: true,
        ..ChannelOptions::default()
    };
    let assemble = |p: PipelineBuilder| p.add("take", take);
    let mut channel = EmbeddedChannel::with_options(options, assemble).unwrap();
    channel.set_room(Some(3));
    channel.receive("go");
    channel
}

#[test]
fn a_flush_and_a_close_are_over_when_the_bytes_are_out() {
    let log = Log::new();
    let mut channel = slow(&log, WaterMarks::default(), |mut stream, log| async move {
        flush(&mut stream).await.unwrap();
        log.push("nothing to flush".to_owned());
        write_all(&mut stream, b"12345").await.unwrap();
        log.push("flushed".to_owned());
        write(&mut stream, b"67890").await.unwrap();
        close(&mut stream).await.unwrap();
        log.push("closed".to_owned());
        let late = write(&mut stream, b"late").await.unwrap_err();
        log.push(format!("{:?}", late.kind()));
        close(&mut stream).await.unwrap();
        read(&mut stream, &mut [0; 8]).await.unwrap();
    });
    assert_eq!(log.take(), ["nothing to flush"]);
    channel.set_room(Some(3));
    assert_eq!(log.take(), ["flushed"]);
    assert!(!channel.is_output_shut());
    channel.set_room(None);
    assert_eq!(log.take(), ["closed", "BrokenPipe"]);
    assert!(channel.is_output_shut() && channel.is_open());
    assert_eq!(channel.sent(), "1234567890");
}

#[test]
fn a_flush_and_a_close_whose_bytes_are_lost_fail() {
    for closes in [false, true] {
        let log = Log::new();
        let mut channel = slow(
            &log,
            WaterMarks::default(),
            move |mut stream, log| async move {
                write(&mut stream, b"12345").await.unwrap();
                let lost = match closes {
                    true => close(&mut stream).await,
                    false => flush(&mut stream).await,
                };
                log.push(lost.unwrap_err().to_string());
            },
        );
        channel.fail(io::ErrorKind::ConnectionReset);
        let received = log.take();
        assert!(received[0].contains("reset"), "{received:?}");
    }
}

#[test]
fn a_channel_that_did_not_read_on_its_own_reads_for_its_stream() {
    let assemble = |p: tidegate_net::PipelineBuilder| p.add("take", StreamHandler::new(echo));
    let mut channel = EmbeddedChannel::with_options(no_auto_read(), assemble).unwrap();
    channel.receive("hello");
    assert_eq!(channel.sent(), "hello");
}

#[test]
fn an_error_after_the_end_of_the_stream_is_the_channels_own() {
    let take = StreamHandler::new(|mut stream: ByteStream| async move {
        read(&mut stream, &mut [0; 8]).await.unwrap();
        write(&mut stream, b"unsent").await.unwrap();
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("take", take)).unwrap();
    channel.set_room(Some(0));
    channel.receive("x");
    assert!(channel.is_open(), "something waits to be sent");
    channel.fail(io::ErrorKind::ConnectionReset);
    assert_eq!(channel.errors().len(), 1);
    let why = channel.channel().close_cause().unwrap().to_string();
    assert!(why.contains("reset"), "{why}");
}

#[test]
fn a_stream_whose_channel_has_shut_its_output_fails_to_flush() {
    let (log, own) = Log::pair();
    let take_over = StreamHandler::new(move |mut stream: ByteStream| async move {
        stream.channel().shutdown_output().await.unwrap();
        let written = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"late")).await;
        let flushed = poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await;
        own.push(written.and(flushed).map_err(|why| why.kind()));
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("takes", take_over)).unwrap();
    channel.run();
    assert_eq!(log.take(), [Err(io::ErrorKind::BrokenPipe)]);
    assert!(channel.sent().is_empty());
}

//! Channels that were taken over by a future.

use std::future::{Future, poll_fn};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::pin::Pin;

use bytes::Bytes;
use futures_io::{AsyncRead, AsyncWrite};
#[cfg(feature = "tls")]
use tidegate_net::Client;
use tidegate_net::{
    ByteStream, ChannelOptions, EmbeddedChannel, Handler, Outbound, OutboundContext,
    PipelineBuilder, PipelineChange, StreamHandler, WaterMarks,
};
use tidegate_testkit::Log;

use crate::{dial, group, round_trip, serve};

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

async fn read_all(stream: &mut ByteStream) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 16]);
    while let count @ 1.. = read(stream, &mut buffer).await.unwrap() {
        all.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(all).unwrap()
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
fn a_future_echoes_over_tcp() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", StreamHandler::new(echo)));
    let mut client = dial(&server);
    for size in [1, 100, 20_000] {
        let sent: Vec<u8> = (0..size).map(|n| n as u8).collect();
        assert_eq!(round_trip(&mut client, &sent), sent);
    }
}

#[test]
fn the_end_and_failures_reach_the_reader() {
    let log = Log::new();
    for breaks in [false, true] {
        let own = log.clone();
        let take = StreamHandler::new(move |mut stream: ByteStream| async move {
            let mut buffer = [0; 16];
            loop {
                match read(&mut stream, &mut buffer).await {
                    Ok(0) => return own.push("end".to_owned()),
                    Ok(count) => own.push(format!("read {count}")),
                    Err(why) => return own.push(why.to_string()),
                }
            }
        });
        let mut channel = EmbeddedChannel::new(|p| p.add("take", take)).unwrap();
        channel.receive("abc");
        if breaks {
            channel.fail(io::ErrorKind::ConnectionReset);
        } else {
            channel.end_input();
        }
        let received = log.take();
        assert_eq!(received[0], "read 3");
        let last = if breaks { "reset" } else { "end" };
        assert!(received[1].contains(last), "{received:?}");
    }
}

#[test]
fn a_stream_that_is_not_read_stops_its_channel_and_reading_on_resumes_it() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let take = StreamHandler::new(move |stream: ByteStream| async move {
        sender.send(stream).unwrap();
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("take", take)).unwrap();
    channel.run();
    let mut stream = receiver.recv().unwrap();
    for _ in 0..100 {
        channel.receive(vec![1; 4096]);
    }
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    let mut steps = 0;
    while let std::task::Poll::Ready(Ok(count)) =
        Pin::new(&mut stream).poll_read(&mut cx, &mut buffer)
    {
        assert!(count <= 128 * 1024, "held {count}");
        total += count;
        steps += 1;
        channel.run();
    }
    assert_eq!(total, 409_600);
    assert!(steps > 2);
}

#[test]
fn a_writer_waits_above_the_mark_and_is_woken_below() {
    let log = Log::new();
    let own = log.clone();
    let take = StreamHandler::new(move |mut stream: ByteStream| async move {
        // Waits for the start signal of the test.
        read(&mut stream, &mut [0; 8]).await.unwrap();
        for _ in 0..4 {
            assert_eq!(write(&mut stream, &[2; 1000]).await.unwrap(), 1000);
            own.push("wrote");
        }
        flush(&mut stream).await.unwrap();
    });
    let options = ChannelOptions {
        marks: WaterMarks::new(500, 1500, 1 << 20).unwrap(),
        ..ChannelOptions::default()
    };
    let assemble = |p: tidegate_net::PipelineBuilder| p.add("take", take);
    let mut channel = EmbeddedChannel::with_options(options, assemble).unwrap();
    channel.set_room(Some(0));
    channel.receive("go");
    assert_eq!(log.len(), 2, "the second one passed the mark");
    channel.set_room(None);
    assert_eq!(log.len(), 4);
    assert_eq!(channel.sent().len(), 4000);
}

#[test]
fn closing_the_stream_shuts_the_output_and_dropping_it_closes() {
    let take = StreamHandler::new(|mut stream: ByteStream| async move {
        write_all(&mut stream, b"bye").await.unwrap();
        close(&mut stream).await.unwrap();
        assert_eq!(read(&mut stream, &mut [0; 8]).await.unwrap(), 4);
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("take", take)).unwrap();
    channel.run();
    assert!(channel.is_output_shut());
    assert_eq!(channel.sent(), "bye");
    assert!(channel.is_open());
    channel.receive("last");
    assert!(!channel.is_open(), "the stream was dropped");
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
fn a_large_write_is_taken_in_parts_that_the_marks_allow() {
    for marks in [(10, 5_000, 5_000), (10, 5_000, 20_000), (0, 0, 1_096)] {
        let marks = WaterMarks::new(marks.0, marks.1, marks.2).unwrap();
        let log = Log::new();
        let mut channel = slow(&log, marks, |mut stream, log| async move {
            let slices = [vec![1; 40_000], vec![2; 60_000]];
            let mut slices = slices.each_ref().map(|slice| io::IoSlice::new(slice));
            let mut rest = &mut slices[..];
            while !rest.is_empty() {
                let wrote = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, rest));
                let count = wrote.await.unwrap();
                assert!((1..=6_024).contains(&count), "{count}");
                io::IoSlice::advance_slices(&mut rest, count);
            }
            flush(&mut stream).await.unwrap();
            log.push("all".to_owned());
        });
        assert!(channel.channel().pending_bytes() < 12_000);
        channel.set_room(None);
        assert_eq!(log.take(), ["all"]);
        let sent = channel.sent();
        assert!(sent[..40_000].iter().all(|byte| *byte == 1));
        assert!(sent[40_000..].iter().all(|byte| *byte == 2) && sent.len() == 100_000);
    }
}

#[test]
fn a_writer_behind_a_handler_that_makes_little_of_much_goes_on() {
    /// Writes one byte for each message.
    struct Shrinks;
    impl Outbound for Shrinks {
        type Take = Bytes;
        type Write = Bytes;
        fn write(&mut self, _: Bytes, ctx: &mut OutboundContext<'_, Self>) {
            ctx.write("x");
        }
    }
    let take = StreamHandler::new(|mut stream: ByteStream| async move {
        for _ in 0..10 {
            write(&mut stream, &[2; 1000]).await.unwrap();
        }
        flush(&mut stream).await.unwrap();
        let _ = read(&mut stream, &mut [0; 1]).await;
    });
    let options = ChannelOptions {
        marks: WaterMarks::new(500, 1500, 1 << 20).unwrap(),
        ..ChannelOptions::default()
    };
    let assemble = |p: PipelineBuilder| p.add_outbound("shrinks", Shrinks).add("take", take);
    let mut channel = EmbeddedChannel::with_options(options, assemble).unwrap();
    channel.run();
    assert_eq!(channel.sent(), "xxxxxxxxxx");
}

#[test]
fn an_open_channel_can_be_taken_over_and_its_stream_ends_with_the_handler() {
    let log = Log::new();
    let mut channel = EmbeddedChannel::new(|p| p).unwrap();
    let handle = channel.channel();
    let own = log.clone();
    let taken = handle.change(move || {
        let take = StreamHandler::new(move |mut stream: ByteStream| async move {
            let mut buffer = [0; 8];
            while let Ok(count @ 1..) = read(&mut stream, &mut buffer).await {
                own.push(count);
            }
            own.push(0);
        });
        PipelineChange::add_last("take", Handler::local_inbound(take))
    });
    channel.run();
    taken.wait().unwrap();
    channel.receive("abc");
    assert_eq!(log.take(), [3]);
    let back = handle.change(|| PipelineChange::remove("take"));
    channel.run();
    back.wait().unwrap();
    assert_eq!(log.take(), [0], "the stream has ended");
}

/// Reads everything, then sends it back in capitals.
async fn answer(mut stream: ByteStream) {
    let asked = read_all(&mut stream).await;
    let answer = asked.to_ascii_uppercase();
    write_all(&mut stream, answer.as_bytes()).await.unwrap();
}

#[test]
fn requests_before_the_end_are_answered_after_it() {
    let group = group(1);
    let server = serve(&group, move |p| p.add("answer", StreamHandler::new(answer)));
    let mut client = dial(&server);
    client.write_all(b"a question of some length").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut received = String::new();
    client.read_to_string(&mut received).unwrap();
    assert_eq!(received, "A QUESTION OF SOME LENGTH");
}

#[cfg(feature = "tls")]
#[test]
fn requests_before_a_close_notify_are_answered_after_it() {
    let authority = crate::tls::Authority::new();
    let tls = authority.server("localhost");
    let group = group(1);
    let server = serve(&group, move |p| {
        p.add_duplex("tls", tls.handler())
            .add("answer", StreamHandler::new(answer))
    });
    let name = authority.client().name("localhost").unwrap();
    let log = Log::new();
    let own = log.clone();
    let client = Client::builder(&group).pipeline(move |p| {
        let own = own.clone();
        let ask = |mut stream: ByteStream| async move {
            write_all(&mut stream, b"a question").await.unwrap();
            let shut = poll_fn(|cx| Pin::new(&mut stream).poll_close(cx)).await;
            shut.unwrap();
            own.push(read_all(&mut stream).await);
        };
        p.add_duplex("tls", name.handler())
            .add("ask", StreamHandler::new(ask))
    });
    let channel = client.connect(server.local_addr()).wait().unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), ["A QUESTION"]);
    channel.closed().wait().unwrap();
    assert!(channel.close_cause().is_none());
}

#[test]
fn a_channel_that_did_not_read_on_its_own_reads_for_its_stream() {
    let options = ChannelOptions {
        auto_read: false,
        ..ChannelOptions::default()
    };
    let assemble = |p: tidegate_net::PipelineBuilder| p.add("take", StreamHandler::new(echo));
    let mut channel = EmbeddedChannel::with_options(options, assemble).unwrap();
    channel.receive("hello");
    assert_eq!(channel.sent(), "hello");
}

#[test]
fn an_error_of_the_socket_keeps_its_kind() {
    let log = Log::new();
    let own = log.clone();
    let take = StreamHandler::new(move |mut stream: ByteStream| async move {
        own.push(read(&mut stream, &mut [0; 8]).await.unwrap_err().kind());
        own.push(write_all(&mut stream, b"late").await.unwrap_err().kind());
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("take", take)).unwrap();
    channel.fail(io::ErrorKind::ConnectionReset);
    assert_eq!(log.take(), [io::ErrorKind::ConnectionReset; 2]);
}

/// Creates a group of one event loop, and the log of its hook for unhandled errors.
fn group_with_hook() -> (tidegate_net::NetGroup, Log<String>) {
    let log = Log::new();
    let received = log.clone();
    let hook = tidegate_core::OnUnhandled::new(move |_, what| received.push(what.to_string()));
    (
        tidegate_net::NetGroup::builder("io")
            .loops(1)
            .report_to(hook)
            .build()
            .unwrap(),
        log,
    )
}

#[test]
fn a_panic_of_the_future_goes_to_the_hook_and_is_why_the_channel_is_closed() {
    let (group, log) = group_with_hook();
    let channels = Log::new();
    let own = channels.clone();
    let server = serve(&group, move |p| {
        let own = own.clone();
        p.add(
            "take",
            StreamHandler::new(|mut stream: ByteStream| async move {
                own.push(stream.channel());
                read(&mut stream, &mut [0; 16]).await.unwrap();
                write_all(&mut stream, b"before").await.unwrap();
                panic!("not my day");
            }),
        )
    });
    let mut client = dial(&server);
    client.write_all(b"x").unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "before");
    log.wait_for(1);
    let received = log.take().remove(0);
    let peer = client.local_addr().unwrap().to_string();
    assert!(received.contains("panicked: not my day"), "{received}");
    assert!(received.contains(&peer), "{received}");
    let channel = crate::first(&channels);
    channel.closed().wait().unwrap();
    assert!(channel.close_cause().unwrap().is_panic());
    assert!(log.is_empty(), "reported once");
}

#[test]
fn a_panic_while_the_future_is_made_or_dropped_is_reported_too() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a bomb");
        }
    }
    let (group, log) = group_with_hook();
    let begin = |_: ByteStream| -> std::future::Ready<()> { panic!("no future") };
    let server = serve(&group, move |p| p.add("take", StreamHandler::new(begin)));
    let mut rest = Vec::new();
    dial(&server).read_to_end(&mut rest).unwrap();
    log.wait_for(1);
    assert!(log.take()[0].contains("no future"));

    let server = serve(&group, |p| {
        p.add(
            "take",
            StreamHandler::new(|_stream: ByteStream| {
                let bomb = Bomb;
                poll_fn(move |_| {
                    let _bomb = &bomb;
                    panic!("no luck");
                })
            }),
        )
    });
    dial(&server).read_to_end(&mut rest).unwrap();
    log.wait_for(1);
    assert!(log.take()[0].contains("no luck"));
    group.submit(|| ()).unwrap().wait().unwrap();
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
    let log = Log::new();
    let own = log.clone();
    let take_over = StreamHandler::new(move |mut stream: ByteStream| async move {
        drop(stream.channel().shutdown_output());
        let written = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"late")).await;
        let flushed = poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await;
        own.push(written.and(flushed).map_err(|why| why.kind()));
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("takes", take_over)).unwrap();
    channel.run();
    assert_eq!(log.take(), [Err(io::ErrorKind::BrokenPipe)]);
    assert!(channel.sent().is_empty());
}

#[test]
fn bytes_are_read_and_written_without_a_copy() {
    let log = Log::new();
    let own = log.clone();
    let take = StreamHandler::new(move |mut stream: ByteStream| async move {
        let mut bytes = poll_fn(|cx| stream.poll_read_bytes(cx)).await.unwrap();
        own.push(bytes.as_ptr() as usize);
        let kept = bytes.clone();
        let wrote = poll_fn(|cx| stream.poll_write_bytes(cx, &mut bytes)).await;
        assert_eq!((wrote.unwrap(), bytes.len()), (300, 0));
        assert!(!kept.is_unique(), "the queue has the same bytes");
        let wrote = poll_fn(|cx| stream.poll_write_bytes(cx, &mut bytes)).await;
        assert_eq!(wrote.unwrap(), 0);
        flush(&mut stream).await.unwrap();
        let end = poll_fn(|cx| stream.poll_read_bytes(cx)).await.unwrap();
        assert!(end.is_empty());
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("take", take)).unwrap();
    let bytes = Bytes::from(vec![5; 300]);
    let address = bytes.as_ptr() as usize;
    channel.write_inbound(bytes);
    assert_eq!(log.take(), [address]);
    assert_eq!(channel.sent().len(), 300);
    channel.end_input();
    assert!(!channel.is_open());
}

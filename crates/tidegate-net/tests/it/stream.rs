//! Channels that a future has taken over.

use std::future::poll_fn;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::pin::Pin;

use futures_io::{AsyncRead, AsyncWrite};
#[cfg(feature = "tls")]
use tidegate_net::Client;
use tidegate_net::{
    ByteStream, Change, ChannelOptions, EmbeddedChannel, Handler, TakeOver, WaterMarks,
};
use tidegate_testkit::Log;

use crate::{dial, group, round_trip, serve};

async fn read(stream: &mut ByteStream, buffer: &mut [u8]) -> io::Result<usize> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, buffer)).await
}

async fn write_all(stream: &mut ByteStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, bytes)).await?;
        bytes = &bytes[count..];
    }
    poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await
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
    let server = serve(&group, |p| p.add("echo", TakeOver::new(echo)));
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
        let take = TakeOver::new(move |mut stream: ByteStream| async move {
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
        let heard = log.take();
        assert_eq!(heard[0], "read 3");
        let last = if breaks { "reset" } else { "end" };
        assert!(heard[1].contains(last), "{heard:?}");
    }
}

#[test]
fn a_stream_that_is_not_read_stops_its_channel_and_reading_on_resumes_it() {
    let (tell, told) = std::sync::mpsc::channel();
    let take = TakeOver::new(move |stream: ByteStream| async move {
        tell.send(stream).unwrap();
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("take", take)).unwrap();
    channel.run();
    let mut stream = told.recv().unwrap();
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
    let take = TakeOver::new(move |mut stream: ByteStream| async move {
        // Begins when the test says so.
        read(&mut stream, &mut [0; 8]).await.unwrap();
        for _ in 0..4 {
            write_all(&mut stream, &[2; 1000]).await.unwrap();
            own.push("wrote");
        }
    });
    let options = ChannelOptions {
        marks: WaterMarks::new(500, 1500, 1 << 20).unwrap(),
        ..ChannelOptions::default()
    };
    let assemble = |p: tidegate_net::Assembly| p.add("take", take);
    let mut channel = EmbeddedChannel::with_options(options, assemble).unwrap();
    channel.set_room(Some(0));
    channel.receive("go");
    assert_eq!(log.len(), 1, "the second one reached the mark");
    channel.set_room(None);
    assert_eq!(log.len(), 4);
    assert_eq!(channel.sent().len(), 4000);
}

#[test]
fn closing_the_stream_shuts_the_output_and_dropping_it_closes() {
    let take = TakeOver::new(|mut stream: ByteStream| async move {
        write_all(&mut stream, b"bye").await.unwrap();
        poll_fn(|cx| Pin::new(&mut stream).poll_close(cx))
            .await
            .unwrap();
        let late = write_all(&mut stream, b"late").await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::BrokenPipe);
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
    let take = TakeOver::new(|mut stream: ByteStream| async move {
        let slices = ["one ", "", "two ", "three"].map(|text| io::IoSlice::new(text.as_bytes()));
        let wrote = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &slices)).await;
        assert_eq!(wrote.unwrap(), 13);
        poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx))
            .await
            .unwrap();
        let _ = read(&mut stream, &mut [0; 1]).await;
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("take", take)).unwrap();
    channel.run();
    assert_eq!(
        (channel.sent(), channel.write_calls()),
        ("one two three".into(), 1)
    );
}

/// Answers in capitals what it was asked, once that is all.
async fn answer(mut stream: ByteStream) {
    let asked = read_all(&mut stream).await;
    let answer = asked.to_ascii_uppercase();
    write_all(&mut stream, answer.as_bytes()).await.unwrap();
}

#[test]
fn what_was_asked_before_the_end_is_answered_after_it() {
    let group = group(1);
    let server = serve(&group, move |p| p.add("answer", TakeOver::new(answer)));
    let mut client = dial(&server);
    client.write_all(b"a question of some length").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "A QUESTION OF SOME LENGTH");
}

#[cfg(feature = "tls")]
#[test]
fn what_was_asked_before_a_goodbye_is_answered_after_it() {
    let authority = crate::tls::Authority::new();
    let tls = authority.server("localhost");
    let group = group(1);
    let server = serve(&group, move |p| {
        p.add_duplex("tls", tls.handler())
            .add("answer", TakeOver::new(answer))
    });
    let name = authority.client().name("localhost").unwrap();
    let log = Log::new();
    let own = log.clone();
    let client = Client::new(&group).pipeline(move |p| {
        let own = own.clone();
        let ask = |mut stream: ByteStream| async move {
            write_all(&mut stream, b"a question").await.unwrap();
            let shut = poll_fn(|cx| Pin::new(&mut stream).poll_close(cx)).await;
            shut.unwrap();
            own.push(read_all(&mut stream).await);
        };
        p.add_duplex("tls", name.handler())
            .add("ask", TakeOver::new(ask))
    });
    let channel = client.connect(server.local_addr()).wait().unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), ["A QUESTION"]);
    channel.closed().wait().unwrap();
    assert!(channel.close_cause().is_none());
}

#[test]
fn a_channel_that_is_open_can_be_taken_over() {
    let mut channel = EmbeddedChannel::new(|p| p).unwrap();
    channel.run();
    let changed = channel.channel().change(|| {
        let take = Handler::local_inbound(TakeOver::new(echo));
        Change::add_last("take", take)
    });
    channel.run();
    changed.wait().unwrap();
    channel.receive("hello");
    assert_eq!(channel.sent(), "hello");
}

#[test]
fn a_channel_that_did_not_read_on_its_own_reads_for_its_stream() {
    let options = ChannelOptions {
        auto_read: false,
        ..ChannelOptions::default()
    };
    let assemble = |p: tidegate_net::Assembly| p.add("take", TakeOver::new(echo));
    let mut channel = EmbeddedChannel::with_options(options, assemble).unwrap();
    channel.receive("hello");
    assert_eq!(channel.sent(), "hello");
}

#[test]
fn an_error_of_the_socket_keeps_its_kind() {
    let log = Log::new();
    let own = log.clone();
    let take = TakeOver::new(move |mut stream: ByteStream| async move {
        own.push(read(&mut stream, &mut [0; 8]).await.unwrap_err().kind());
        own.push(write_all(&mut stream, b"late").await.unwrap_err().kind());
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("take", take)).unwrap();
    channel.fail(io::ErrorKind::ConnectionReset);
    assert_eq!(log.take(), [io::ErrorKind::ConnectionReset; 2]);
}

#[test]
fn a_write_takes_no_more_than_up_to_the_mark() {
    let log = Log::new();
    let own = log.clone();
    let take = TakeOver::new(move |mut stream: ByteStream| async move {
        let large = vec![3; 10_000];
        let slices = [io::IoSlice::new(&large), io::IoSlice::new(&large)];
        let took = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &slices)).await;
        own.push(took.unwrap());
        write_all(&mut stream, &large).await.unwrap();
    });
    let options = ChannelOptions {
        marks: WaterMarks::new(500, 1500, 2000).unwrap(),
        ..ChannelOptions::default()
    };
    let assemble = |p: tidegate_net::Assembly| p.add("take", take);
    let mut channel = EmbeddedChannel::with_options(options, assemble).unwrap();
    channel.run();
    assert_eq!(log.take(), [1501]);
    assert_eq!(channel.sent().len(), 11_501);
}

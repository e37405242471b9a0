//! Channels that were taken over by a future that stays on their event loop.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_io::{AsyncRead, AsyncWrite};
use tidegate_core::OnUnhandled;
use tidegate_loop::EventLoop;
use tidegate_net::{
    ChannelOptions, EmbeddedChannel, Handler, LocalStream, NetGroup, Outbound, OutboundContext,
    PipelineBuilder, PipelineChange, StreamHandler, WaterMarks,
};
use tidegate_testkit::{Counter, DropCount, Gate, Log};

use crate::{dial, group, marks, round_trip, serve};

async fn read(stream: &mut LocalStream) -> io::Result<Bytes> {
    poll_fn(|cx| stream.poll_read_bytes(cx)).await
}

async fn flush(stream: &mut LocalStream) -> io::Result<()> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await
}

async fn write_all(stream: &mut LocalStream, bytes: impl Into<Bytes>) -> io::Result<()> {
    let mut bytes = bytes.into();
    while !bytes.is_empty() {
        poll_fn(|cx| stream.poll_write_bytes(cx, &mut bytes)).await?;
    }
    flush(stream).await
}

async fn echo(mut stream: LocalStream) {
    while let Ok(bytes) = read(&mut stream).await {
        if bytes.is_empty() || write_all(&mut stream, bytes).await.is_err() {
            return;
        }
    }
}

/// Creates an embedded channel with these marks whose stream runs `then`.
fn embedded<T: Future<Output = ()> + 'static>(
    marks: WaterMarks,
    then: impl FnOnce(LocalStream) -> T + 'static,
) -> EmbeddedChannel {
    let options = ChannelOptions {
        marks,
        ..ChannelOptions::default()
    };
    let take = StreamHandler::local(then);
    let assemble = |p: PipelineBuilder| p.add("take", take);
    EmbeddedChannel::with_options(options, assemble).unwrap()
}

/// Sends `bytes` on another thread, and reads the reply meanwhile.
pub(crate) fn echoed_meanwhile(client: &TcpStream, bytes: &[u8]) -> Vec<u8> {
    let (mut writer, mut reader) = (client, client);
    let mut back = vec![0; bytes.len()];
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(bytes).unwrap());
        reader.read_exact(&mut back).unwrap();
    });
    back
}

#[test]
fn a_local_future_echoes_over_tcp() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", StreamHandler::local(echo)));
    let mut client = dial(&server);
    for size in [1, 100, 20_000] {
        let sent: Vec<u8> = (0..size).map(|n| n as u8).collect();
        assert_eq!(round_trip(&mut client, &sent), sent);
    }
    // More than both water marks and the socket hold, in both directions at once.
    let large = vec![7; 4 << 20];
    assert!(echoed_meanwhile(&client, &large) == large);
}

#[test]
fn received_bytes_are_handed_out_and_written_bytes_are_taken_without_a_copy() {
    let (log, own) = Log::pair();
    let mut channel = embedded(WaterMarks::default(), move |mut stream| async move {
        let bytes = read(&mut stream).await.unwrap();
        own.push(bytes.as_ptr() as usize);
        write_all(&mut stream, bytes.clone()).await.unwrap();
        assert!(!bytes.is_unique(), "the queue has the same bytes");
        let _ = read(&mut stream).await;
    });
    let bytes = Bytes::from(vec![5; 300]);
    let address = bytes.as_ptr() as usize;
    channel.write_inbound(bytes);
    assert_eq!(log.take(), [address]);
    assert_eq!(channel.sent().len(), 300);
}

#[test]
fn the_end_and_failures_reach_the_reader() {
    for breaks in [false, true] {
        let (log, own) = Log::pair();
        let mut channel = embedded(WaterMarks::default(), move |mut stream| async move {
            loop {
                match read(&mut stream).await {
                    Ok(bytes) if bytes.is_empty() => return own.push("end".to_owned()),
                    Ok(bytes) => own.push(format!("read {}", bytes.len())),
                    Err(why) => {
                        assert_eq!(why.kind(), io::ErrorKind::ConnectionReset);
                        let late = write_all(&mut stream, "late").await.unwrap_err();
                        assert_eq!(late.kind(), io::ErrorKind::ConnectionReset);
                        return own.push(why.to_string());
                    }
                }
            }
        });
        channel.receive("abc");
        match breaks {
            true => channel.fail(io::ErrorKind::ConnectionReset),
            false => channel.end_input(),
        }
        let received = log.take();
        assert_eq!(received[0], "read 3");
        let last = if breaks { "reset" } else { "end" };
        assert!(received[1].contains(last), "{received:?}");
        assert!(!channel.is_open());
    }
}

#[test]
fn a_small_buffer_gets_the_bytes_in_parts() {
    let (log, own) = Log::pair();
    let mut channel = embedded(WaterMarks::default(), move |mut stream| async move {
        let mut buffer = [0; 4];
        loop {
            let count = poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut buffer)).await;
            let count = count.unwrap();
            own.push(String::from_utf8_lossy(&buffer[..count]).into_owned());
            if count == 0 {
                return;
            }
        }
    });
    channel.receive("abcdef");
    channel.receive("gh");
    channel.end_input();
    assert_eq!(log.take(), ["abcd", "ef", "gh", ""]);
}

#[test]
fn a_stream_that_is_not_read_stops_its_channel_and_reading_on_resumes_it() {
    let streams = Rc::new(RefCell::new(Vec::new()));
    let own = Rc::clone(&streams);
    let mut channel = embedded(WaterMarks::default(), move |stream| async move {
        own.borrow_mut().push(stream);
    });
    channel.run();
    let mut stream = streams.borrow_mut().pop().unwrap();
    for _ in 0..100 {
        channel.receive(vec![1; 4096]);
    }
    let mut cx = Context::from_waker(Waker::noop());
    let (mut total, mut held) = (0, 0);
    loop {
        while let Poll::Ready(Ok(bytes)) = stream.poll_read_bytes(&mut cx) {
            held += bytes.len();
        }
        assert!(held <= 128 * 1024, "held {held}");
        if held == 0 {
            break;
        }
        total += std::mem::take(&mut held);
        channel.run();
    }
    assert_eq!(total, 409_600);
}

#[test]
fn a_writer_waits_above_the_mark_and_is_woken_below() {
    let (log, own) = Log::pair();
    let marks = WaterMarks::new(500, 1500, 1 << 20).unwrap();
    let mut channel = embedded(marks, move |mut stream| async move {
        read(&mut stream).await.unwrap();
        for _ in 0..4 {
            let mut bytes = Bytes::from(vec![2; 1000]);
            while !bytes.is_empty() {
                let wrote = poll_fn(|cx| stream.poll_write_bytes(cx, &mut bytes)).await;
                assert!(wrote.unwrap() > 0);
            }
            own.push("wrote");
        }
        flush(&mut stream).await.unwrap();
    });
    channel.set_room(Some(0));
    channel.receive("go");
    assert!(log.len() < 3, "wrote {} times", log.len());
    channel.set_room(None);
    assert_eq!(log.len(), 4);
    assert_eq!(channel.sent().len(), 4000);
}

#[test]
fn a_large_write_is_taken_in_parts_that_the_marks_allow() {
    for marks in [(10, 5_000, 5_000), (10, 5_000, 20_000), (0, 0, 1_096)] {
        let marks = WaterMarks::new(marks.0, marks.1, marks.2).unwrap();
        let (log, own) = Log::pair();
        let mut channel = embedded(marks, move |mut stream| async move {
            read(&mut stream).await.unwrap();
            write_all(&mut stream, vec![3; 100_000]).await.unwrap();
            own.push("all");
        });
        channel.set_room(Some(3));
        channel.receive("go");
        assert!(channel.channel().pending_bytes() < 12_000);
        assert!(log.is_empty());
        channel.set_room(None);
        assert_eq!(log.take(), ["all"]);
        assert_eq!(channel.sent().len(), 100_000);
        assert!(channel.errors().is_empty());
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
    let take = StreamHandler::local(|mut stream: LocalStream| async move {
        for _ in 0..10 {
            write_all(&mut stream, vec![2; 1000]).await.unwrap();
        }
        let _ = read(&mut stream).await;
    });
    let assemble = |p: PipelineBuilder| p.add_outbound("shrinks", Shrinks).add("take", take);
    let mut channel = EmbeddedChannel::with_options(marks(500, 1500, 1 << 20), assemble).unwrap();
    channel.run();
    let sent = channel.sent();
    assert!(sent.len() >= 10 && sent.iter().all(|byte| *byte == b'x'));
}

#[test]
fn closing_the_stream_shuts_the_output_and_dropping_it_closes() {
    let mut channel = embedded(WaterMarks::default(), |mut stream| async move {
        write_all(&mut stream, "bye").await.unwrap();
        poll_fn(|cx| Pin::new(&mut stream).poll_close(cx))
            .await
            .unwrap();
        let late = write_all(&mut stream, "late").await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(read(&mut stream).await.unwrap(), "last");
    });
    channel.run();
    assert!(channel.is_output_shut());
    assert_eq!(channel.sent(), "bye");
    assert!(channel.is_open());
    channel.receive("last");
    assert!(!channel.is_open(), "the stream was dropped");
}

#[test]
fn what_is_written_in_one_poll_is_one_call() {
    let mut channel = embedded(WaterMarks::default(), |mut stream| async move {
        for part in ["one ", "two ", "three"] {
            write_all(&mut stream, part).await.unwrap();
        }
        let _ = read(&mut stream).await;
    });
    channel.run();
    let calls = channel.write_calls();
    assert_eq!((channel.sent(), calls), ("one two three".into(), 1));
}

#[test]
fn a_future_is_woken_from_another_thread() {
    let group = group(1);
    let (gate, log) = (Gate::new(), Log::new());
    let (own, wakers) = (gate.clone(), log.clone());
    let server = serve(&group, move |p| {
        let (gate, wakers) = (own.clone(), wakers.clone());
        p.add(
            "take",
            StreamHandler::local(|mut stream: LocalStream| async move {
                let opened = poll_fn(|cx| match gate.is_open() {
                    true => Poll::Ready(()),
                    false => {
                        wakers.push(cx.waker().clone());
                        Poll::Pending
                    }
                });
                opened.await;
                write_all(&mut stream, "awake").await.unwrap();
            }),
        )
    });
    let mut client = dial(&server);
    log.wait_for(1);
    gate.open();
    log.take().remove(0).wake();
    let mut received = String::new();
    client.read_to_string(&mut received).unwrap();
    assert_eq!(received, "awake");
}

#[test]
fn a_stream_that_has_moved_to_another_local_future_goes_on() {
    let group = group(1);
    let server = serve(&group, |p| {
        p.add(
            "take",
            StreamHandler::local(|stream: LocalStream| async move {
                let home = EventLoop::current().unwrap();
                drop(home.spawn_local(echo(stream)).unwrap());
            }),
        )
    });
    let mut client = dial(&server);
    let sent = vec![9; 300_000];
    assert!(echoed_meanwhile(&client, &sent) == sent);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn a_future_whose_channel_is_closed_runs_on_and_its_stream_has_ended() {
    let (log, own) = Log::pair();
    let mut channel = embedded(WaterMarks::default(), move |mut stream| async move {
        let end = read(&mut stream).await.map(|bytes| bytes.len());
        own.push(format!("{end:?}"));
        let late = write_all(&mut stream, "late").await.unwrap_err();
        own.push(format!("{:?}", late.kind()));
        let home = EventLoop::current().unwrap();
        home.sleep(Duration::from_secs(5)).await.unwrap();
        own.push("done".to_owned());
    });
    channel.run();
    channel.close();
    channel.run();
    assert_eq!(log.take(), ["Ok(0)", "BrokenPipe"]);
    channel.advance(Duration::from_secs(6));
    assert_eq!(log.take(), ["done"]);
}

#[test]
fn a_future_that_never_ends_is_dropped_a_while_after_its_channel_is_closed() {
    let dropped = Counter::new();
    let alive = DropCount::new(&dropped);
    let mut channel = embedded(WaterMarks::default(), move |stream| async move {
        std::future::pending::<()>().await;
        drop((stream, alive));
    });
    channel.advance(10 * ChannelOptions::DEFAULT_CLOSE_TIMEOUT);
    channel.close();
    channel.advance(ChannelOptions::DEFAULT_CLOSE_TIMEOUT - Duration::from_secs(1));
    assert_eq!(dropped.count(), 0);
    channel.advance(Duration::from_secs(2));
    assert_eq!(dropped.count(), 1);
}

#[test]
fn an_open_channel_can_be_taken_over_and_its_stream_ends_with_the_handler() {
    let log = Log::new();
    let mut channel = EmbeddedChannel::new(|p| p).unwrap();
    let handle = channel.channel();
    let own = log.clone();
    let taken = handle.change(move || {
        let take = StreamHandler::local(move |mut stream: LocalStream| async move {
            while let Ok(bytes) = read(&mut stream).await {
                own.push(bytes.len());
                if bytes.is_empty() {
                    return;
                }
            }
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
    assert!(!channel.is_open(), "the stream was dropped");
}

#[test]
fn a_drain_reaches_the_future() {
    let group = group(1);
    let (log, own) = Log::pair();
    let server = serve(&group, move |p| {
        let own = own.clone();
        p.add(
            "take",
            StreamHandler::local(|mut stream: LocalStream| async move {
                let signal = stream.drain_signal();
                assert!(!signal.is_draining());
                write_all(&mut stream, "hello ").await.unwrap();
                signal.await;
                assert!(stream.drain_signal().is_draining());
                own.push("drained");
                write_all(&mut stream, "bye").await.unwrap();
            }),
        )
    });
    let mut client = dial(&server);
    let mut hello = [0; 6];
    client.read_exact(&mut hello).unwrap();
    let report = server.drain(Duration::from_secs(300)).wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (1, 0));
    assert_eq!(log.take(), ["drained"]);
    let mut rest = String::new();
    client.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "bye");
}

#[test]
fn requests_before_the_end_are_answered_after_it() {
    let group = group(1);
    let server = serve(&group, |p| {
        p.add(
            "answer",
            StreamHandler::local(|mut stream: LocalStream| async move {
                let mut asked = Vec::new();
                loop {
                    let bytes = read(&mut stream).await.unwrap();
                    if bytes.is_empty() {
                        break;
                    }
                    asked.extend_from_slice(&bytes);
                }
                let answer = asked.to_ascii_uppercase();
                write_all(&mut stream, answer).await.unwrap();
            }),
        )
    });
    let mut client = dial(&server);
    client.write_all(b"a question of some length").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut received = String::new();
    client.read_to_string(&mut received).unwrap();
    assert_eq!(received, "A QUESTION OF SOME LENGTH");
}

/// Creates a group of one event loop, and the log of its hook for unhandled errors.
fn group_with_hook() -> (NetGroup, Log<String>) {
    let (log, received) = Log::pair();
    let hook = OnUnhandled::new(move |_, what| received.push(what.to_string()));
    let group = NetGroup::builder("io").loops(1).report_to(hook);
    (group.build().unwrap(), log)
}

#[test]
fn a_panic_of_the_future_goes_to_the_hook_and_is_why_the_channel_is_closed() {
    let (group, log) = group_with_hook();
    let (channels, own) = Log::pair();
    let server = serve(&group, move |p| {
        let own = own.clone();
        p.add(
            "take",
            StreamHandler::local(|mut stream: LocalStream| async move {
                own.push(stream.channel());
                read(&mut stream).await.unwrap();
                write_all(&mut stream, "before").await.unwrap();
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
    let begin = |_: LocalStream| -> std::future::Ready<()> { panic!("no future") };
    let server = serve(&group, move |p| p.add("take", StreamHandler::local(begin)));
    let mut rest = Vec::new();
    dial(&server).read_to_end(&mut rest).unwrap();
    log.wait_for(1);
    assert!(log.take()[0].contains("no future"));

    let server = serve(&group, |p| {
        p.add(
            "take",
            StreamHandler::local(|_stream: LocalStream| {
                let bomb = Bomb;
                poll_fn(move |_| -> Poll<()> {
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

#[cfg(feature = "tls")]
#[test]
fn requests_before_a_close_notify_are_answered_after_it() {
    let authority = crate::tls::Authority::new();
    let tls = authority.server("localhost");
    let group = group(1);
    let server = serve(&group, move |p| {
        p.add_duplex("tls", tls.handler())
            .add("echo", StreamHandler::local(echo))
    });
    let name = authority.client().name("localhost").unwrap();
    let (log, own) = Log::pair();
    let client = tidegate_net::Client::builder(&group).pipeline(move |p| {
        let own = own.clone();
        let ask = |mut stream: LocalStream| async move {
            write_all(&mut stream, "a question").await.unwrap();
            poll_fn(|cx| Pin::new(&mut stream).poll_close(cx))
                .await
                .unwrap();
            own.push(read(&mut stream).await.unwrap());
        };
        p.add_duplex("tls", name.handler())
            .add("ask", StreamHandler::local(ask))
    });
    let channel = client.connect(server.local_addr()).wait().unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), ["a question"]);
    channel.closed().wait().unwrap();
    assert!(channel.close_cause().is_none());
}

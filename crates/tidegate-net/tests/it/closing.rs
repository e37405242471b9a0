//! Closing at once, and closing when everything is sent: what is still sent, and what is not.

use std::time::Duration;

use bytes::Bytes;
use tidegate_net::handlers::{FlowControl, LineFrames, Rate, TrafficShaping};
use tidegate_net::{
    Channel, ChannelOptions, EmbeddedChannel, InboundContext, NetError, Outbound, OutboundContext,
};
use tidegate_promise::{Completion, WaitError};
use tidegate_testkit::Log;

use crate::acts::Acts;
use crate::{LogReads, dial, first, giving, group_by, marks, no_auto_read};

fn is_closed(write: Completion<()>) -> bool {
    let WaitError::Failed(why) = write.wait().unwrap_err() else {
        return false;
    };
    matches!(why.downcast_ref(), Some(NetError::Closed(_)))
}

fn logging_reads(options: ChannelOptions) -> (EmbeddedChannel, Log<Bytes>) {
    let (log, own) = Log::pair();
    let channel =
        EmbeddedChannel::with_options(options, |p| p.add("hears", LogReads(own))).unwrap();
    (channel, log)
}

#[test]
fn what_is_written_after_a_graceful_close_fails_and_does_not_put_it_off() {
    let (mut channel, _log) = logging_reads(ChannelOptions::default());
    channel.set_room(Some(0));
    let handle = channel.channel();
    let before = handle.write_with("before");
    let closed = handle.close_when_flushed();
    let after = handle.write_with("after");
    handle.flush();
    channel.run();
    assert!(is_closed(after) && !closed.is_done());
    assert!(!handle.is_writable());
    let later = handle.write_with("later");
    channel.run();
    assert!(is_closed(later));
    channel.set_room(None);
    before.wait().unwrap();
    assert!(closed.is_done());
    assert_eq!(channel.sent(), "before");
}

#[test]
fn after_a_graceful_close_nothing_is_read_on_any_request() {
    let (mut channel, log) = logging_reads(ChannelOptions::default());
    channel.set_room(Some(0));
    let handle = channel.channel();
    handle.write("last words");
    let closed = handle.close_when_flushed();
    channel.run();
    channel.receive("not read");
    channel.write_inbound(Bytes::from("not read"));
    handle.set_auto_read(true);
    handle.read();
    channel.run();
    assert!(log.is_empty() && !closed.is_done());
    channel.end_input();
    assert!(!closed.is_done(), "what was written still goes out");
    channel.set_room(None);
    assert!(closed.is_done() && log.is_empty());
    assert_eq!(channel.sent(), "last words");
}

#[test]
fn after_a_close_no_handler_gets_another_message_of_the_same_read() {
    for close in [
        (|ctx| ctx.close()) as fn(&mut InboundContext<'_, Acts>),
        |ctx| ctx.close_when_flushed(),
        |ctx| ctx.abort(),
    ] {
        let (log, own) = Log::pair();
        let closes = Acts::on_read(move |line, ctx| {
            close(ctx);
            ctx.fire_read(line);
        });
        let mut channel = EmbeddedChannel::new(|p| {
            let p = p.add("lines", LineFrames::max(80));
            let hears = Acts::on_read(move |line, ctx| {
                own.push(line.clone());
                ctx.fire_read(line);
            });
            p.add("hears", hears).add("closes", closes)
        })
        .unwrap();
        channel.receive("bye\nand\n");
        channel.receive("more\n");
        assert!(!channel.is_open());
        assert_eq!(log.take(), ["bye"]);
        assert!(channel.read_inbound::<Bytes>().is_none());
    }
}

#[test]
fn after_a_graceful_close_no_handler_gets_what_another_one_held_back() {
    let (log, own) = Log::pair();
    let mut channel = EmbeddedChannel::with_options(no_auto_read(), |p| {
        let p = p.add("lines", LineFrames::max(80));
        p.add_duplex("flow", FlowControl::new())
            .add("hears", LogReads(own))
    })
    .unwrap();
    let handle = channel.channel();
    channel.set_room(Some(0));
    handle.read();
    channel.run();
    channel.receive("one\ntwo\n");
    assert_eq!(log.take(), ["one"]);
    handle.write("last words");
    drop(handle.close_when_flushed());
    handle.read();
    channel.run();
    assert!(channel.is_open() && log.is_empty());
    channel.set_room(None);
    assert!(!channel.is_open() && log.is_empty());
    assert_eq!(channel.sent(), "last words");
}

#[test]
fn while_a_handler_holds_a_graceful_close_back_nothing_is_received() {
    let (log, own) = Log::pair();
    let slow = TrafficShaping::new(None, Some(Rate::bytes_per_second(10)));
    let mut channel =
        EmbeddedChannel::new(|p| p.add_duplex("slow", slow).add("hears", LogReads(own))).unwrap();
    let handle = channel.channel();
    handle.write_and_flush("0123456789");
    handle.write_and_flush("0123456789");
    drop(handle.close_when_flushed());
    channel.run();
    channel.receive("more");
    channel.advance(Duration::from_secs(1));
    assert_eq!(channel.sent().len(), 20);
    assert!(channel.is_open() && channel.is_output_shut(), "it lingers");
    channel.end_input();
    assert!(!channel.is_open() && log.is_empty());
}

#[test]
fn a_graceful_close_has_a_deadline_by_the_loops_clock() {
    let options = ChannelOptions {
        close_timeout: Duration::from_secs(5),
        ..ChannelOptions::default()
    };
    let (mut channel, _log) = logging_reads(options);
    channel.set_room(Some(0));
    let handle = channel.channel();
    let waits = handle.write_with("never taken");
    let closed = handle.close_when_flushed();
    channel.run();
    channel.advance(Duration::from_millis(4_999));
    assert!(!closed.is_done());
    drop(handle.close_when_flushed());
    channel.run();
    channel.advance(Duration::from_millis(1));
    assert!(closed.is_done(), "asking twice does not put it off");
    assert!(is_closed(waits));
    let cause = handle.close_cause().unwrap();
    let Some(NetError::CloseTimeout(after)) = cause.downcast_ref() else {
        panic!("another cause: {cause}");
    };
    assert_eq!(*after, Duration::from_secs(5));
    assert!(cause.to_string().contains("does not read"), "{cause}");
}

#[test]
fn a_graceful_close_without_a_deadline_waits_and_one_in_time_leaves_no_timer() {
    let options = ChannelOptions {
        close_timeout: Duration::ZERO,
        ..ChannelOptions::default()
    };
    for options in [options, ChannelOptions::default()] {
        let waits = options.close_timeout.is_zero();
        let (mut channel, _log) = logging_reads(options);
        channel.set_room(Some(0));
        let handle = channel.channel();
        handle.write("slow");
        let closed = handle.close_when_flushed();
        channel.run();
        channel.advance(ChannelOptions::DEFAULT_CLOSE_TIMEOUT - Duration::from_nanos(1));
        assert!(!closed.is_done());
        if waits {
            channel.advance(ChannelOptions::DEFAULT_CLOSE_TIMEOUT * 100);
            assert!(!closed.is_done());
        }
        channel.set_room(None);
        assert!(closed.is_done() && handle.close_cause().is_none());
        assert_eq!(channel.sent(), "slow");
        channel.advance(ChannelOptions::DEFAULT_CLOSE_TIMEOUT);
        assert!(handle.close_cause().is_none());
    }
}

#[test]
fn a_client_that_does_not_read_is_closed_after_the_deadline() {
    let clock = tidegate_core::ManualClock::new();
    let group = group_by(&clock);
    let (server, log) = giving(&group);
    let _deaf = dial(&server);
    let channel = first(&log);
    // More than the buffers of two sockets hold.
    for _ in 0..12 {
        channel.write(vec![0; 1 << 20]);
    }
    let last = channel.write_with("the end");
    let closed = channel.close_when_flushed();
    // After this task the event loop has processed all requests above.
    group.submit(|| ()).unwrap().wait().unwrap();
    assert!(!closed.is_done());
    clock.advance(ChannelOptions::DEFAULT_CLOSE_TIMEOUT);
    closed.wait().unwrap();
    assert!(is_closed(last));
    let cause = channel.close_cause().unwrap();
    assert!(matches!(
        cause.downcast_ref(),
        Some(NetError::CloseTimeout(_))
    ));
}

/// Closes with `close` when it reads, and writes after that.
fn closes(close: fn(&mut InboundContext<'_, Acts>), writes: Log<Completion<()>>) -> Acts {
    let after = writes.clone();
    Acts::on_read(move |bytes, ctx| {
        ctx.write(bytes);
        ctx.flush();
        close(ctx);
        writes.push(ctx.write_with("too late"));
        ctx.write("too late");
        ctx.flush();
    })
    .on_inactive(move |ctx| after.push(ctx.write_with("much too late")))
}

/// Passes everything on, and writes after a close.
struct Adds;

impl Outbound for Adds {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(bytes);
    }

    fn close(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(" and bye");
        ctx.flush();
        ctx.close();
        ctx.write(" too late");
        ctx.flush();
    }

    fn close_when_flushed(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(" and bye");
        ctx.close_when_flushed();
        ctx.write(" too late");
        ctx.flush();
    }
}

#[test]
fn what_a_handler_writes_behind_its_own_close_fails() {
    for close in [
        (|ctx| ctx.close()) as fn(&mut InboundContext<'_, Acts>),
        |ctx| ctx.close_when_flushed(),
    ] {
        for adds in [false, true] {
            let writes = Log::new();
            let closes = closes(close, writes.clone());
            let mut channel = EmbeddedChannel::new(|p| match adds {
                true => p.add_outbound("adds", Adds).add("closes", closes),
                false => p.add("closes", closes),
            })
            .unwrap();
            channel.receive("bye");
            assert!(!channel.is_open());
            let expected = if adds { "bye and bye" } else { "bye" };
            assert_eq!(channel.sent(), expected);
            let writes = writes.take();
            assert_eq!(writes.len(), 2);
            assert!(writes.into_iter().all(is_closed));
        }
    }
}

#[test]
fn what_is_written_by_a_handle_after_a_close_fails_and_is_not_sent() {
    for close in [
        (|channel| drop(channel.close())) as fn(&Channel),
        |channel| drop(channel.close_when_flushed()),
    ] {
        let (mut channel, _log) = logging_reads(ChannelOptions::default());
        let handle = channel.channel();
        let before = handle.write_with("before");
        handle.flush();
        close(&handle);
        let after = handle.write_with("after");
        handle.write_and_flush("and more");
        channel.run();
        before.wait().unwrap();
        assert!(is_closed(after));
        assert_eq!(channel.sent(), "before");
    }
}

#[test]
fn a_handler_that_holds_writes_back_accepts_no_more_after_an_end() {
    for (close, refused) in [(true, "closed"), (false, "sending half")] {
        let slow = TrafficShaping::new(None, Some(Rate::bytes_per_second(10)));
        let mut channel = EmbeddedChannel::new(|p| p.add_duplex("slow", slow)).unwrap();
        let handle = channel.channel();
        for _ in 0..3 {
            handle.write_and_flush("0123456789");
        }
        match close {
            true => drop(handle.close_when_flushed()),
            false => drop(handle.shutdown_output()),
        }
        let after = handle.write_with("after");
        handle.write_and_flush("after");
        channel.run();
        let why = after.wait().unwrap_err().to_string();
        assert!(why.contains(refused), "{why}");
        for _ in 0..10 {
            channel.advance(Duration::from_secs(1));
        }
        assert_eq!(channel.sent().len(), 30);
        assert!(!channel.is_open() || channel.is_output_shut());
    }
}

#[test]
fn a_graceful_close_sends_writes_that_a_handler_held_back() {
    /// Does not pass flushes on.
    struct Swallows;
    impl Outbound for Swallows {
        type Take = Bytes;
        type Write = Bytes;
        fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
            ctx.write(bytes);
        }
        fn flush(&mut self, _: &mut OutboundContext<'_, Self>) {}
        fn close_when_flushed(&mut self, ctx: &mut OutboundContext<'_, Self>) {
            ctx.close_when_flushed();
        }
    }
    let mut channel = EmbeddedChannel::new(|p| p.add_outbound("swallows", Swallows)).unwrap();
    let handle = channel.channel();
    let sent = handle.write_with("all of it");
    drop(handle.close_when_flushed());
    channel.run();
    sent.wait().unwrap();
    assert_eq!(channel.sent(), "all of it");
}

#[test]
fn a_connection_that_breaks_ends_a_graceful_close() {
    let (mut channel, _log) = logging_reads(ChannelOptions::default());
    channel.set_room(Some(0));
    let handle = channel.channel();
    handle.write("never taken");
    let closed = handle.close_when_flushed();
    channel.run();
    assert!(!closed.is_done());
    channel.fail(std::io::ErrorKind::ConnectionReset);
    assert!(closed.is_done());
    let cause = handle.close_cause().unwrap().to_string();
    assert!(cause.contains("reset"), "{cause}");
}

#[test]
fn a_flush_with_a_completion_fails_once_after_a_lost_write() {
    type Row = (fn(&mut EmbeddedChannel), fn(&NetError) -> bool);
    let much = || vec![0; 1000];
    let rows: [Row; 3] = [
        // Above the cap: of a handle, and of a handler.
        (
            |channel| channel.channel().write(vec![0; 1000]),
            |why| matches!(why, NetError::WriteLost),
        ),
        (
            |channel| channel.receive("much"),
            |why| matches!(why, NetError::WriteLost),
        ),
        // Behind the end, which waits for what was written before.
        (
            |channel| {
                channel.set_room(Some(0));
                channel.channel().write("before");
                drop(channel.channel().close_when_flushed());
                channel.channel().write("late");
            },
            |why| matches!(why, NetError::Closed(None)),
        ),
    ];
    for (row, (lose, is_expected)) in rows.into_iter().enumerate() {
        let acts = Acts::on_read(move |_, ctx| ctx.write(much())).on_error(|_, _| ());
        let mut channel =
            EmbeddedChannel::with_options(marks(10, 100, 500), |p| p.add("acts", acts)).unwrap();
        lose(&mut channel);
        let handle = channel.channel();
        let (lost, next) = (handle.flush_with(), handle.flush_with());
        channel.run();
        let why = lost.wait().unwrap_err().failure().unwrap();
        assert!(is_expected(why.downcast_ref().unwrap()), "row {row}: {why}");
        channel.set_room(None);
        next.wait().unwrap();
    }
}

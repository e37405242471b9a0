//! One channel: reading, writing, water marks, ends.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::handlers::Strings;
use tidegate_net::{
    Assembly, ChannelOptions, EmbeddedChannel, Inbound, InboundContext, InputShutdown, NetError,
    Nothing, ReadSize, UserEvent, WaterMarks,
};
use tidegate_promise::{Completion, Failure};
use tidegate_testkit::Log;

use crate::Echo;

/// Notes what it hears.
struct Notes(Log<String>);

impl Inbound for Notes {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push(format!("read {}", bytes.len()));
    }

    fn read_complete(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push("complete".to_owned());
    }

    fn inactive(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push("inactive".to_owned());
    }

    fn writability(&mut self, writable: bool, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push(format!("writable {writable}"));
    }

    fn event(&mut self, event: UserEvent, _ctx: &mut InboundContext<'_, Self>) {
        if event.is::<InputShutdown>().is_some() {
            self.0.push("input shut".to_owned());
        }
    }

    fn error(&mut self, why: Failure, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push(format!("error {why}"));
    }
}

fn notes(options: ChannelOptions) -> (EmbeddedChannel, Log<String>) {
    let log = Log::new();
    let own = log.clone();
    let channel = EmbeddedChannel::with_options(options, |p| p.add("notes", Notes(own))).unwrap();
    (channel, log)
}

fn marks(low: usize, high: usize, cap: usize) -> ChannelOptions {
    ChannelOptions {
        marks: WaterMarks::new(low, high, cap).unwrap(),
        ..ChannelOptions::default()
    }
}

#[test]
fn a_turn_reads_until_a_short_read_and_completes_once() {
    let options = ChannelOptions {
        read_size: ReadSize::fixed(10).unwrap(),
        ..ChannelOptions::default()
    };
    let (mut channel, log) = notes(options);
    channel.receive(vec![0; 25]);
    assert_eq!(log.take(), ["read 10", "read 10", "read 5", "complete"]);
}

#[test]
fn after_sixteen_reads_others_have_their_turn_and_the_rest_comes() {
    let options = ChannelOptions {
        read_size: ReadSize::fixed(1).unwrap(),
        ..ChannelOptions::default()
    };
    let (mut channel, log) = notes(options);
    channel.receive(vec![0; 20]);
    let heard = log.take();
    let completes: Vec<_> = heard
        .iter()
        .enumerate()
        .filter(|(_, said)| *said == "complete")
        .map(|(at, _)| at)
        .collect();
    assert_eq!(completes, [16, 21], "{heard:?}");
}

#[test]
fn a_full_read_raises_the_next_offer_within_the_turn() {
    let options = ChannelOptions {
        read_size: ReadSize::bounded(16, 16, 1 << 20).unwrap(),
        ..ChannelOptions::default()
    };
    let (mut channel, log) = notes(options);
    channel.receive(vec![0; 16 + 80 + 40]);
    assert_eq!(log.take(), ["read 16", "read 80", "read 40", "complete"]);
}

#[test]
fn without_auto_read_nothing_is_read_until_asked_once() {
    let options = ChannelOptions {
        auto_read: false,
        read_size: ReadSize::fixed(4).unwrap(),
        ..ChannelOptions::default()
    };
    let (mut channel, log) = notes(options);
    channel.receive("12345678");
    assert!(log.take().is_empty());
    channel.channel().read();
    channel.run();
    assert_eq!(log.take(), ["read 4", "complete"]);
    channel.channel().set_auto_read(true);
    channel.run();
    assert_eq!(log.take(), ["read 4", "complete"]);
}

#[test]
fn a_read_loop_stops_when_a_handler_switches_auto_read_off() {
    struct Once;
    impl Inbound for Once {
        type In = Bytes;
        type Out = Bytes;
        type Write = Nothing;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            ctx.set_auto_read(false);
            ctx.fire_read(bytes);
        }
    }
    let options = ChannelOptions {
        read_size: ReadSize::fixed(1).unwrap(),
        ..ChannelOptions::default()
    };
    let mut channel = EmbeddedChannel::with_options(options, |p| p.add("once", Once)).unwrap();
    channel.receive("ab");
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "a");
    assert!(channel.read_inbound::<Bytes>().is_none());
    channel.channel().read();
    channel.run();
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "b");
}

#[test]
fn the_end_of_input_closes_after_what_came_before_it() {
    let (mut channel, log) = notes(ChannelOptions::default());
    channel.receive("last words");
    channel.end_input();
    assert_eq!(log.take(), ["read 10", "complete", "inactive"]);
    assert!(!channel.is_open());
    assert!(channel.channel().closed().is_done());
}

#[test]
fn with_half_closure_the_other_half_stays_open() {
    let options = ChannelOptions {
        half_closure: true,
        ..ChannelOptions::default()
    };
    let (mut channel, log) = notes(options);
    channel.end_input();
    assert_eq!(log.take(), ["input shut"]);
    channel.channel().write_and_flush("answer");
    channel.run();
    assert_eq!(channel.sent(), "answer");
    drop(channel.channel().shutdown_output());
    channel.run();
    assert!(!channel.is_open(), "both halves are shut");
}

#[test]
fn shutting_the_output_waits_for_what_was_written() {
    let options = ChannelOptions {
        half_closure: true,
        ..ChannelOptions::default()
    };
    let (mut channel, _log) = notes(options);
    channel.set_room(Some(3));
    channel.channel().write_and_flush("12345");
    let shut = channel.channel().shutdown_output();
    channel.run();
    assert!(!channel.is_output_shut() && !shut.is_done());
    channel.set_room(None);
    assert!(channel.is_output_shut());
    shut.wait().unwrap();
    let again = channel.channel().shutdown_output();
    channel.run();
    again.wait().unwrap();
    assert_eq!(channel.sent(), "12345");
    assert!(channel.is_open(), "the peer may still write");
}

#[test]
fn who_waits_for_a_half_to_be_closed_hears_of_the_end_of_both() {
    let (mut channel, _log) = notes(ChannelOptions::default());
    channel.set_room(Some(3));
    channel.channel().write_and_flush("12345");
    let shut = channel.channel().shutdown_output();
    channel.run();
    channel.close();
    let late = channel.channel().shutdown_output();
    for lost in [shut, late] {
        assert!(lost.wait().unwrap_err().to_string().contains("closed"));
    }
}

#[test]
fn a_broken_read_tells_the_handlers_and_closes() {
    let (mut channel, log) = notes(ChannelOptions::default());
    channel.fail(ErrorKind::ConnectionReset);
    let heard = log.take();
    assert!(heard[0].contains("reset"), "{heard:?}");
    assert_eq!(heard[1], "inactive");
    let cause = channel.channel().close_cause().unwrap();
    assert!(cause.downcast_ref::<std::io::Error>().is_some());
}

#[test]
fn a_write_after_the_end_fails_with_the_cause() {
    let (mut channel, _log) = notes(ChannelOptions::default());
    channel.fail(ErrorKind::ConnectionReset);
    let late = channel.channel().write_with("late");
    let why = late.wait().unwrap_err().failure().unwrap();
    let Some(NetError::Closed(Some(cause))) = why.downcast_ref::<NetError>() else {
        panic!("{why:?}");
    };
    assert!(cause.to_string().contains("reset"));
}

#[test]
fn a_closed_channel_is_not_writable_and_gives_back_what_is_tried() {
    let (mut channel, _log) = notes(ChannelOptions::default());
    let handle = channel.channel();
    assert!(handle.is_writable());
    channel.close();
    assert!(!handle.is_writable());
    assert_eq!(handle.try_write("late").unwrap_err().0, "late");
    assert_eq!(handle.try_write_message(7).unwrap_err().0, 7);
    handle.writable().wait().unwrap_err();
}

#[test]
fn a_message_from_outside_completes_when_it_is_sent_and_fails_if_nobody_takes_it() {
    let strings = |p: Assembly| p.add_duplex("text", Strings::utf8());
    let mut channel = EmbeddedChannel::new(strings).unwrap();
    let handle = channel.channel();
    let sent = handle.write_message_with("text".to_owned());
    handle.flush();
    channel.run();
    sent.wait().unwrap();
    assert_eq!(channel.sent(), "text");
    let misfit = handle.write_message_with(7_u8);
    handle.flush();
    channel.run();
    let why = misfit.wait().unwrap_err().to_string();
    assert!(why.contains("`text` takes"), "{why}");
}

#[test]
#[expect(
    clippy::mutable_key_type,
    reason = "equality and hash are those of the handle"
)]
fn handles_of_one_channel_are_one_key() {
    let (one, _) = notes(ChannelOptions::default());
    let (other, _) = notes(ChannelOptions::default());
    let all = HashSet::from([one.channel(), one.channel(), other.channel()]);
    assert_eq!(all.len(), 2);
    assert!(all.contains(&one.channel()));
}

#[test]
fn closing_fails_what_was_not_sent_and_is_idempotent() {
    let (mut channel, log) = notes(ChannelOptions::default());
    channel.set_room(Some(0));
    let waits = channel.channel().write_with("waits");
    channel.channel().flush();
    channel.run();
    let (first, second) = (channel.channel().close(), channel.channel().close());
    channel.run();
    assert!(first.is_done() && second.is_done());
    assert!(waits.wait().is_err());
    assert_eq!(log.take(), ["inactive"]);
    assert!(channel.channel().close().is_done(), "a later one, too");
}

#[test]
fn closing_when_flushed_sends_first() {
    let (mut channel, _log) = notes(ChannelOptions::default());
    channel.set_room(Some(0));
    channel.channel().write("bye");
    let closed = channel.channel().close_when_flushed();
    channel.run();
    assert!(!closed.is_done());
    channel.set_room(None);
    assert!(closed.is_done());
    assert_eq!(channel.sent(), "bye");
}

#[test]
fn a_write_from_outside_counts_at_once_and_is_sent_with_the_flush() {
    let (mut channel, log) = notes(marks(100, 1000, 10_000));
    let handle = channel.channel();
    handle.write(vec![0; 2000]);
    assert_eq!(handle.pending_bytes(), 2000 + 96);
    assert!(!handle.is_writable(), "before the loop has seen it");
    assert!(handle.try_write("more").is_err());
    assert!(handle.try_write_message(Bytes::from("more")).is_err());
    channel.run();
    assert!(channel.sent().is_empty(), "nothing is sent before a flush");
    handle.flush();
    channel.run();
    assert_eq!(channel.sent().len(), 2000);
    assert_eq!(handle.pending_bytes(), 0);
    assert!(handle.is_writable());
    assert!(log.take().iter().all(|said| said.starts_with("writable")));
}

#[test]
fn writability_changes_above_high_and_below_low_and_is_told_once_each() {
    let (mut channel, log) = notes(marks(300, 1000, 10_000));
    channel.set_room(Some(0));
    let handle = channel.channel();
    // Each counts for 104 + 96 = 200.
    for _ in 0..5 {
        handle.write(vec![0; 104]);
    }
    handle.flush();
    channel.run();
    assert!(log.take().is_empty(), "1000 is not above 1000");
    handle.write_and_flush("x");
    channel.run();
    assert_eq!(log.take(), ["writable false"]);
    channel.set_room(Some(104 * 3));
    assert!(log.take().is_empty(), "497 are between the marks");
    channel.set_room(Some(104));
    assert_eq!(log.take(), ["writable true"]);
}

#[test]
fn who_saw_it_unwritable_is_told_when_it_is_over_however_soon() {
    let (mut channel, log) = notes(marks(300, 1000, 10_000));
    let handle = channel.channel();
    handle.write(vec![0; 2000]);
    handle.flush();
    channel.run();
    assert_eq!(log.take(), ["writable false", "writable true"]);
}

#[test]
fn a_writer_elsewhere_can_wait_for_room() {
    let (mut channel, _log) = notes(marks(300, 1000, 10_000));
    let handle = channel.channel();
    assert!(handle.writable().is_done(), "there is room");
    channel.set_room(Some(0));
    handle.write(vec![0; 2000]);
    let room = handle.writable();
    channel.run();
    assert!(!room.is_done());
    channel.set_room(None);
    room.wait().unwrap();
    // What was mailed and not flushed is sent by the wait itself.
    handle.write(vec![0; 2000]);
    let room = handle.writable();
    channel.run();
    room.wait().unwrap();
    channel.set_room(Some(0));
    handle.write(vec![0; 2000]);
    let never = handle.writable();
    channel.close();
    assert!(never.wait().is_err());
    assert!(handle.writable().wait().is_err());
}

#[test]
fn flags_of_the_users_own_are_joined_with_the_marks() {
    let (mut channel, log) = notes(ChannelOptions::default());
    let handle = channel.channel();
    handle.set_user_writable(1, false);
    handle.set_user_writable(2, false);
    channel.run();
    assert_eq!(log.take(), ["writable false"]);
    assert!(!handle.is_writable());
    handle.set_user_writable(1, true);
    handle.set_user_writable(0, true);
    handle.set_user_writable(32, false);
    channel.run();
    assert!(log.take().is_empty());
    handle.set_user_writable(2, true);
    channel.run();
    assert_eq!(log.take(), ["writable true"]);
}

#[test]
fn above_the_cap_a_write_fails_and_one_without_a_promise_is_an_error() {
    let (mut channel, log) = notes(marks(10, 100, 500));
    channel.set_room(Some(0));
    let handle = channel.channel();
    handle.write_and_flush(vec![0; 300]);
    let refused = handle.write_with(vec![0; 300]);
    channel.run();
    handle.flush();
    channel.run();
    let why = refused.wait().unwrap_err().to_string();
    assert!(why.contains("the cap is 500"), "{why}");
    let _ = log.take();
    handle.write_and_flush(vec![0; 300]);
    channel.run();
    assert!(log.take()[0].contains("the cap is 500"));
}

#[test]
fn the_cap_holds_for_writes_that_a_busy_loop_has_not_seen_and_one_error_tells_of_them() {
    let (mut channel, log) = notes(marks(10, 100, 1_000));
    let handle = channel.channel();
    let sent: Vec<_> = (0..100).map(|_| handle.write_with(vec![0; 104])).collect();
    for _ in 0..100 {
        handle.write(vec![0; 104]);
    }
    assert_eq!(handle.pending_bytes(), 1_000);
    handle.flush();
    channel.run();
    let (taken, refused): (Vec<_>, Vec<_>) = sent
        .into_iter()
        .map(Completion::wait)
        .partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (5, 95));
    let heard = log.take();
    let errors = heard.iter().filter(|said| said.contains("the cap is 1000"));
    assert_eq!(errors.count(), 1, "{heard:?}");
    handle.write(vec![0; 904]);
    handle.write("x");
    channel.run();
    assert!(
        log.take()
            .iter()
            .any(|said| said.contains("the cap is 1000")),
        "told again"
    );
}

#[test]
fn after_the_end_nothing_waits_and_nothing_is_taken() {
    let (mut channel, _log) = notes(ChannelOptions::default());
    channel.set_room(Some(0));
    let handle = channel.channel();
    handle.write_and_flush(vec![0; 1_000]);
    channel.run();
    handle.write("not seen yet");
    channel.close();
    assert_eq!((handle.pending_bytes(), handle.is_writable()), (0, false));
    let back = handle.try_write("late").unwrap_err();
    assert!(back.0 == "late" && back.to_string().contains("closed"));
}

#[test]
fn while_the_socket_is_full_a_flush_does_nothing() {
    let mut channel = EmbeddedChannel::new(|p| p.add("echo", Echo)).unwrap();
    channel.set_room(Some(1));
    channel.receive("12");
    let calls = channel.write_calls();
    channel.channel().flush();
    channel.channel().flush();
    channel.run();
    assert_eq!(channel.write_calls(), calls);
    channel.set_room(None);
    assert_eq!(channel.sent(), "12");
}

#[test]
fn many_writes_and_flushes_of_one_event_are_one_call() {
    struct Chatty;
    impl Inbound for Chatty {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
            for _ in 0..10 {
                ctx.write("x");
                ctx.flush();
            }
        }
    }
    let mut channel = EmbeddedChannel::new(|p| p.add("chatty", Chatty)).unwrap();
    channel.receive("go");
    assert_eq!((channel.sent().len(), channel.write_calls()), (10, 1));
}

#[test]
fn a_handler_that_writes_whenever_it_may_leaves_the_others_their_turn() {
    struct Floods;
    impl Inbound for Floods {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
            while ctx.is_writable() {
                ctx.write(vec![0; 1000]);
            }
            ctx.flush();
        }
        fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
            if writable && ctx.channel().attribute::<bool>().is_none() {
                self.read(Bytes::new(), ctx);
            }
        }
    }
    let options = marks(1000, 2000, 1 << 20);
    let mut channel = EmbeddedChannel::with_options(options, |p| p.add("floods", Floods)).unwrap();
    channel.channel().set_attribute(true);
    channel.receive("go");
    assert!(channel.sent().len() >= 2000);
    assert!(channel.is_open());
}

#[test]
fn a_timer_calls_its_handler_by_the_loops_clock() {
    struct Timed(Log<u64>);
    impl Inbound for Timed {
        type In = Bytes;
        type Out = Nothing;
        type Write = Nothing;
        fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
            ctx.schedule(Duration::from_secs(60), 7);
            let cancelled = ctx.schedule(Duration::from_secs(30), 8).unwrap();
            cancelled.cancel();
        }
        fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}
        fn timer(&mut self, key: u64, _: &mut InboundContext<'_, Self>) {
            self.0.push(key);
        }
    }
    let log = Log::new();
    let own = log.clone();
    let mut channel = EmbeddedChannel::new(|p| p.add("timed", Timed(own))).unwrap();
    channel.advance(Duration::from_secs(59));
    assert!(log.is_empty());
    channel.advance(Duration::from_secs(1));
    assert_eq!(log.take(), [7]);
}

#[test]
fn listeners_close_or_tell_on_failure() {
    let (mut channel, log) = notes(ChannelOptions::default());
    let handle = channel.channel();
    let (promise, done) = tidegate_promise::promise::<()>();
    handle.fire_error_on_failure(&done);
    promise.fail(Failure::new("no ink")).unwrap();
    channel.run();
    assert_eq!(log.take(), ["error no ink"]);
    let (promise, done) = tidegate_promise::promise::<()>();
    handle.close_on_failure(&done);
    promise.succeed(()).unwrap();
    channel.run();
    assert!(channel.is_open());
    let (promise, done) = tidegate_promise::promise::<()>();
    handle.close_on(&done);
    promise.succeed(()).unwrap();
    channel.run();
    assert!(!channel.is_open());
}

#[test]
fn attributes_are_kept_by_type() {
    let channel = EmbeddedChannel::new(|p| p).unwrap().channel();
    assert_eq!(channel.set_attribute(1_u32), None);
    assert_eq!(channel.set_attribute(2_u32), Some(1));
    channel.set_attribute("name");
    assert_eq!(channel.attribute::<u32>(), Some(2));
    assert_eq!(channel.attribute::<&str>(), Some("name"));
    assert_eq!(channel.attribute::<u64>(), None);
    assert_eq!(channel.take_attribute::<u32>(), Some(2));
    assert_eq!(channel.take_attribute::<u32>(), None);
    assert_eq!(channel.attribute::<&str>(), Some("name"));
}

#[test]
fn a_wish_to_read_lasts_until_something_was_read() {
    let options = ChannelOptions {
        auto_read: false,
        ..ChannelOptions::default()
    };
    let mut channel = EmbeddedChannel::with_options(options, |p| p).unwrap();
    channel.channel().read();
    channel.run();
    channel.receive("one");
    channel.receive("two");
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "one");
    assert!(
        channel.read_inbound::<Bytes>().is_none(),
        "one wish, one read"
    );
}

#[test]
fn a_flush_completes_when_everything_before_it_is_sent() {
    let mut channel = EmbeddedChannel::new(|p| p).unwrap();
    let handle = channel.channel();
    assert!(handle.flush_with().peek().is_none(), "not before its turn");
    channel.set_room(Some(5));
    handle.write("0123456789");
    let flushed = handle.flush_with();
    channel.run();
    assert!(flushed.peek().is_none());
    channel.set_room(None);
    flushed.wait().unwrap();
    channel.set_room(Some(0));
    handle.write("lost");
    let lost = handle.flush_with();
    channel.run();
    channel.close();
    assert!(lost.wait().is_err());
    assert!(handle.flush_with().wait().is_err(), "closed");
}

#[test]
fn switching_auto_read_off_ends_a_wish_from_before() {
    let options = ChannelOptions {
        auto_read: false,
        ..ChannelOptions::default()
    };
    let (mut channel, log) = notes(options);
    let handle = channel.channel();
    handle.read();
    handle.set_auto_read(true);
    handle.set_auto_read(false);
    channel.run();
    channel.receive("later");
    assert!(log.take().is_empty());
    handle.read();
    handle.set_auto_read(false);
    channel.run();
    assert_eq!(log.take()[0], "read 5", "it was off already");
}

#[test]
fn a_write_that_is_above_the_cap_by_itself_is_refused_though_nothing_waits() {
    let (mut channel, log) = notes(marks(10, 100, 500));
    let handle = channel.channel();
    let refused = handle.write_with(vec![0; 405]);
    let why = refused.wait().unwrap_err().to_string();
    assert!(
        why.contains("501 bytes") && why.contains("the cap is 500"),
        "{why}"
    );
    handle.write_and_flush(vec![0; 405]);
    channel.run();
    assert!(log.take()[0].contains("the cap is 500"));
    let taken = handle.write_with(vec![0; 404]);
    handle.flush();
    channel.run();
    taken.wait().unwrap();
    assert_eq!(channel.sent().len(), 404);
}

#[test]
fn a_write_of_another_thread_above_the_high_mark_is_told_without_a_flush() {
    let (mut channel, log) = notes(marks(300, 1000, 10_000));
    let handle = channel.channel();
    handle.write(vec![0; 904]);
    channel.run();
    assert!(log.is_empty(), "1000 is not above 1000");
    handle.write("x");
    channel.run();
    assert_eq!(log.take(), ["writable false"]);
    assert!(channel.sent().is_empty(), "nothing was flushed");
    handle.flush();
    channel.run();
    assert_eq!(log.take(), ["writable true"]);
}

/// Writes when it reads; then somebody else writes, who cannot know of that yet.
struct Both(Log<String>);

impl Inbound for Both {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(bytes);
        ctx.channel().write("from elsewhere");
    }

    fn writability(&mut self, writable: bool, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push(format!("writable {writable}"));
    }
}

#[test]
fn a_write_of_another_thread_is_told_though_what_waits_was_not_shown_to_it() {
    let log = Log::new();
    let both = Both(log.clone());
    let options = marks(300, 1000, 10_000);
    let mut channel = EmbeddedChannel::with_options(options, |p| p.add("both", both)).unwrap();
    channel.receive(vec![0; 900]);
    assert_eq!(log.take(), ["writable false"]);
}

#[test]
fn an_embedded_channel_that_receives_nothing_stays_open() {
    let (mut channel, log) = notes(ChannelOptions::default());
    channel.receive(Bytes::new());
    assert!(channel.is_open() && log.is_empty());
    channel.receive("x");
    assert_eq!(log.take(), ["read 1", "complete"]);
}

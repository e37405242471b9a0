//! Peers that send too slowly or too often: the time limit of a frame, and the limit of messages
//! per second.

use std::io::{Read, Write};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_net::handlers::{
    DelimiterFrames, FixedFrames, FlowControl, LengthField, LengthFrames, LineFrames, MessageLimit,
    Rate,
};
use tidegate_net::{EmbeddedChannel, NetError, PipelineBuilder, PipelineChange};
use tidegate_promise::Failure;
use tidegate_testkit::Log;

use crate::acts::Acts;
use crate::handlers::{embedded, frames};
use crate::{Echo, dial, group_by, half_closure, no_auto_read, serve};

const SECOND: Duration = Duration::from_secs(1);
const TENTH: Duration = Duration::from_millis(100);

/// Logs errors, so that they do not close the channel.
fn errors(log: Log<String>) -> Acts {
    Acts::on_read(|bytes, ctx| ctx.fire_read(bytes))
        .on_error(move |why, _| log.push(why.to_string()))
}

fn lines(limit: Duration) -> LineFrames {
    LineFrames::max(80).timeout(limit)
}

fn timed_out(channel: &mut EmbeddedChannel) -> bool {
    let errors = channel.errors();
    let timeout = |why: &Failure| matches!(why.downcast_ref(), Some(NetError::FrameTimeout(_)));
    errors.iter().any(timeout) && !channel.is_open()
}

#[test]
fn one_byte_now_and_then_does_not_hold_a_connection() {
    type Assemble = fn(PipelineBuilder) -> PipelineBuilder;
    let each: [Assemble; 4] = [
        |p| p.add("frames", lines(SECOND)),
        |p| {
            let frames = DelimiterFrames::new(["||"], 80).unwrap();
            p.add("frames", frames.timeout(SECOND))
        },
        |p| {
            let frames = LengthFrames::new(LengthField::u16(), 1000).unwrap();
            p.add("frames", frames.timeout(SECOND))
        },
        |p| p.add("frames", FixedFrames::of(80).unwrap().timeout(SECOND)),
    ];
    for assemble in each {
        let mut channel = embedded(assemble);
        channel.advance(10 * SECOND);
        assert!(channel.is_open(), "no frame has begun");
        for _ in 0..9 {
            channel.receive(&b"\x01"[..]);
            channel.advance(TENTH);
            assert!(channel.is_open());
        }
        channel.receive(&b"\x01"[..]);
        channel.advance(TENTH);
        assert!(timed_out(&mut channel));
    }
}

#[test]
fn the_time_begins_with_the_first_byte_of_each_frame() {
    let mut channel = embedded(|p| p.add("lines", lines(SECOND)));
    channel.receive("ab");
    channel.advance(9 * TENTH);
    channel.receive("c\nde");
    channel.advance(9 * TENTH);
    assert!(channel.is_open(), "the second line began later");
    channel.receive("f\n");
    channel.advance(100 * SECOND);
    assert!(channel.is_open(), "nothing is incomplete");
    channel.receive("g");
    channel.advance(SECOND - TENTH);
    assert!(channel.is_open());
    channel.advance(TENTH);
    assert!(timed_out(&mut channel));
    assert_eq!(frames(&mut channel), ["abc", "def"]);
}

#[test]
fn a_frame_that_is_skipped_counts_as_one() {
    let (log, own) = Log::pair();
    let mut channel = embedded(|p| {
        p.add("lines", LineFrames::max(4).timeout(SECOND))
            .add("errors", errors(own))
    });
    channel.receive("too long");
    assert!(log.take()[0].contains("too long"));
    for _ in 0..10 {
        channel.advance(TENTH);
        channel.receive("x");
    }
    assert!(log.take()[0].contains("1s"), "it has not ended");
    channel.receive("x\nab");
    channel.advance(9 * TENTH);
    assert!(log.is_empty(), "the next line has its own time");
    channel.receive("\n");
    channel.advance(SECOND);
    assert!(log.is_empty());
    assert_eq!(frames(&mut channel), ["ab"]);
}

#[test]
fn an_error_that_a_handler_takes_leaves_the_frame_alone() {
    let (log, own) = Log::pair();
    let mut channel = embedded(|p| p.add("lines", lines(SECOND)).add("errors", errors(own)));
    channel.receive("a");
    channel.advance(SECOND);
    assert_eq!(log.take().len(), 1);
    channel.advance(10 * SECOND);
    assert!(log.is_empty(), "once, until more bytes come");
    channel.receive("b");
    channel.advance(SECOND);
    assert_eq!(log.take().len(), 1);
    channel.receive("c\n");
    assert_eq!(frames(&mut channel), ["abc"]);
}

#[test]
fn time_in_which_the_channel_does_not_read_does_not_count() {
    let mut channel = embedded(|p| p.add("lines", lines(SECOND)));
    channel.receive("a");
    channel.channel().set_auto_read(false);
    channel.run();
    channel.advance(10 * SECOND);
    assert!(channel.is_open());
    channel.channel().set_auto_read(true);
    channel.run();
    channel.advance(SECOND);
    assert!(timed_out(&mut channel));

    // A read that was requested counts.
    let assemble = |p: PipelineBuilder| {
        p.add("lines", lines(SECOND))
            .add_duplex("flow", FlowControl::new())
    };
    let mut channel = EmbeddedChannel::with_options(no_auto_read(), assemble).unwrap();
    channel.channel().read();
    channel.run();
    channel.receive("a");
    channel.advance(SECOND);
    assert!(timed_out(&mut channel));
}

#[test]
fn a_frame_that_the_end_of_input_cuts_off_has_no_time_limit() {
    let assemble = |p: PipelineBuilder| p.add("lines", lines(SECOND));
    let mut channel = EmbeddedChannel::with_options(half_closure(), assemble).unwrap();
    channel.receive("a question\nand a p");
    channel.end_input();
    assert_eq!(frames(&mut channel), ["a question"]);
    channel.advance(10 * SECOND);
    assert!(channel.errors().is_empty());
    channel.write_outbound("an answer that took long");
    assert_eq!(channel.sent(), "an answer that took long");
}

#[test]
fn a_decoder_that_was_removed_has_no_time_limit() {
    let mut channel = embedded(|p| p.add("lines", lines(SECOND)));
    channel.receive("a");
    let removed = channel.channel().change(|| PipelineChange::remove("lines"));
    channel.run();
    removed.wait().unwrap();
    channel.advance(10 * SECOND);
    assert!(channel.is_open());
}

#[test]
fn a_slow_client_of_a_server_is_cut_and_others_are_not() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let server = serve(&group, |p| p.add("lines", lines(SECOND)).add("echo", Echo));
    let mut slow = dial(&server);
    let mut good = dial(&server);
    slow.write_all(b"one\ntwo").unwrap();
    slow.read_exact(&mut [0; 3]).unwrap();
    good.write_all(b"one\n").unwrap();
    good.read_exact(&mut [0; 3]).unwrap();
    clock.advance(SECOND);
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    good.write_all(b"two\n").unwrap();
    good.read_exact(&mut [0; 3]).unwrap();
    assert_eq!(server.connections(), 1);
}

fn limited(rate: &Rate) -> EmbeddedChannel {
    let limit = MessageLimit::new(rate.clone());
    embedded(|p| {
        p.add("lines", LineFrames::max(80))
            .add_duplex("limit", limit)
    })
}

#[test]
fn messages_above_the_limit_wait_and_reading_stops() {
    let mut channel = limited(&Rate::messages_per_second(10));
    let many: String = (0..15).map(|number| format!("{number}\n")).collect();
    channel.receive(many);
    assert_eq!(frames(&mut channel).len(), 10, "those of one second");
    channel.receive("late\n");
    for number in 10..15 {
        channel.advance(TENTH);
        assert_eq!(frames(&mut channel), [number.to_string()]);
    }
    channel.advance(TENTH);
    assert_eq!(
        frames(&mut channel),
        ["late"],
        "it was read after the others"
    );
    channel.advance(10 * SECOND);
    channel.receive("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n");
    assert_eq!(
        frames(&mut channel).len(),
        10,
        "no more than one second is saved"
    );
}

#[test]
fn clones_of_a_rate_count_together_and_it_can_be_changed() {
    let rate = Rate::messages_per_second(2);
    let mut channels = [limited(&rate), limited(&rate)];
    for channel in &mut channels {
        channel.receive("a\nb\n");
    }
    let counts = channels.each_mut().map(|channel| frames(channel).len());
    assert_eq!(counts, [2, 0]);
    rate.set(100);
    channels[1].advance(SECOND);
    assert_eq!(
        frames(&mut channels[1]),
        ["a", "b"],
        "they keep their delay"
    );
    channels[1].advance(SECOND);
    let many = "x\n".repeat(120);
    channels[1].receive(many);
    assert_eq!(frames(&mut channels[1]).len(), 100);
}

#[test]
fn a_message_above_the_limit_can_close_the_connection() {
    let limit = MessageLimit::new(Rate::messages_per_second(2)).closes();
    let mut channel = embedded(|p| {
        p.add("lines", LineFrames::max(80))
            .add_duplex("limit", limit)
    });
    channel.receive("a\nb\n");
    channel.advance(SECOND);
    channel.receive("c\nd\ne\n");
    assert_eq!(frames(&mut channel), ["a", "b", "c", "d"]);
    assert!(!channel.is_open());
    let why = channel.errors().remove(0);
    assert!(why.to_string().contains("more than 2 messages"), "{why}");
}

#[test]
fn a_removed_limit_releases_the_messages_and_reads_on() {
    let mut channel = limited(&Rate::messages_per_second(1));
    channel.receive("a\nb\nc\n");
    assert_eq!(frames(&mut channel), ["a"]);
    let removed = channel.channel().change(|| PipelineChange::remove("limit"));
    channel.run();
    removed.wait().unwrap();
    assert_eq!(frames(&mut channel), ["b", "c"]);
    channel.receive("d\n");
    assert_eq!(frames(&mut channel), ["d"]);
}

#[test]
fn limits_at_their_extremes_are_limits() {
    let mut never = embedded(|p| p.add("lines", lines(Duration::MAX)));
    never.receive("a");
    never.advance(1_000_000 * SECOND);
    assert!(never.is_open());
    let mut least = embedded(|p| p.add("lines", lines(Duration::from_nanos(1))));
    least.receive("a\n");
    assert!(least.is_open(), "a whole frame takes no time");
    least.receive("b");
    least.advance(TENTH);
    assert!(timed_out(&mut least));
    let mut most = limited(&Rate::messages_per_second(u64::MAX));
    most.receive("x\n".repeat(1000));
    assert_eq!(frames(&mut most).len(), 1000);
    let least = Rate::messages_per_second(0);
    let mut one = limited(&least);
    one.receive("a\nb\n");
    assert_eq!(frames(&mut one), ["a"], "at least one per second");
    least.set(0);
    one.advance(SECOND);
    assert_eq!(frames(&mut one), ["b"]);
}

#[test]
fn a_requested_read_waits_for_the_limit() {
    let limit = MessageLimit::new(Rate::messages_per_second(1));
    let assemble = |p: PipelineBuilder| {
        p.add("lines", LineFrames::max(80))
            .add_duplex("limit", limit)
    };
    let mut channel = EmbeddedChannel::with_options(no_auto_read(), assemble).unwrap();
    channel.channel().read();
    channel.run();
    channel.receive("a\nb\n");
    channel.receive("c\n");
    assert_eq!(frames(&mut channel), ["a"]);
    channel.channel().read();
    channel.run();
    assert!(frames(&mut channel).is_empty());
    channel.advance(SECOND);
    channel.advance(SECOND);
    assert_eq!(frames(&mut channel), ["b", "c"]);
}

#[test]
fn a_busy_client_is_slowed_down_and_loses_nothing() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let server = serve(&group, |p| {
        let limit = MessageLimit::new(Rate::messages_per_second(10));
        p.add("lines", LineFrames::max(80))
            .add_duplex("limit", limit)
            .add("echo", Echo)
    });
    let mut client = dial(&server);
    client.write_all("x\n".repeat(30).as_bytes()).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    for _ in 0..20 {
        clock.advance(TENTH);
        client.read_exact(&mut [0; 1]).unwrap();
    }
    clock.advance(SECOND);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "the end comes last");
}

//! The guarantees of a channel's handle, if handlers or extreme numbers interfere.

use std::time::Duration;

use tidegate_net::handlers::{Rate, TrafficShaping};
use tidegate_net::{
    Channel, ChannelOptions, EmbeddedChannel, NetError, PipelineBuilder, WaterMarks,
};
use tidegate_promise::Completion;
use tidegate_testkit::Log;

use crate::acts::Acts;

/// Checks that `close_when_flushed` ends in time, although a handler holds it back together with
/// earlier writes.
fn ends_in_time(assemble: impl FnOnce(PipelineBuilder) -> PipelineBuilder) {
    let options = ChannelOptions {
        close_timeout: Duration::from_secs(5),
        ..ChannelOptions::default()
    };
    let mut channel = EmbeddedChannel::with_options(options, assemble).unwrap();
    let handle = channel.channel();
    handle.write_and_flush("first");
    let waits = handle.write_with("held back");
    let closed = handle.close_when_flushed();
    channel.run();
    channel.advance(Duration::from_millis(4_999));
    assert!(!closed.is_done());
    channel.advance(Duration::from_millis(1));
    assert!(closed.is_done());
    let why = handle.close_cause().unwrap();
    let why = why.downcast_ref::<NetError>();
    assert!(matches!(why, Some(NetError::CloseTimeout(_))), "{why:?}");
    channel.run();
    assert!(waits.is_done());
}

#[test]
fn a_graceful_close_has_its_deadline_while_a_handler_shapes_earlier_writes() {
    ends_in_time(|p| {
        let slow = Rate::bytes_per_second(1);
        p.add_duplex("traffic", TrafficShaping::new(None, Some(slow)))
    });
}

#[cfg(feature = "tls")]
#[test]
fn a_graceful_close_has_its_deadline_during_a_handshake() {
    let name = crate::tls::Authority::new().client().name("a.test");
    let name = name.unwrap();
    ends_in_time(|p| p.add_duplex("tls", name.handler()));
}

fn why(flushed: Completion<()>) -> String {
    flushed.wait().unwrap_err().to_string()
}

/// Checks that a flush reports writes that came after the end which `end` requests.
fn assert_late_writes_are_reported(
    assemble: impl FnOnce(PipelineBuilder) -> PipelineBuilder,
    end: impl FnOnce(&Channel),
    expected: &str,
) {
    let mut channel = EmbeddedChannel::new(assemble).unwrap();
    channel.set_room(Some(0));
    let handle = channel.channel();
    handle.write("in time");
    let before = handle.flush_with();
    end(&handle);
    let between = handle.flush_with();
    handle.write("late");
    let after = handle.flush_with();
    channel.run();
    let notified = why(after);
    assert!(notified.contains(expected), "{notified}");
    channel.set_room(None);
    channel.run();
    before.wait().unwrap();
    between.wait().unwrap();
    assert_eq!(channel.sent(), "in time");
}

#[test]
fn a_flush_fails_if_something_was_written_after_the_end() {
    let gently = |channel: &Channel| drop(channel.close_when_flushed());
    let half = |channel: &Channel| drop(channel.shutdown_output());
    assert_late_writes_are_reported(|p| p, gently, "the channel is closed");
    assert_late_writes_are_reported(|p| p, half, "sending half");
}

/// Logs how many bytes may be written before the channel becomes unwritable.
fn log_room(log: Log<usize>) -> Acts {
    Acts::on_read(move |_, ctx| log.push(ctx.bytes_before_unwritable()))
}

#[test]
fn the_largest_numbers_are_numbers_like_others() {
    let options = ChannelOptions {
        marks: WaterMarks::new(0, usize::MAX, usize::MAX).unwrap(),
        reads_per_turn: u32::MAX,
        write_spin: usize::MAX,
        close_timeout: Duration::MAX,
        ..ChannelOptions::default()
    };
    let (log, own) = Log::pair();
    let log_room = |p: PipelineBuilder| p.add("asks", log_room(own));
    let mut channel = EmbeddedChannel::with_options(options, log_room).unwrap();
    channel.receive("how much?");
    assert_eq!(log.take(), [usize::MAX]);
    channel.set_room(Some(0));
    let handle = channel.channel();
    handle.write("rest");
    let closed = handle.close_when_flushed();
    channel.run();
    assert!(!closed.is_done());
    channel.set_room(None);
    channel.run();
    assert!(closed.is_done());
}

/// Uses its channel when it is cloned.
struct Curious(Channel);

impl Clone for Curious {
    fn clone(&self) -> Self {
        assert!(self.0.close_cause().is_none());
        self.0.set_attribute("cloned");
        Self(self.0.clone())
    }
}

#[test]
fn a_value_kept_with_a_channel_may_use_it_while_it_is_cloned() {
    let channel = EmbeddedChannel::new(|p| p).unwrap();
    let handle = channel.channel();
    handle.set_attribute(Curious(handle.clone()));
    assert!(handle.attribute::<Curious>().is_some());
    assert_eq!(handle.attribute::<&str>(), Some("cloned"));
    assert!(handle.take_attribute::<Curious>().is_some());
    assert!(handle.attribute::<Curious>().is_none());
}

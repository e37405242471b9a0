//! The handle of a channel: identity, timers, listeners, attributes.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::{ChannelOptions, EmbeddedChannel, Inbound, InboundContext, Nothing};
use tidegate_promise::Failure;
use tidegate_testkit::Log;

use super::notes;

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
    let (log, own) = Log::pair();
    let mut channel = EmbeddedChannel::new(|p| p.add("timed", Timed(own))).unwrap();
    channel.advance(Duration::from_secs(59));
    assert!(log.is_empty());
    channel.advance(Duration::from_secs(1));
    assert_eq!(log.take(), [7]);
}

#[test]
fn listeners_close_or_fire_an_error_on_failure() {
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

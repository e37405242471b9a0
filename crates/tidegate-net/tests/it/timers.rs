//! Timers of handlers end with their handler and with their channel, those of a drain with the drain.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::ManualClock;
use tidegate_loop::{EventLoop, Placement};
use tidegate_net::{EmbeddedChannel, Inbound, InboundContext, PipelineBuilder};
use tidegate_promise::Completion;
use tidegate_testkit::{Log, until};

use crate::roaming::roaming;
use crate::{Echo, dial, group_by, round_trip, serve};

const HOUR: Duration = Duration::from_secs(3600);

/// Sets a timer for each of the next two hours when the channel opens. Closes the channel or leaves
/// it when a message says so.
#[derive(Clone, Default)]
struct Sets {
    timers: Log<Completion<()>>,
    rang: Log<u64>,
}

impl Inbound for Sets {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        for key in [1, 2] {
            let timer = ctx.schedule(HOUR * key, key.into());
            self.timers.push(timer.unwrap());
        }
        ctx.fire_active();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        match &bytes[..] {
            b"close" => ctx.close(),
            b"leave" => ctx.remove_me().unwrap(),
            _ => ctx.fire_read(bytes),
        }
    }

    fn timer(&mut self, key: u64, _: &mut InboundContext<'_, Self>) {
        self.rang.push(key);
    }

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        // Too late for a timer: it is refused, or ends at once.
        let _ = ctx.schedule(HOUR, 3);
    }
}

/// Returns the number of timers at the start of a turn that runs a task of the caller.
fn pending_timers<P: Placement>(home: &EventLoop<P>) -> u64 {
    home.submit(|| ()).unwrap().wait().unwrap();
    home.metrics().timers_pending
}

#[test]
fn a_timer_ends_with_its_handler_and_with_its_channel() {
    for (end, left) in [("close", [].as_slice()), ("leave", &[2])] {
        let (first, second) = (Sets::default(), Sets::default());
        let (own, other) = (first.clone(), second.clone());
        let handlers = |p: PipelineBuilder| p.add("first", own).add("second", other);
        let mut channel = EmbeddedChannel::new(handlers).unwrap();
        channel.advance(HOUR);
        assert_eq!((first.rang.take(), second.rang.take()), (vec![1], vec![1]));
        channel.receive(end);
        let cancelled = |sets: &Sets| -> Vec<_> {
            let timers = sets.timers.take();
            timers.iter().map(Completion::is_cancelled).collect()
        };
        assert_eq!(cancelled(&first), [false, true], "{end}");
        assert_eq!(cancelled(&second), [false, left.is_empty()], "{end}");
        channel.advance(3 * HOUR);
        assert_eq!(
            (first.rang.take(), second.rang.take()),
            (vec![], left.to_vec())
        );
    }
}

#[test]
fn a_timer_ends_with_a_channel_that_roams() {
    let (_pool, group) = roaming(2);
    let sets = Sets::default();
    let own = sets.clone();
    let server = serve(&group, move |p| p.add("sets", own.clone()));
    let mut client = dial(&server);
    client.write_all(b"close").unwrap();
    sets.timers.wait_for(2);
    let timers = sets.timers.take();
    until("the timers are cancelled", || {
        timers.iter().all(Completion::is_cancelled)
    });
    let home = group.iter().next().unwrap();
    until("the loop has no timer", || pending_timers(home) == 0);
}

#[test]
fn a_drain_that_is_over_leaves_no_timer() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    let home = group.iter().next().unwrap();
    let drained = server.drain(HOUR);
    until("the drain has a timer", || pending_timers(home) == 1);
    drop(client);
    assert_eq!(drained.wait().unwrap().open, 1);
    until("the loop has no timer", || pending_timers(home) == 0);
}

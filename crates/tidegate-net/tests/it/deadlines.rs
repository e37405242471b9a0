//! The coarse deadlines of handlers.

use std::time::Duration;

use bytes::Bytes;
use tidegate_core::ManualClock;
use tidegate_net::{
    AnyMessage, EmbeddedChannel, Inbound, InboundContext, NetGroup, Nothing, PipelineBuilder,
    PipelineChange,
};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Log, Rng, model, short_or_long};

use crate::{dial, group_by, round_trip, serve};

const SECOND: Duration = Duration::from_secs(1);

/// Sets the deadline that each message names: its key, and the seconds. `key-` clears it. Logs the
/// keys of those that have passed.
struct Sets {
    name: &'static str,
    log: Log<String>,
}

impl Inbound for Sets {
    type In = Bytes;
    type Out = AnyMessage;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let key = bytes[0] - b'0';
        match &bytes[1..] {
            b"-" => ctx.clear_deadline(key),
            b"never" => ctx.deadline(key, Duration::MAX),
            seconds => {
                let seconds = std::str::from_utf8(seconds).unwrap();
                ctx.deadline(
                    key,
                    seconds.trim().parse().map(Duration::from_secs).unwrap(),
                );
            }
        }
        ctx.write("ok");
        ctx.flush();
    }

    fn deadline(&mut self, key: u8, ctx: &mut InboundContext<'_, Self>) {
        self.log.push(format!("{} {key}", self.name));
        match key {
            // Sets it again, to a time that has passed already.
            7 => ctx.deadline(key, Duration::ZERO),
            // Clears another one that is due at the same time.
            5 => ctx.clear_deadline(6),
            8 => ctx.close(),
            9 => panic!("on purpose"),
            _ => {}
        }
    }

    fn error(&mut self, why: tidegate_promise::Failure, _: &mut InboundContext<'_, Self>) {
        self.log
            .push(format!("{} panic {}", self.name, why.is_panic()));
    }
}

fn sets() -> (EmbeddedChannel, Log<String>) {
    let (log, own) = Log::pair();
    let channel = EmbeddedChannel::new(|p| {
        p.add(
            "sets",
            Sets {
                name: "a",
                log: own,
            },
        )
    });
    (channel.unwrap(), log)
}

#[test]
fn a_deadline_passes_once_and_each_key_is_its_own() {
    let (mut channel, log) = sets();
    for set in ["020", "110", "23"] {
        channel.receive(set);
    }
    channel.advance(9 * SECOND);
    assert_eq!(log.take(), ["a 2"]);
    channel.advance(SECOND);
    assert_eq!(log.take(), ["a 1"]);
    channel.advance(100 * SECOND);
    assert_eq!(log.take(), ["a 0"]);
    channel.advance(100 * SECOND);
    assert!(log.is_empty() && channel.is_open());
}

#[test]
fn a_deadline_can_be_moved_both_ways_and_cleared() {
    let (mut channel, log) = sets();
    channel.receive("010");
    for _ in 0..5 {
        channel.advance(9 * SECOND);
        channel.receive("010");
    }
    assert!(log.is_empty(), "it was always moved in time");
    channel.receive("02");
    channel.advance(2 * SECOND);
    assert_eq!(log.take(), ["a 0"], "it was moved to an earlier time");
    channel.receive("010");
    channel.receive("0-");
    channel.receive("0-");
    channel.advance(20 * SECOND);
    channel.receive("010");
    channel.receive("0never");
    channel.advance(Duration::from_secs(1 << 30));
    assert!(log.is_empty());
}

#[test]
fn a_deadline_that_has_passed_already_is_delivered_without_a_busy_loop() {
    let (mut channel, log) = sets();
    channel.receive("70");
    for _ in 0..5 {
        channel.advance(SECOND);
        let times = log.take().len();
        assert!((1..=3).contains(&times), "{times} times in one step");
    }
    channel.receive("7-");
    channel.advance(SECOND);
    assert!(log.take().len() <= 1);
    channel.advance(SECOND);
    assert!(log.is_empty());
}

#[test]
fn a_handler_can_clear_one_that_is_due_together_with_another() {
    let (mut channel, log) = sets();
    channel.receive("51");
    channel.receive("61");
    channel.advance(SECOND);
    channel.advance(SECOND);
    assert_eq!(log.take(), ["a 5"]);
}

#[test]
fn none_is_delivered_after_the_close_not_even_one_that_is_due_at_the_same_time() {
    let (mut channel, log) = sets();
    channel.receive("81");
    channel.receive("02");
    channel.receive("11");
    channel.advance(5 * SECOND);
    assert_eq!(log.take(), ["a 8"]);
    assert!(!channel.is_open());
    let (mut channel, log) = sets();
    channel.receive("01");
    channel.close();
    channel.advance(5 * SECOND);
    assert!(log.is_empty());
}

#[test]
fn a_panic_in_it_is_an_error_event_and_the_others_are_delivered() {
    let (mut channel, log) = sets();
    channel.receive("91");
    channel.receive("12");
    channel.advance(3 * SECOND);
    assert_eq!(log.take(), ["a 9", "a panic true", "a 1"]);
}

#[test]
fn handlers_do_not_share_keys_and_a_removed_handler_receives_none() {
    let (log, own) = Log::pair();
    /// Sets deadline 0 when it is added.
    struct Waits(Sets, Duration);
    impl Inbound for Waits {
        type In = AnyMessage;
        type Out = AnyMessage;
        type Write = Nothing;
        fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
            ctx.deadline(0, self.1);
        }
        fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
            ctx.fire_read(message);
        }
        fn deadline(&mut self, key: u8, _: &mut InboundContext<'_, Self>) {
            self.0.log.push(format!("{} {key}", self.0.name));
        }
        fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
            ctx.deadline(1, Duration::ZERO);
        }
    }
    let waits = |name, seconds| {
        let log = own.clone();
        Waits(Sets { name, log }, Duration::from_secs(seconds))
    };
    let mut channel = EmbeddedChannel::new(|p: PipelineBuilder| {
        p.add("a", waits("a", 1))
            .add("b", waits("b", 2))
            .add("c", waits("c", 2))
    })
    .unwrap();
    channel.advance(SECOND);
    assert_eq!(log.take(), ["a 0"]);
    let removed = channel.channel().change(|| PipelineChange::remove("b"));
    channel.run();
    removed.wait().unwrap();
    channel.advance(5 * SECOND);
    assert_eq!(log.take(), ["c 0"]);
}

#[test]
fn sockets_of_pinned_and_roaming_loops_keep_deadlines() {
    let clock = ManualClock::new();
    let pinned = group_by(&clock);
    let (log, own) = Log::pair();
    let server = serve(&pinned, move |p| {
        let log = own.clone();
        p.add("sets", Sets { name: "a", log })
    });
    let mut stream = dial(&server);
    assert_eq!(round_trip(&mut stream, b"01"), b"ok");
    clock.advance(SECOND);
    log.wait_for(1);
    assert_eq!(log.take(), ["a 0"]);

    let clock = ManualClock::new();
    let pool = WorkerPool::builder("workers").core(2).max(2);
    let pool = pool.build().unwrap();
    let roams = NetGroup::builder("io").loops(1).clock(&clock);
    let roams = roams.build_roaming(&pool).unwrap();
    let own = log.clone();
    let server = serve(&roams, move |p| {
        let log = own.clone();
        p.add("sets", Sets { name: "b", log })
    });
    let mut stream = dial(&server);
    assert_eq!(round_trip(&mut stream, b"09"), b"ok");
    assert_eq!(round_trip(&mut stream, b"01"), b"ok");
    clock.advance(SECOND);
    log.wait_for(1);
    assert_eq!(log.take(), ["b 0"]);
}

#[test]
fn random_moves_agree_with_a_table_of_times() {
    model(0..short_or_long(100, 2_000), |rng: &mut Rng| {
        let (mut channel, log) = sets();
        let mut table = [None::<u64>; 5];
        let mut now = 0;
        for _ in 0..30 {
            let key = rng.index(5);
            match rng.below(4) {
                0 => {
                    channel.receive(format!("{key}-"));
                    table[key] = None;
                }
                1 | 2 => {
                    let after = 1 + rng.below(20);
                    channel.receive(format!("{key}{after}"));
                    table[key] = Some(now + after);
                }
                _ => {
                    let by = 1 + rng.below(15);
                    now += by;
                    channel.advance(Duration::from_secs(by));
                    let mut due = Vec::new();
                    for (key, at) in table.iter_mut().enumerate() {
                        if at.take_if(|at| *at <= now).is_some() {
                            due.push(format!("a {key}"));
                        }
                    }
                    let mut passed = log.take();
                    passed.sort();
                    assert_eq!(passed, due, "at {now} s");
                }
            }
        }
    });
}

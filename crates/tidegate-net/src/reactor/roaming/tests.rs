//! The invariants of roaming sources, on a driver that only the test drives.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::lock;
use tidegate_core::{Blocking, Clock, Task};
use tidegate_loop::internal::Driver;
use tidegate_testkit::{Counter, DropCount, Log};

use super::updates::RoamingSource;
use super::*;
use crate::reactor::{Batched, IoContext, IoSource, Next};
use crate::sys::{FakePoller, FakeScript, Readiness, Ready, Source, Token};

/// A source that logs its events and returns what it was given in `next`.
struct TestSource {
    name: &'static str,
    log: Log<String>,
    /// Logs the sources that were called to receive before their turn.
    early: Log<&'static str>,
    next: Vec<Next>,
    kind: Blocking,
    panics: bool,
    _alive: DropCount,
}

impl Batched for TestSource {
    fn receive_early(&mut self, _readiness: Readiness, _desk: &mut IoContext) {
        self.early.push(self.name);
    }
}

impl IoSource for TestSource {
    fn ready(&mut self, readiness: Readiness, _desk: &mut IoContext) -> Next {
        self.log.push(format!("{} {readiness:?}", self.name));
        assert!(!self.panics, "a source that panics");
        self.next.pop().unwrap_or(Next::Stay)
    }

    fn io(&mut self) -> Option<&mut dyn Source> {
        None
    }

    fn close(&mut self, _desk: &mut IoContext) {
        self.log.push(format!("{} closes", self.name));
    }

    fn blocking(&self) -> Blocking {
        self.kind
    }
}

struct Bench {
    driver: RoamingDriver,
    script: FakeScript,
    log: Log<String>,
    early: Log<&'static str>,
    dropped: Counter,
}

fn bench() -> Bench {
    let (poller, script) = FakePoller::new();
    Bench {
        driver: RoamingDriver::new(poller),
        script,
        log: Log::new(),
        early: Log::new(),
        dropped: Counter::new(),
    }
}

impl Bench {
    /// Registers a source and lets it handle its first event.
    fn add_source(&mut self, name: &'static str, next: Vec<Next>) -> Token {
        self.add_source_of(name, next, Blocking::May, false)
    }

    fn add_source_of(
        &mut self,
        name: &'static str,
        next: Vec<Next>,
        kind: Blocking,
        panics: bool,
    ) -> Token {
        let (log, early) = (self.log.clone(), self.early.clone());
        let alive = DropCount::new(&self.dropped);
        let (sender, receiver) = std::sync::mpsc::channel();
        let make = move |token| -> RoamingSource {
            sender.send(token).unwrap();
            Box::new(TestSource {
                name,
                log,
                early,
                next,
                kind,
                panics,
                _alive: alive,
            })
        };
        let update = Update::Register(Box::new(make), Box::new(|made| made.unwrap()));
        assert!(self.driver.roam().push(update).is_ok());
        self.driver.poll();
        if !panics {
            self.one().run();
            drop(self.log.take());
        }
        receiver.recv().unwrap()
    }

    fn deliver(&mut self, events: impl IntoIterator<Item = Ready>) {
        self.script.ready(events);
        self.driver.poll();
    }

    fn one(&mut self) -> Task {
        self.driver.next_tasks(1).expect("a source is ready").0
    }

    fn none(&mut self) {
        self.driver.poll();
        assert!(self.driver.next_tasks(1).is_none());
    }
}

fn ready(token: Token, readiness: Readiness) -> Ready {
    Ready { token, readiness }
}

fn reads(token: Token) -> Ready {
    ready(token, Readiness::READ)
}

/// Runs a task on another thread.
fn elsewhere(task: Task) {
    std::thread::scope(|scope| scope.spawn(|| task.run()).join().unwrap());
}

#[test]
fn sources_receive_before_their_turn_only_on_loops_that_run_them_alone() {
    let mut bench = bench();
    let [a, b, c] = ["a", "b", "c"].map(|name| bench.add_source(name, vec![]));
    bench.deliver([reads(a), reads(b), reads(c)]);
    let first = bench.one();
    assert_eq!(bench.early.take(), ["a", "b", "c"]);
    first.run();
    let second = bench.one();
    let third = bench.one();
    second.run();
    bench.deliver([reads(a), reads(b)]);
    // The third is still away: its thread may have other sources, and they receive there.
    let more = bench.one();
    assert_eq!(bench.early.take(), [""; 0]);
    third.run();
    more.run();
    bench.one().run();
    bench.none();
}

#[test]
fn a_source_is_in_at_most_one_task() {
    let mut bench = bench();
    let a = bench.add_source("a", vec![]);
    let b = bench.add_source("b", vec![]);
    bench.deliver([reads(a), reads(a), reads(b), reads(a)]);
    let (first, second) = (bench.one(), bench.one());
    bench.none();
    bench.deliver([reads(a), reads(b)]);
    bench.none();
    elsewhere(first);
    bench.driver.poll();
    let third = bench.one();
    bench.none();
    drop((second, third));
}

#[test]
fn events_of_an_absent_source_are_delivered_once_on_its_return() {
    let mut bench = bench();
    let a = bench.add_source("a", vec![]);
    bench.deliver([reads(a)]);
    let away = bench.one();
    bench.deliver([ready(a, Readiness::WRITE), ready(a, Readiness::HANG_UP)]);
    bench.none();
    assert!(bench.driver.roam().push(Update::Requests(a)).is_ok());
    bench.none();
    elsewhere(away);
    bench.driver.poll();
    bench.one().run();
    bench.none();
    let received = ["a {READ}", "a {WRITE, HANG_UP, REQUESTS}"].map(str::to_owned);
    bench.log.assert_order(&received);
}

#[test]
fn a_trip_ends_in_exactly_one_of_returned_left_and_lost() {
    let mut bench = bench();
    let returns = bench.add_source("returns", vec![]);
    let leaves = bench.add_source("leaves", vec![Next::Leave, Next::Stay]);
    let lost = bench.add_source_of("lost", vec![], Blocking::May, true);
    let lost_task = bench.one();
    bench.deliver([reads(returns), reads(leaves)]);
    let (one, other) = (bench.one(), bench.one());
    assert_eq!(bench.driver.away, 3);
    elsewhere(one);
    elsewhere(other);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lost_task.run()));
    assert!(panicked.is_err(), "the thread that runs the task sees it");
    bench.driver.poll();
    assert_eq!(bench.driver.away, 0);
    assert_eq!(
        bench.dropped.count(),
        2,
        "the one that left and the lost one"
    );
    let slots = [returns, leaves, lost].map(|token| bench.driver.reactor.contains(token));
    assert_eq!(slots, [true, false, false]);
}

#[test]
fn a_stale_token_is_counted_and_dropped() {
    let mut bench = bench();
    let gone = bench.add_source("gone", vec![Next::Leave, Next::Stay]);
    bench.deliver([reads(gone), reads(gone)]);
    let leaves = bench.one();
    bench.none();
    elsewhere(leaves);
    bench.none();
    let heir = bench.add_source("heir", vec![]);
    assert_eq!((heir.slot(), heir == gone), (gone.slot(), false));
    bench.deliver([reads(gone)]);
    bench.none();
    assert_eq!(bench.driver.watch().metrics().stale, 1);
}

#[test]
fn a_return_comes_before_the_next_task_of_its_source() {
    let mut bench = bench();
    let again = vec![Next::Again(Readiness::READ); 3];
    let a = bench.add_source("a", [vec![Next::Leave], again, vec![Next::Stay]].concat());
    bench.deliver([reads(a)]);
    for _ in 0..4 {
        let task = bench.one();
        bench.none();
        elsewhere(task);
        bench.driver.poll();
    }
    bench.none();
    assert_eq!(bench.log.len(), 4);
    assert_eq!(bench.dropped.count(), 1);
}

#[test]
fn a_refused_task_returns_and_is_resubmitted_after_a_pause() {
    let mut bench = bench();
    let a = bench.add_source("a", vec![]);
    bench.deliver([reads(a)]);
    drop(bench.one());
    bench.none();
    bench.script.polls();
    bench.driver.wait(&Clock::system(), None);
    let pauses = bench.script.polls();
    assert!(matches!(pauses[..], [Some(pause)] if pause <= Duration::from_millis(1)));
    bench.driver.poll();
    elsewhere(bench.one());
    bench.none();
    assert_eq!(
        bench.log.take(),
        ["a {READ}"],
        "delivered once, by the task that ran"
    );
}

#[test]
fn a_refused_source_is_resubmitted_as_soon_as_another_returns() {
    let mut bench = bench();
    let (a, b) = (bench.add_source("a", vec![]), bench.add_source("b", vec![]));
    bench.deliver([reads(a), reads(b)]);
    let refused = bench.one();
    let runs = bench.one();
    drop(refused);
    bench.none();
    elsewhere(runs);
    bench.driver.poll();
    bench.one().run();
    assert_eq!(bench.log.take(), ["b {READ}", "a {READ}"]);
}

#[test]
fn the_end_closes_present_sources_and_waits_for_absent_ones() {
    let mut bench = bench();
    let (home, away) = (
        bench.add_source("home", vec![]),
        bench.add_source("away", vec![]),
    );
    bench.deliver([reads(away)]);
    let roaming_task = bench.one();
    assert!(!bench.driver.begin_shutdown(), "one is away");
    assert_eq!(bench.log.take(), ["home closes"]);
    bench.deliver([reads(home), reads(away)]);
    bench.none();
    elsewhere(roaming_task);
    assert!(bench.driver.begin_shutdown(), "all are back");
    assert_eq!(bench.log.take(), ["away {READ}", "away closes"]);
    assert_eq!(bench.dropped.count(), 2);
}

#[test]
fn a_loop_that_waits_for_the_last_source_checks_again_when_it_returns() {
    let mut bench = bench();
    let away = bench.add_source("away", vec![]);
    bench.deliver([reads(away)]);
    let roaming_task = bench.one();
    assert!(!bench.driver.begin_shutdown());
    elsewhere(roaming_task);
    bench.script.polls();
    // This would never return if the loop slept.
    bench.driver.wait(&Clock::system(), None);
    assert!(bench.script.polls().is_empty());
    assert!(bench.driver.begin_shutdown());
}

#[test]
fn a_trip_that_outlives_its_loop_closes_its_source_where_it_is() {
    let mut bench = bench();
    let (ran, refused) = (
        bench.add_source("ran", vec![]),
        bench.add_source("refused", vec![]),
    );
    bench.deliver([reads(ran), reads(refused)]);
    let (one, other) = (bench.one(), bench.one());
    bench.driver.close();
    drop(bench.driver);
    assert_eq!(
        bench.dropped.count(),
        0,
        "there is no other reference to them"
    );
    elsewhere(one);
    drop(other);
    let received = ["ran {READ}", "ran closes", "refused closes"].map(str::to_owned);
    bench.log.assert_order(&received);
    assert_eq!(bench.dropped.count(), 2);
}

#[test]
fn a_loop_that_has_ended_registers_nothing() {
    let mut bench = bench();
    bench.driver.close();
    let make = |_| -> RoamingSource { panic!("it was not requested") };
    let refused = bench
        .driver
        .roam()
        .push(Update::Register(Box::new(make), Box::new(drop)));
    assert!(refused.is_err());
}

#[test]
fn one_wakeup_for_any_number_of_updates_of_a_sleeping_loop() {
    let mut bench = bench();
    let roam = Arc::clone(bench.driver.roam());
    assert!(roam.fall_asleep());
    for _ in 0..3 {
        assert!(roam.push(Update::Handles(Box::new(drop))).is_ok());
    }
    // The wake-up is kept: this wait returns at once, and the next update finds the loop awake.
    bench.driver.wait(&Clock::system(), None);
    assert!(!lock(&roam.updates).asleep);
    assert!(roam.is_empty());
    assert_eq!(bench.driver.watch().metrics().wakeups, 1);
}

#[test]
fn the_kind_of_a_task_is_that_of_its_source() {
    let mut bench = bench();
    for kind in [Blocking::Never, Blocking::Adapts, Blocking::May] {
        let token = bench.add_source_of("a", vec![], kind, false);
        bench.deliver([reads(token)]);
        let task = bench.one();
        assert_eq!(task.blocking(), kind);
        task.run();
    }
}

#[test]
fn an_absent_source_has_a_name_for_the_report() {
    let mut bench = bench();
    let (_home, away) = (
        bench.add_source("home", vec![]),
        bench.add_source("away", vec![]),
    );
    bench.deliver([reads(away)]);
    let roaming_task = bench.one();
    assert_eq!(bench.driver.outstanding(), ["local"]);
    elsewhere(roaming_task);
    bench.driver.poll();
    assert!(bench.driver.outstanding().is_empty());
}

#[test]
fn a_burst_of_tasks_uses_the_counters_of_the_burst_before() {
    const TASKS: usize = 100;
    let mut bench = bench();
    let sources: Vec<_> = (0..TASKS)
        .map(|_| bench.add_source("one of many", vec![]))
        .collect();
    let mut lists = Vec::new();
    for _ in 0..3 {
        bench.deliver(sources.iter().map(|token| reads(*token)));
        let tasks: Vec<_> = (0..TASKS).map(|_| bench.one()).collect();
        tasks.into_iter().for_each(elsewhere);
        bench.driver.poll();
        let mut count = 0;
        bench.driver.roam().each_counters(|_| count += 1);
        lists.push(count);
    }
    assert_eq!(lists, [TASKS; 3]);
}

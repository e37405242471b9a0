//! Tasks with several sources: how many they get, and what the loop does with the others while one
//! blocks. The driver is driven by the test only.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

use tidegate_core::internal::lock;
use tidegate_core::{Blocking, Clock, Task};
use tidegate_loop::internal::Driver;
use tidegate_testkit::{Gate, Log};

use super::updates::RoamingSource;
use super::*;
use crate::reactor::{Batched, IoContext, IoSource, Next};
use crate::sys::{FakePoller, FakeScript, PIECES, Readiness, Ready, Source, Token};

/// What a source does with an event.
#[derive(Clone, Default)]
enum Deed {
    #[default]
    Stays,
    /// Opens the first gate and waits for the second.
    Blocks(Gate, Gate),
    Panics,
}

/// A source that logs its events.
struct TestSource {
    name: &'static str,
    log: Log<String>,
    deeds: Arc<std::sync::Mutex<HashMap<&'static str, Deed>>>,
    kind: Blocking,
}

impl Batched for TestSource {}

impl IoSource for TestSource {
    fn ready(&mut self, readiness: Readiness, _: &mut IoContext) -> Next {
        if readiness == Readiness::READ {
            self.log.push(self.name.to_owned());
            let deed = self.deeds.lock().unwrap().remove(self.name);
            match deed.unwrap_or_default() {
                Deed::Stays => {}
                Deed::Blocks(arrived, go_on) => {
                    arrived.open();
                    go_on.wait();
                }
                Deed::Panics => panic!("a source that panics"),
            }
        }
        Next::Stay
    }

    fn io(&mut self) -> Option<&mut dyn Source> {
        None
    }

    fn close(&mut self, _: &mut IoContext) {
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
    deeds: Arc<std::sync::Mutex<HashMap<&'static str, Deed>>>,
}

const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

impl Bench {
    /// Creates a driver whose next task may have eight sources.
    fn grown() -> Self {
        let (poller, script) = FakePoller::new();
        let mut bench = Self {
            driver: RoamingDriver::new(poller),
            script,
            log: Log::new(),
            deeds: Arc::default(),
        };
        let token = bench.add_source("first", Blocking::May);
        while bench.driver.group_size.get() < PIECES {
            bench.deliver([token]);
            bench.next().0.run();
            bench.driver.poll();
        }
        drop(bench.log.take());
        bench
    }

    fn add_source(&mut self, name: &'static str, kind: Blocking) -> Token {
        let (log, deeds) = (self.log.clone(), Arc::clone(&self.deeds));
        let (sender, receiver) = std::sync::mpsc::channel();
        let make = move |token| -> RoamingSource {
            sender.send(token).unwrap();
            Box::new(TestSource {
                name,
                log,
                deeds,
                kind,
            })
        };
        let update = Update::Register(Box::new(make), Box::new(|made| made.unwrap()));
        assert!(self.driver.roam().push(update).is_ok());
        self.driver.poll();
        self.next().0.run();
        receiver.recv().unwrap()
    }

    fn add_sources(&mut self, count: usize) -> Vec<Token> {
        let names = NAMES[..count].iter();
        names
            .map(|name| self.add_source(name, Blocking::May))
            .collect()
    }

    fn deliver(&mut self, tokens: impl IntoIterator<Item = Token>) {
        let readiness = Readiness::READ;
        let events = tokens.into_iter().map(|token| Ready { token, readiness });
        self.script.ready(events.collect::<Vec<_>>());
        self.driver.poll();
    }

    /// Returns the next task and its number of sources.
    fn next(&mut self) -> (Task, usize) {
        self.driver.next_tasks(64).expect("a source is ready")
    }

    fn none(&mut self) {
        self.driver.poll();
        assert!(self.driver.next_tasks(64).is_none());
    }

    fn set(&self, name: &'static str, deed: Deed) {
        self.deeds.lock().unwrap().insert(name, deed);
    }

    /// Makes `name` block in its next event, and runs `task` on another thread until then.
    fn run_until_blocked<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        name: &'static str,
        task: Task,
    ) -> (Gate, ScopedJoinHandle<'scope, ()>) {
        let (arrived, go_on) = (Gate::new(), Gate::new());
        self.set(name, Deed::Blocks(arrived.clone(), go_on.clone()));
        let running = scope.spawn(|| task.run());
        arrived.wait();
        (go_on, running)
    }
}

#[test]
fn tasks_grow_while_each_is_over_when_the_loop_goes_on() {
    let (poller, script) = FakePoller::new();
    let mut bench = Bench {
        driver: RoamingDriver::new(poller),
        script,
        log: Log::new(),
        deeds: Arc::default(),
    };
    let tokens = bench.add_sources(3);
    let mut sizes = Vec::new();
    for _ in 0..4 {
        bench.deliver(tokens.iter().copied());
        while let Some((task, size)) = bench.driver.next_tasks(64) {
            task.run();
            sizes.push(size);
        }
    }
    assert_eq!(bench.log.take().concat(), "abc".repeat(4));
    assert_eq!(sizes.iter().sum::<usize>(), 12);
    assert_eq!(sizes.last(), Some(&3), "all that were ready: {sizes:?}");
}

#[test]
fn a_task_has_no_more_sources_than_the_loop_asks_for_and_than_a_batch_has() {
    let mut bench = Bench::grown();
    let tokens = bench.add_sources(10);
    bench.deliver(tokens);
    let (one, few) = bench.driver.next_tasks(3).unwrap();
    one.run();
    let sizes = [(); 2].map(|()| {
        let (task, size) = bench.next();
        task.run();
        size
    });
    assert_eq!((few, sizes), (3, [5, 2]));
}

#[test]
fn the_sources_of_a_task_are_all_of_one_kind() {
    let mut bench = Bench::grown();
    let kinds = [Blocking::Never, Blocking::Never, Blocking::May];
    let tokens: Vec<_> = NAMES
        .iter()
        .zip(kinds)
        .map(|(name, kind)| bench.add_source(name, kind))
        .collect();
    bench.deliver(tokens);
    let (task, size) = bench.next();
    assert_eq!((task.blocking(), size), (Blocking::Never, 2));
    task.run();
    let (task, size) = bench.next();
    assert_eq!((task.blocking(), size), (Blocking::May, 1));
    task.run();
    bench.none();
    assert_eq!(bench.log.take(), ["a", "b", "c"]);
}

#[test]
fn while_one_source_blocks_the_others_of_its_task_go_on() {
    let mut bench = Bench::grown();
    let tokens = bench.add_sources(4);
    bench.deliver(tokens.iter().copied());
    let (task, size) = bench.next();
    assert_eq!((size, bench.driver.backlog()), (4, 3));
    std::thread::scope(|scope| {
        let (go_on, running) = bench.run_until_blocked(scope, "b", task);
        // New events of all four; the loop goes on, on another thread.
        bench.deliver(tokens.iter().copied());
        let mut sizes = Vec::new();
        while let Some((task, size)) = bench.driver.next_tasks(64) {
            task.run();
            sizes.push(size);
        }
        assert_eq!(bench.driver.away, 1);
        let log = bench.log.take();
        // The events that were recalled come first.
        assert_eq!(log, ["a", "b", "c", "d", "a", "c", "d"], "{sizes:?}");
        go_on.open();
        running.join().unwrap();
    });
    bench.driver.poll();
    assert_eq!(bench.driver.away, 0);
    bench.next().0.run();
    assert_eq!(bench.log.take(), ["b"], "the event that it has missed");
    bench.none();
}

#[test]
fn the_end_of_a_task_that_the_loop_did_not_wait_for_wakes_the_loop() {
    let mut bench = Bench::grown();
    let tokens = bench.add_sources(2);
    bench.deliver(tokens.iter().copied());
    let (task, _) = bench.next();
    std::thread::scope(|scope| {
        let (go_on, running) = bench.run_until_blocked(scope, "b", task);
        bench.none();
        let roam = Arc::clone(bench.driver.roam());
        assert!(roam.fall_asleep());
        go_on.open();
        running.join().unwrap();
        assert!(!lock(&roam.updates).asleep);
        // This would never return if the loop slept.
        bench.driver.wait(&Clock::system(), None);
    });
    assert_eq!(bench.driver.away, 0);
    assert_eq!(bench.driver.watch().metrics().wakeups, 1);
}

#[test]
fn a_task_that_is_over_before_the_loop_goes_on_wakes_nobody() {
    let mut bench = Bench::grown();
    let tokens = bench.add_sources(2);
    bench.deliver(tokens);
    bench.next().0.run();
    assert!(bench.driver.roam().is_empty());
    bench.none();
    assert_eq!(bench.driver.away, 0);
    assert_eq!(bench.driver.watch().metrics().wakeups, 0);
}

#[test]
fn a_task_in_a_queue_keeps_its_first_source_and_no_other() {
    let mut bench = Bench::grown();
    let tokens = bench.add_sources(3);
    bench.deliver(tokens);
    let (queued, size) = bench.next();
    assert_eq!(size, 3);
    let (other, size) = bench.next();
    assert_eq!(size, 2, "all but the first");
    other.run();
    assert_eq!(bench.log.take(), ["b", "c"]);
    queued.run();
    assert_eq!(bench.log.take(), ["a"]);
    bench.none();
    assert_eq!(bench.driver.away, 0);
}

#[test]
fn a_task_that_is_dropped_gives_all_its_sources_back_with_their_events() {
    let mut bench = Bench::grown();
    let tokens = bench.add_sources(3);
    bench.deliver(tokens);
    drop(bench.next());
    bench.none();
    assert_eq!((bench.driver.away, bench.log.len()), (0, 0));
    // Offered again after a pause.
    bench.driver.wait(&Clock::system(), None);
    bench.driver.poll();
    while let Some((task, _)) = bench.driver.next_tasks(64) {
        task.run();
    }
    assert_eq!(bench.log.take(), ["a", "b", "c"]);
}

#[test]
fn a_panic_ends_one_source_and_the_thread_sees_it_after_the_others_have_run() {
    let mut bench = Bench::grown();
    let tokens = bench.add_sources(3);
    bench.set("b", Deed::Panics);
    bench.deliver(tokens.iter().copied());
    let (task, _) = bench.next();
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| task.run()));
    assert!(panicked.is_err());
    assert_eq!(bench.log.take(), ["a", "b", "c"]);
    bench.driver.poll();
    let slots: Vec<_> = tokens
        .iter()
        .map(|token| bench.driver.reactor.contains(*token))
        .collect();
    assert_eq!((slots, bench.driver.away), (vec![true, false, true], 0));
}

#[test]
fn the_end_of_the_loop_closes_each_source_of_a_task_once() {
    let mut bench = Bench::grown();
    let tokens = bench.add_sources(4);
    bench.deliver(tokens);
    let (task, _) = bench.next();
    std::thread::scope(|scope| {
        let (go_on, running) = bench.run_until_blocked(scope, "b", task);
        drop(bench.log.take());
        assert!(!bench.driver.begin_shutdown(), "one is away");
        let mut closed = bench.log.take();
        closed.sort();
        assert_eq!(
            closed,
            ["a closes", "c closes", "d closes", "first closes"],
            "those that had run, and those that had not"
        );
        bench.driver.close();
        go_on.open();
        running.join().unwrap();
    });
    assert_eq!(bench.log.take(), ["b closes"], "on the thread that ran it");
}

#[test]
fn a_task_that_is_over_counts_as_an_arrival_for_a_loop_that_ends() {
    let mut bench = Bench::grown();
    let tokens = bench.add_sources(2);
    bench.deliver(tokens);
    let (task, _) = bench.next();
    task.run();
    assert!(bench.driver.begin_shutdown(), "all are back");
    let mut log = bench.log.take();
    log.sort();
    assert_eq!(log, ["a", "a closes", "b", "b closes", "first closes"]);
}

//! The dump of a pool: what it shows, that it never waits, and that its size is limited.

use std::thread;
use std::time::Duration;

use tidegate_core::{Dump, ManualClock, Task};
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_pool::{PoolLimits, WorkerPool};
use tidegate_testkit::{Counter, Gate, Log, explode, rounds, until};

use super::{builder, fixed, held, hold, hold_many, release};
use crate::SECOND;

fn count(dump: &Dump, key: &str) -> u64 {
    let value = dump.get(key).unwrap_or_else(|| panic!("{key} in {dump}"));
    value.as_count().unwrap()
}

fn text<'a>(dump: &'a Dump, key: &str) -> &'a str {
    let value = dump.get(key).unwrap_or_else(|| panic!("{key} in {dump}"));
    value.as_text().unwrap()
}

/// Asserts that a dump of an idle or held pool agrees with its metrics.
fn assert_agrees(pool: &WorkerPool) {
    let (dump, metrics) = (pool.dump(), pool.metrics());
    let pairs = [
        ("threads", metrics.threads as u64),
        ("idle", metrics.ready as u64),
        ("reserved", metrics.reserved as u64),
        ("core", metrics.limits.core as u64),
        ("max", metrics.limits.max as u64),
        ("queued", (metrics.queued - metrics.queued_internal) as u64),
        ("queued_internal", metrics.queued_internal as u64),
        ("queue_limit", metrics.limits.queue as u64),
        ("accepted", metrics.accepted),
        ("done", metrics.done),
        ("refused", metrics.refused),
        ("panics", metrics.panics),
    ];
    for (key, figure) in pairs {
        assert_eq!(count(&dump, key), figure, "{key} in {dump}");
    }
    let threads = dump.find("threads").unwrap();
    assert_eq!(threads.total(), metrics.threads as u64);
    let running = threads.children().iter();
    let running = running.filter(|one| text(one, "state") == "running");
    assert_eq!(running.count(), metrics.running.len());
}

#[test]
fn a_dump_shows_the_threads_with_their_jobs() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 3, 8).build().unwrap();
    release(&clock, hold_many(&pool, 3));
    let (task, arrived, go_on) = held("report");
    pool.execute_task(task).unwrap();
    arrived.wait();
    let lease = pool.lease("selectors", 1).unwrap();
    let dump = pool.dump();
    assert_eq!((dump.kind(), dump.name()), ("pool", "workers"));
    assert_eq!(text(&dump, "state"), "open");
    let threads = dump.find("threads").unwrap().children();
    assert_eq!(text(&threads[0], "task"), "report", "busy threads first");
    assert!(threads[0].name().starts_with("workers-"));
    assert!(threads[1..].iter().all(|one| text(one, "state") == "idle"));
    let lease_shown = &dump.find("leases").unwrap().children()[0];
    assert_eq!(
        (lease_shown.name(), count(lease_shown, "threads")),
        ("selectors", 1)
    );
    assert_agrees(&pool);
    drop(lease);
    release(&clock, vec![go_on]);
    assert_agrees(&pool);
}

#[test]
fn a_dump_says_how_long_a_job_has_run() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).measure_times().build().unwrap();
    clock.jump(SECOND);
    let gate = hold(&pool);
    clock.jump(3 * SECOND);
    let dump = pool.dump();
    let thread = &dump.find("threads").unwrap().children()[0];
    assert_eq!(thread.get("for"), Some(&(3 * SECOND).into()));
    release(&clock, vec![gate]);
}

#[test]
fn without_measured_times_a_dump_says_how_long_it_has_seen_the_same_job() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let gate = hold(&pool);
    let age = || {
        pool.dump().find("threads").unwrap().children()[0]
            .get("for_at_least")
            .cloned()
    };
    assert_eq!(age(), None, "the first dump that sees it");
    clock.jump(2 * SECOND);
    assert_eq!(age(), Some((2 * SECOND).into()));
    clock.jump(SECOND);
    assert_eq!(age(), Some((3 * SECOND).into()));
    release(&clock, vec![gate]);
    let gate = hold(&pool);
    assert_eq!(age(), None, "another job");
    release(&clock, vec![gate]);
}

#[test]
fn a_job_can_dump_its_own_pool() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let inner = pool.clone();
    let (log, told) = (Log::new(), Gate::new());
    let (heard, done) = (log.clone(), told.clone());
    let task = Task::named("look", move || {
        heard.push(inner.dump());
        done.open();
    });
    pool.execute_task(task).unwrap();
    told.wait();
    let dump = log.take().pop().unwrap();
    let thread = &dump.find("threads").unwrap().children()[0];
    assert_eq!(text(thread, "task"), "look");
}

/// A queue that blocks in `push`, under the lock of its pool, until a gate is opened.
struct Slow {
    list: JobList,
    arrived: Gate,
    go_on: Gate,
}

impl JobQueue for Slow {
    fn push(&mut self, job: Job) -> JobKey {
        self.arrived.open();
        self.go_on.wait();
        self.list.push_back(job)
    }
    fn pop(&mut self) -> Option<Popped> {
        self.list.pop_front().map(Popped::Run)
    }
    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.list.remove(key)
    }
}

#[test]
fn a_dump_does_not_wait_for_the_lock_of_the_pool() {
    let clock = ManualClock::new();
    let (arrived, go_on) = (Gate::new(), Gate::new());
    let queue = Slow {
        list: JobList::default(),
        arrived: arrived.clone(),
        go_on: go_on.clone(),
    };
    let pool = fixed(&clock, 1, 8).queue_of(queue).build().unwrap();
    let gate = hold(&pool);
    thread::scope(|scope| {
        scope.spawn(|| pool.execute(|| ()).unwrap());
        arrived.wait();
        let dump = pool.dump();
        assert!(dump.get("not_shown").is_some(), "{dump}");
        assert_eq!((count(&dump, "threads"), count(&dump, "queued")), (1, 0));
        let thread = &dump.find("threads").unwrap().children()[0];
        assert_eq!(text(thread, "task"), "held");
        go_on.open();
    });
    release(&clock, vec![gate]);
    assert_agrees(&pool);
}

#[test]
fn the_size_of_a_dump_does_not_grow_with_the_pool() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(0).max(120).queue(20_000).reserved(0);
    let pool = pool.build().unwrap();
    let gates = hold_many(&pool, 120);
    for _ in 0..10_000 {
        pool.execute(|| ()).unwrap();
    }
    let dump = pool.dump();
    assert_eq!(count(&dump, "queued"), 10_000);
    let threads = dump.find("threads").unwrap();
    assert_eq!((threads.children().len(), threads.left_out()), (100, 20));
    let text = dump.to_string();
    assert!(text.contains("and 20 more") && text.len() < 32 * 1024);
    release(&clock, gates);
}

#[test]
fn a_dump_after_the_shutdown_shows_the_end() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 8).build().unwrap();
    let gate = hold(&pool);
    let ended = pool.shutdown(SECOND);
    assert_eq!(text(&pool.dump(), "state"), "shutting down");
    gate.open();
    ended.wait().unwrap();
    let dump = pool.dump();
    assert_eq!(text(&dump, "state"), "ended");
    assert_eq!(dump.find("threads").unwrap().total(), 0);
}

/// Threads, jobs, leases and limits come and go, and jobs panic, while others dump. The last dump
/// agrees with the metrics.
#[test]
fn dumps_under_load_are_whole_and_the_last_agrees_with_the_metrics() {
    let pool = WorkerPool::builder("workers")
        .core(0)
        .max(4)
        .queue(64)
        .keep_alive(Duration::from_nanos(1))
        .on_unhandled(|_, _| ())
        .build()
        .unwrap();
    let (rounds, ran) = (rounds(400), Counter::new());
    thread::scope(|scope| {
        for submitter in 0..2 {
            let (pool, ran) = (&pool, ran.clone());
            scope.spawn(move || {
                for round in 0..rounds {
                    let ran = ran.clone();
                    let accepted = pool.execute_task(Task::named("work", move || {
                        ran.hit();
                        if (round + submitter) % 16 == 0 {
                            explode();
                        }
                    }));
                    drop(accepted);
                }
            });
        }
        scope.spawn(|| {
            for round in 0..rounds {
                let max = 1 + round % 4;
                let _ = pool.resize(PoolLimits {
                    max,
                    ..pool.limits()
                });
                drop(pool.lease("selectors", 1));
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let dump = pool.dump();
                    assert!(dump.find("threads").unwrap().total() <= 8, "{dump}");
                    assert!(dump.to_string().len() < 8 * 1024);
                }
            });
        }
    });
    until("the pool is idle", || {
        let metrics = pool.metrics();
        metrics.done == metrics.accepted && metrics.queued == 0 && metrics.threads == 0
    });
    assert!(pool.metrics().panics > 0 && ran.count() > 0);
    assert_agrees(&pool);
}

//! Loops and groups that end at random moments, some of them stuck in a task, while several threads
//! submit, take back and run what was handed back: each closure runs or is dropped, once, and each
//! waiter hears of it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_core::internal::contain;
use tidegate_core::{ManualClock, Task};
use tidegate_loop::{EventLoop, EventLoopGroup, Placement, Quiet, RoamingConfig};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Gate, Rng, Tally, explode, model, rounds, until, yield_times};

use crate::SECOND;

/// Returns a closure that counts its run and its drop, and seldom sticks or panics.
pub(crate) fn closure(rng: &mut Rng, tally: &Tally, stuck: &Gate) -> impl FnOnce() + Send + use<> {
    let (counted, stuck) = (tally.closure(rng.below(3)), stuck.clone());
    let (sticks, panics) = (rng.chance(0.02), rng.chance(0.05));
    move || {
        if sticks {
            stuck.wait();
        }
        counted();
        if panics {
            explode();
        }
    }
}

/// Runs or drops what was handed back.
pub(crate) fn settle(tasks: Vec<Task>, runs: bool) {
    for task in tasks {
        match runs {
            // The panic of a task without a completion is that of its thread.
            true => drop(contain(|| task.run())),
            false => drop(task),
        }
    }
}

/// What one thread does with the group.
pub(crate) fn submit<P: Placement>(
    rng: &mut Rng,
    group: &EventLoopGroup<P>,
    tally: &Tally,
    stuck: &Gate,
) {
    let loops: Vec<EventLoop<P>> = group.iter().cloned().collect();
    for _ in 0..60 {
        let home = &loops[rng.index(loops.len())];
        let run = closure(rng, tally, stuck);
        let after = Duration::from_nanos(rng.below(3));
        let completion = match rng.below(4) {
            0 => home.execute(run).map(|()| None).ok(),
            1 => home.submit(run).map(Some).ok(),
            2 => home.schedule(after, run).map(Some).ok(),
            _ => group.submit(run).map(Some).ok(),
        };
        if let Some(Some(completion)) = completion {
            let listener = tally.listener();
            completion.finally(move |_| listener());
        }
        if rng.chance(0.1) {
            let from = match rng.chance(0.5) {
                true => group.handed_back(),
                false => home.handed_back(),
            };
            settle(from.take(), rng.chance(0.5));
        }
    }
}

/// Ends the group in every way while it is used.
fn ends<P: Placement>(rng: &mut Rng, clock: &ManualClock, group: EventLoopGroup<P>) {
    let (tally, stuck) = (Tally::new(), Gate::new());
    let quiet = Quiet::none([Duration::ZERO, SECOND][rng.index(2)]);
    let (way, pause, runs) = (rng.below(3), rng.below(150), rng.chance(0.5));
    thread::scope(|scope| {
        for _ in 0..3 {
            let (mut mine, group) = (rng.fork(), &group);
            let (tally, stuck) = (&tally, &stuck);
            scope.spawn(move || submit(&mut mine, group, tally, stuck));
        }
        yield_times(pause);
        match way {
            0 => drop(group.shutdown(quiet)),
            1 => group.iter().for_each(|one| drop(one.shutdown(quiet))),
            _ => {}
        }
        clock.jump(2 * SECOND);
        // A submitter may run a stuck task that it took.
        stuck.open();
    });
    let over = group.shutdown(quiet);
    until("each closure has ended", || {
        clock.jump(SECOND);
        let lists = group.iter().map(EventLoop::handed_back);
        lists.for_each(|list| settle(list.take(), runs));
        over.is_done() && tally.has_dropped_all()
    });
    assert!(group.handed_back().is_empty());
    drop((over, group));
    tally.wait_until_heard();
}

#[test]
fn pinned_loops_run_or_hand_back_each_task_once() {
    model(0..rounds(20) as u64, |rng| {
        let clock = ManualClock::new();
        let group = EventLoopGroup::builder("io").clock(&clock);
        let group = group.loops(1 + rng.index(3)).on_unhandled(|_, _| ());
        ends(rng, &clock, group.build().unwrap());
    });
}

#[test]
fn roaming_loops_run_or_hand_back_each_task_once() {
    model(0..rounds(20) as u64, |rng| {
        let clock = ManualClock::new();
        let pool = WorkerPool::builder("workers").clock(&clock).core(4).max(6);
        let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
        let group = EventLoopGroup::builder("io").clock(&clock);
        let group = group.loops(1 + rng.index(2)).on_unhandled(|_, _| ());
        let group = group.build_roaming(&RoamingConfig::new(Arc::new(pool.clone())));
        ends(rng, &clock, group.unwrap());
        drop(pool.shutdown(Duration::ZERO));
        until("the pool has ended", || {
            settle(pool.handed_back().take(), true);
            pool.termination().is_done()
        });
    });
}

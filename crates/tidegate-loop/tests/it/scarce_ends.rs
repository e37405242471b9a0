//! Loops of every strategy, over a pool whose threads become scarce and free again under load, so
//! that the strategies change their mode, while loops and pool end in any order. What is handed back
//! is taken, or nobody takes it: each closure runs or is dropped, once, and each waiter hears of it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_loop::{EventLoop, EventLoopGroup, Quiet, Roaming};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Gate, Rng, Tally, model, rounds, until, yield_times};

use crate::SECOND;
use crate::hostile_ends::{settle, submit};
use crate::strategies::KINDS;

/// Holds threads of the pool for a while, and looks at everything.
fn disturb(rng: &mut Rng, pool: &WorkerPool, group: &EventLoopGroup<Roaming>, clock: &ManualClock) {
    for _ in 0..8 {
        let free = Gate::new();
        for _ in 0..rng.below(4) {
            drop(pool.execute(free.waits()));
        }
        yield_times(rng.below(5));
        match rng.below(4) {
            0 => assert!(group.dump_within(Duration::ZERO).to_string().contains("io")),
            1 => assert!(pool.dump().to_string().contains("workers")),
            2 => group.iter().for_each(|one| one.strategy().reset_metrics()),
            _ => group.iter().for_each(|one| {
                let _ = one.strategy().metrics();
            }),
        }
        clock.jump(Duration::from_millis(rng.below(3)));
        free.open();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Group,
    PoolThenGroup,
    GroupThenPool,
    Pool,
    ByHandles,
}

const ENDS: [End; 5] = [
    End::Group,
    End::PoolThenGroup,
    End::GroupThenPool,
    End::Pool,
    End::ByHandles,
];

fn end_both(end: End, group: &EventLoopGroup<Roaming>, pool: &WorkerPool, limit: Duration) {
    let group = || drop(group.shutdown(Quiet::none(limit)));
    let pool = || drop(pool.shutdown(limit));
    match end {
        End::Group => group(),
        End::PoolThenGroup => {
            pool();
            group();
        }
        End::GroupThenPool => {
            group();
            pool();
        }
        End::Pool => pool(),
        End::ByHandles => {}
    }
}

fn round(rng: &mut Rng) {
    let (clock, tally, stuck) = (ManualClock::new(), Tally::new(), Gate::new());
    let threads = 2 + rng.index(3);
    let pool = WorkerPool::builder("workers").clock(&clock).core(threads);
    let pool = pool.max(threads).queue(8).reserved(rng.index(2));
    let pool = Arc::new(pool.on_unhandled(|_, _| ()).build().unwrap());
    let (kind, end) = (KINDS[rng.index(KINDS.len())], ENDS[rng.index(ENDS.len())]);
    let config = kind.config(Arc::clone(&pool) as _);
    let group = EventLoopGroup::builder("io").clock(&clock).loops(1);
    let group = group
        .on_unhandled(|_, _| ())
        .build_roaming(&config)
        .unwrap();
    drop(config);
    let (limit, pause) = ([Duration::ZERO, SECOND][rng.index(2)], rng.below(30));
    let (leaves, runs) = (rng.chance(0.5), rng.chance(0.5));
    println!("{kind:?}, {end:?} in {limit:?}, leaves {leaves}");
    thread::scope(|scope| {
        for _ in 0..2 {
            let (mut mine, group) = (rng.fork(), &group);
            let (tally, stuck) = (&tally, &stuck);
            scope.spawn(move || submit(&mut mine, group, tally, stuck));
        }
        let (mut mine, clock) = (rng.fork(), &clock);
        let (pool, group) = (&*pool, &group);
        scope.spawn(move || disturb(&mut mine, pool, group, clock));
        yield_times(pause);
        end_both(end, group, pool, limit);
        clock.jump(2 * SECOND);
        stuck.open();
    });
    let mut kept = Some((group, pool));
    if leaves {
        kept = None;
    }
    until("each closure has ended", || {
        clock.jump(SECOND);
        if let Some((group, pool)) = &kept {
            let lists = group.iter().map(EventLoop::handed_back);
            lists.for_each(|list| settle(list.take(), runs));
            settle(pool.handed_back().take(), true);
            // Ends what has not ended yet.
            end_both(End::GroupThenPool, group, pool, SECOND);
        }
        tally.has_dropped_all()
    });
    drop(kept);
    tally.wait_until_heard();
}

#[test]
fn each_task_ends_once_under_every_strategy_and_end() {
    model(0..rounds(24) as u64, round);
}

//! Views over pools of every policy, against shutdown, dropped handles and each other: each closure
//! that was accepted runs or is dropped, once, and each waiter hears of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::{Executor, Task};
use tidegate_pool::{OrderedView, PoolPolicy, WorkerPool};
use tidegate_testkit::{Gate, Rng, Tally, model, until, yield_times};

use crate::SECOND;

fn policy(rng: &mut Rng) -> PoolPolicy {
    match rng.below(6) {
        0 => PoolPolicy::Fail,
        1 => PoolPolicy::CallerRuns,
        2 => PoolPolicy::DropOldest,
        3 => PoolPolicy::Backoff {
            attempts: 2,
            pause: Duration::from_nanos(1),
        },
        4 => PoolPolicy::With(Arc::new(|refused| {
            drop(refused);
            Ok(())
        })),
        _ => PoolPolicy::With(Arc::new(|refused| {
            refused.into_inner().run();
            Ok(())
        })),
    }
}

/// What one thread does with the pool and its views.
fn disturb(rng: &mut Rng, pool: &WorkerPool, views: &[OrderedView], tally: &Tally) {
    for _ in 0..150 {
        let view = &views[rng.index(views.len())];
        let inner = rng.chance(0.1).then(|| view.clone());
        let counted = tally.closure(rng.below(4));
        let run = move || {
            if let Some(view) = inner {
                let _ = view.execute(|| ());
            }
            counted();
        };
        let after = Duration::from_nanos(rng.below(20_000));
        let completion = match rng.below(5) {
            0 => pool.execute(run).map(|()| None).ok(),
            1 => view.execute(run).map(|()| None).ok(),
            2 => pool.schedule(after, run).map(Some).ok(),
            3 => view.schedule(after, run).map(Some).ok(),
            _ => Executor::offer_task(view, Task::new(run))
                .map(|()| None)
                .ok(),
        };
        let Some(Some(completion)) = completion else {
            continue;
        };
        let listener = tally.listener();
        match rng.below(4) {
            0 => {
                completion.cancel();
                listener();
            }
            _ => completion.finally(move |_| listener()),
        }
    }
}

#[test]
fn whatever_the_policy_each_closure_ends_once_and_each_listener_is_called() {
    model(0..40, |rng| {
        let pool = WorkerPool::builder("workers").core(2).max(2);
        let pool = pool.queue(1 + rng.index(6)).reserved(0).policy(policy(rng));
        let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
        let views: Vec<_> = (0..3)
            .map(|_| {
                let view = OrderedView::builder(Arc::new(pool.clone()));
                let view = view.bound(16 + rng.index(32));
                let view = view.max_tasks_per_turn(1 + rng.index(4));
                view.build().unwrap()
            })
            .collect();
        let (tally, go) = (Tally::new(), Gate::new());
        let (ends_early, patient) = (rng.chance(0.5), rng.chance(0.5));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (mut mine, pool, views) = (rng.fork(), &pool, &views);
                let (tally, go) = (&tally, &go);
                scope.spawn(move || {
                    go.wait();
                    disturb(&mut mine, pool, views, tally);
                });
            }
            go.open();
            if ends_early {
                yield_times(rng.below(200));
                drop(pool.shutdown(if patient { 60 * SECOND } else { Duration::ZERO }));
            }
        });
        let ended = pool.shutdown(60 * SECOND);
        let report = ended.wait().unwrap();
        let runs = rng.chance(0.5);
        let take = |tasks: Vec<Task>| {
            for task in tasks {
                match runs {
                    true => task.run(),
                    false => drop(task),
                }
            }
        };
        // A turn that runs at the end hands back after the report.
        until("each closure has ended", || {
            take(report.handed_back.take());
            views
                .iter()
                .for_each(|view| take(view.handed_back().take()));
            tally.has_dropped_all()
        });
        drop((report, ended, pool, views));
        tally.wait_until_heard();
    });
}

/// Threads wait for tasks of a view while the pool ends in every way; none of them waits for ever.
#[test]
fn threads_that_wait_for_tasks_of_views_all_return() {
    model(0..40, |rng| {
        let pool = WorkerPool::builder("workers").core(2).max(2).queue(4);
        let pool = pool.reserved(0).policy(policy(rng)).on_unhandled(|_, _| ());
        let pool = pool.build().unwrap();
        let view = OrderedView::builder(Arc::new(pool.clone()));
        let view = view.max_tasks_per_turn(1 + rng.index(3)).build().unwrap();
        let returned = Arc::new(AtomicUsize::new(0));
        let zero = rng.chance(0.5);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (view, returned, mut mine) = (&view, &returned, rng.fork());
                scope.spawn(move || {
                    for _ in 0..30 {
                        let rounds = mine.below(3);
                        let after = Duration::from_nanos(mine.below(3_000));
                        let Ok(waits) = view.schedule(after, move || yield_times(rounds)) else {
                            break;
                        };
                        let _ = waits.wait();
                    }
                    returned.fetch_add(1, Ordering::SeqCst);
                });
            }
            yield_times(rng.below(300));
            drop(pool.shutdown(if zero { Duration::ZERO } else { 60 * SECOND }));
        });
        assert_eq!(returned.load(Ordering::SeqCst), 3);
        pool.termination().wait().unwrap();
    });
}

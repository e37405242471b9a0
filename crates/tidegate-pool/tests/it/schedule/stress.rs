//! Schedules, cancels, jobs and the end against each other, from many threads.

use std::thread;
use std::time::Duration;

use tidegate_core::Task;
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Counter, Rng, rounds, spin_times, until};

use super::view_of;

#[test]
fn each_task_runs_is_cancelled_refused_or_handed_back_exactly_once() {
    for seed in 0..rounds(20) as u64 {
        let pool = WorkerPool::builder("workers").core(2).max(2).queue(16);
        let pool = pool.report_to(super::heard().0).build().unwrap();
        let view = view_of(&pool);
        let (scheduled, ran, ended) = (Counter::new(), Counter::new(), Counter::new());
        thread::scope(|scope| {
            for number in 0..3 {
                let (pool, view) = (&pool, &view);
                let (scheduled, ran, ended) = (&scheduled, &ran, &ended);
                scope.spawn(move || {
                    let mut random = Rng::new(seed * 3 + number);
                    for _ in 0..200 {
                        let after = Duration::from_nanos(random.below(50_000));
                        let run = ran.hits();
                        let task = match random.below(2) {
                            0 => pool.schedule(after, run),
                            _ => view.schedule(after, run),
                        };
                        let Ok(task) = task else { continue };
                        scheduled.hit();
                        if random.below(3) == 0 {
                            task.cancel();
                        }
                        let count = ended.clone();
                        task.finally(move |_| count.note());
                    }
                });
            }
            let pool = &pool;
            scope.spawn(move || {
                let mut random = Rng::new(seed);
                spin_times(random.below(2_000));
                if seed % 2 == 0 {
                    drop(pool.shutdown(Duration::from_nanos(random.below(100_000))));
                }
            });
        });
        let report = pool.shutdown(Duration::from_secs(60)).wait().unwrap();
        // A turn that runs at the end hands back after the report.
        until("each task has ended", || {
            report.handed_back.take().into_iter().for_each(Task::run);
            view.handed_back().take().into_iter().for_each(Task::run);
            ended.count() >= scheduled.count()
        });
        assert_eq!(ended.count(), scheduled.count(), "seed {seed}");
        assert!(ran.count() <= scheduled.count(), "seed {seed}");
    }
}

#[test]
fn periodic_tasks_end_with_their_pool_however_it_ends() {
    for seed in 0..rounds(30) as u64 {
        let pool = WorkerPool::builder("workers").core(2).max(2).queue(4);
        let pool = pool.report_to(super::heard().0).build().unwrap();
        let view = view_of(&pool);
        let mut random = Rng::new(seed);
        let (ended, runs) = (Counter::new(), Counter::new());
        let tasks = 12;
        for number in 0..tasks {
            let period = Duration::from_nanos(1 + random.below(20_000));
            let run = runs.hits();
            let task = match number % 4 {
                0 => pool.schedule_at_fixed_rate(Duration::ZERO, period, run),
                1 => pool.schedule_with_fixed_delay(Duration::ZERO, period, run),
                2 => view.schedule_at_fixed_rate(Duration::ZERO, period, run),
                _ => view.schedule_with_fixed_delay(Duration::ZERO, period, run),
            };
            let count = ended.clone();
            task.unwrap().finally(move |_| count.note());
        }
        runs.wait_for(1 + random.below(50));
        let timeout = match random.below(2) {
            0 => Duration::ZERO,
            _ => Duration::from_secs(60),
        };
        let report = pool.shutdown(timeout).wait().unwrap();
        let left = report.handed_back.take();
        let viewed = view.handed_back().take();
        match random.below(2) {
            0 => drop((left, viewed)),
            _ => left.into_iter().chain(viewed).for_each(Task::run),
        }
        drop((pool, view, report));
        ended.wait_for(tasks);
        assert_eq!(ended.count(), tasks, "seed {seed}");
    }
}

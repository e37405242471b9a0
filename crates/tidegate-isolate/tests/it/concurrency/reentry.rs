//! Parts of the program that use the isolation from inside: in the strategy, in a thread factory, and
//! in the `Drop` of a queue. Nothing hangs, and each call ends once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tidegate_core::thread::ThreadJob;
use tidegate_core::{Rejected, ThreadBuilder};
use tidegate_isolate::{
    Bulkhead, Cause, ConcurrencyStrategy, Interrupt, Isolation, Key, Rejection,
};
use tidegate_pool::WorkerPool;
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_testkit::{Counter, DropCount, Gate, Log, explode, until};

use super::{others_go_on, queue_up};
use crate::support::{
    Answer, Numbers, SECOND, builder, cause, hold, isolated, made, pool_of, with_handle,
};

/// The isolation, for parts that use it.
type Cell = Arc<OnceLock<Isolation>>;

/// Uses everything of the isolation that does not wait for a call.
fn use_all(cell: &Cell) {
    let Some(isolation) = cell.get() else { return };
    let _ = (isolation.dump().to_string(), isolation.snapshots());
    let _ = (isolation.pool_snapshots(), isolation.settings());
    let _ = (isolation.reclaim(), isolation.pool("a"), isolation.len());
    isolation.reset_breaker("a");
    let fresh = builder("fresh").build(isolation).unwrap();
    assert_eq!(fresh.run(|_| Ok(1)), Ok(1));
    fresh.configure(|c| c.fallback_permits = 3).unwrap();
    isolation.remove("fresh");
}

/// A queue that uses the isolation in its `Drop`.
struct Uses {
    calls: JobList,
    cell: Cell,
    drops: Option<DropCount>,
    panics: bool,
}

impl Uses {
    fn new(cell: &Cell, drops: &Counter) -> Self {
        Self {
            calls: JobList::default(),
            cell: Arc::clone(cell),
            drops: Some(DropCount::new(drops)),
            panics: false,
        }
    }
}

impl JobQueue for Uses {
    fn push(&mut self, call: Job) -> JobKey {
        self.calls.push_back(call)
    }

    fn pop(&mut self) -> Option<Popped> {
        self.calls.pop_front().map(Popped::Run)
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.calls.remove(key)
    }
}

impl Drop for Uses {
    fn drop(&mut self) {
        use_all(&self.cell);
        drop(self.drops.take());
        if self.panics && !std::thread::panicking() {
            explode();
        }
    }
}

/// Runs `test` on a thread of its own, and fails if it does not come back.
fn in_time(what: &str, test: impl FnOnce() + Send + 'static) {
    let done = std::thread::Builder::new().spawn(test).unwrap();
    until(&format!("{what} has come back"), || done.is_finished());
    done.join().unwrap();
}

fn built(
    cell: &Cell,
    strategy: impl Fn(&Key) -> ConcurrencyStrategy + Send + Sync + 'static,
) -> Isolation {
    let isolation = isolated(|i| i.on_unhandled(|_, _| ()).concurrency_strategy(strategy));
    cell.set(isolation.clone()).unwrap();
    isolation
}

#[test]
fn a_queue_may_use_the_isolation_in_its_drop() {
    for panics in [false, true] {
        in_time("the queue", move || {
            let (cell, drops) = (Cell::default(), Counter::new());
            let (inner, count) = (Arc::clone(&cell), drops.clone());
            let isolation = built(&cell, move |pool| match &**pool {
                "a" => {
                    let mut queue = Uses::new(&inner, &count);
                    queue.panics = panics;
                    ConcurrencyStrategy::default().queue(queue)
                }
                _ => ConcurrencyStrategy::default(),
            });
            let command = made(builder("a").threads(pool_of(1, 9)).no_timeout(), &isolation);
            let (go_on, log) = (Gate::new(), Log::new());
            let held = hold(&command, &go_on);
            let answers = queue_up(&command, &log, 0..4);
            let leaves = command.queue(|_| panic!("must not run"));
            assert!(leaves.cancel());
            go_on.open();
            held.wait().unwrap();
            for answer in answers {
                answer.wait().unwrap();
            }
            log.assert_order(&[0, 1, 2, 3]);
            assert!(isolation.remove("a"));
            assert_eq!(command.run(|_| Ok(5)), Ok(5));
            drop(command);
            drops.wait_for(1);
            others_go_on(&isolation);
        });
    }
}

#[test]
fn the_parts_of_a_pool_that_is_refused_are_dropped_without_a_lock() {
    in_time("the refused build", || {
        let (cell, drops) = (Cell::default(), Counter::new());
        let (inner, count) = (Arc::clone(&cell), drops.clone());
        let isolation = built(&cell, move |pool| match &**pool {
            "a" => ConcurrencyStrategy::default().queue(Uses::new(&inner, &count)),
            _ => ConcurrencyStrategy::default(),
        });
        for config in [
            pool_of(usize::MAX, 1),
            pool_of(1_000_000, 1),
            pool_of(1, usize::MAX),
            pool_of(0, 0),
        ] {
            let command = builder("a").threads(config).build(&isolation);
            drop(command);
            isolation.remove("a");
            others_go_on(&isolation);
        }
        let permits = builder("a").build(&isolation).unwrap();
        let wrong = permits.configure(|c| {
            (c.bulkhead, c.pool) = (Bulkhead::Threads, pool_of(usize::MAX, 1));
        });
        assert!(wrong.is_err());
        assert_eq!(permits.run(|_| Ok(1)), Ok(1), "the old settings stay");
        others_go_on(&isolation);
    });
}

/// What a strategy does with the isolation while it is asked for parts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Inside {
    Uses,
    Removes,
    Configures,
    ShutsDown,
    BuildsItself,
}

#[test]
fn a_strategy_may_change_the_isolation_while_it_is_asked() {
    for inside in [
        Inside::Uses,
        Inside::Removes,
        Inside::Configures,
        Inside::ShutsDown,
        Inside::BuildsItself,
    ] {
        for live in [false, true] {
            in_time(&format!("{inside:?}"), move || {
                let (cell, asked) = (Cell::default(), Arc::new(AtomicUsize::new(0)));
                let mine = Arc::<Mutex<Option<Numbers>>>::default();
                let (inner, count, own) = (
                    Arc::downgrade(&cell),
                    Arc::clone(&asked),
                    Arc::downgrade(&mine),
                );
                let isolation = built(&cell, move |_| {
                    let first = count.fetch_add(1, Ordering::SeqCst) == 0;
                    let inner = inner.upgrade().unwrap();
                    let isolation = inner.get().unwrap();
                    let own = own.upgrade().unwrap().lock().unwrap().clone();
                    match inside {
                        Inside::Uses => use_all(&inner),
                        Inside::Removes => {
                            isolation.remove("a");
                        }
                        Inside::Configures => {
                            if let Some(own) = own {
                                own.configure(|c| c.fallback_permits = 7).unwrap();
                            }
                        }
                        Inside::ShutsDown => drop(isolation.shutdown(SECOND)),
                        Inside::BuildsItself if first => {
                            let same = builder("a").threads(pool_of(1, 5)).no_timeout();
                            let _ = same.build(isolation);
                        }
                        Inside::BuildsItself => {}
                    }
                    ConcurrencyStrategy::default()
                });
                let command = match live {
                    true => {
                        let command = builder("a").no_timeout().build(&isolation).unwrap();
                        *mine.lock().unwrap() = Some(command.clone());
                        let changed = command.configure(|c| {
                            (c.bulkhead, c.pool) = (Bulkhead::Threads, pool_of(1, 5));
                        });
                        changed.map(|()| command)
                    }
                    false => builder("a")
                        .threads(pool_of(1, 5))
                        .no_timeout()
                        .build(&isolation),
                };
                match (inside, command) {
                    (Inside::ShutsDown, Ok(command)) => {
                        let refused = command.run(|_| Ok(1)).unwrap_err();
                        assert_eq!(refused.cause(), &Cause::Rejected(Rejection::Closed));
                    }
                    (_, Ok(command)) => {
                        assert_eq!(command.run(|_| Ok(1)), Ok(1), "{inside:?} {live}");
                        if let (Inside::Configures, true) = (inside, live) {
                            assert_eq!(command.config().fallback_permits, 7);
                        }
                    }
                    (_, Err(error)) => panic!("{inside:?} {live}: {error}"),
                }
                drop(mine.lock().unwrap().take());
                let ended = isolation.shutdown(SECOND).wait().unwrap();
                assert!(ended.is_clean(), "{ended}");
            });
        }
    }
}

/// Starts threads, and ends the isolation on the way.
#[test]
fn a_factory_may_end_the_isolation_while_it_is_asked_for_a_thread() {
    in_time("the factory", || {
        let cell = Cell::default();
        let inner = Arc::downgrade(&cell);
        let isolation = built(&cell, move |_| {
            let cell = inner.clone();
            let spawn = move |job: ThreadJob| {
                let cell = cell.upgrade().unwrap();
                let isolation = cell.get().unwrap();
                let _ = isolation.dump();
                isolation.remove("a");
                drop(isolation.shutdown(SECOND));
                std::thread::Builder::new().spawn(|| job.run()).map(drop)
            };
            let threads = ThreadBuilder::new("own").spawner(spawn);
            ConcurrencyStrategy::default().threads(threads)
        });
        let command = made(builder("a").threads(pool_of(2, 2)).no_timeout(), &isolation);
        let first = command.run(|_| Ok(1));
        let is_closed = first
            .as_ref()
            .is_err_and(|error| error.cause() == &Cause::Rejected(Rejection::Closed));
        assert!(first == Ok(1) || is_closed, "{first:?}");
        assert!(command.run(|_| Ok(2)).is_err(), "it has ended");
        isolation.shutdown(SECOND).wait().unwrap();
    });
}

/// The bulkhead changes while calls come, wait, leave and end. Each call has one outcome.
#[test]
fn calls_end_once_while_the_bulkhead_changes_and_keys_go() {
    in_time("the changes", || {
        let (cell, drops) = (Cell::default(), Counter::new());
        let (inner, count) = (Arc::clone(&cell), drops.clone());
        let isolation = built(&cell, move |pool| match &**pool {
            "a" => ConcurrencyStrategy::default().queue(Uses::new(&inner, &count)),
            _ => ConcurrencyStrategy::default(),
        });
        let command = made(
            builder("a").threads(pool_of(2, 50)).no_timeout(),
            &isolation,
        );
        let (ran, made, ended) = (Counter::new(), Counter::new(), Counter::new());
        let (good, stop) = (Counter::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for caller in 0..3_u32 {
                let (command, isolation) = (&command, &isolation);
                let (ran, made, ended, good) = (&ran, &made, &ended, &good);
                scope.spawn(move || {
                    for n in 0..60_u32 {
                        let runs = ran.clone();
                        let (call, handle) = with_handle(command.call());
                        made.hit();
                        let answer = call.queue(move |_| {
                            runs.hit();
                            Ok(n)
                        });
                        if n % 7 == caller {
                            handle.cancel(Interrupt::Yes);
                        }
                        let (ends, goods) = (ended.clone(), good.clone());
                        answer.on_complete(move |outcome| {
                            ends.hit();
                            if outcome.is_success() {
                                goods.hit();
                            }
                        });
                        if n % 10 == 9 {
                            let _ = isolation.dump().to_string();
                        }
                    }
                });
            }
            let (command, isolation, stop) = (&command, &isolation, &stop);
            let changes = scope.spawn(move || {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    let to = match round % 2 {
                        0 => Bulkhead::Threads,
                        _ => Bulkhead::Permits,
                    };
                    command.configure(|c| c.bulkhead = to).unwrap();
                    if round == 5 {
                        assert!(isolation.remove("a"));
                    }
                    tidegate_testkit::yield_times(20);
                }
            });
            ended.wait_for(180);
            stop.store(true, Ordering::Relaxed);
            changes.join().unwrap();
        });
        assert_eq!((made.count(), ended.count()), (180, 180));
        assert!(ran.count() >= good.count());
        let report = isolation.shutdown(60 * SECOND).wait().unwrap();
        assert!(report.is_clean(), "{report}");
        assert_eq!(command.snapshot().active, 0);
        drop((command, isolation));
    });
}

/// Refuses every second task, on a pool that is shut down in between.
#[test]
fn an_executor_that_ends_first_rejects_and_nothing_hangs() {
    in_time("the executor's end", || {
        let shared = WorkerPool::builder("shared")
            .core(2)
            .max(2)
            .build()
            .unwrap();
        let lent = shared.clone();
        let isolation = isolated(|i| {
            i.on_unhandled(|_, _| ()).concurrency_strategy(move |_| {
                let (lent, odd) = (lent.clone(), AtomicBool::new(false));
                ConcurrencyStrategy::default().executor(move |task| {
                    match odd.fetch_xor(true, Ordering::Relaxed) {
                        true => Err(Rejected::new(task, tidegate_core::RejectReason::Full)),
                        false => lent.execute_task(task),
                    }
                })
            })
        });
        let command = made(
            builder("a").threads(pool_of(2, 20)).no_timeout(),
            &isolation,
        );
        let (ran, go_on) = (Counter::new(), Gate::new());
        let held = hold(&command, &go_on);
        let answers: Vec<Answer> = (0..10)
            .map(|n| {
                let runs = ran.clone();
                command.queue(move |_| {
                    runs.hit();
                    Ok(n)
                })
            })
            .collect();
        let over = shared.shutdown(60 * SECOND);
        go_on.open();
        held.wait().unwrap();
        let good = answers.into_iter().filter(|_| true).map(|one| one.wait());
        let good = good.filter(Result::is_ok).count() as u64;
        assert_eq!(ran.count(), good, "each ran and succeeded, or neither");
        over.wait().unwrap();
        assert_eq!(
            cause(command.queue(|_| Ok(1))),
            Cause::Rejected(Rejection::NoThread)
        );
        let report = isolation.shutdown(60 * SECOND).wait().unwrap();
        assert!(report.is_clean(), "{report}");
    });
}

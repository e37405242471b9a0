//! Thread factories and executors of the user's own that misbehave at random, under submitters,
//! resizes, ordered views and schedules, against every end of the pool: each closure that was
//! accepted runs or is dropped, once, and each waiter hears of it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate_core::thread::ThreadJob;
use tidegate_core::{ManualClock, RejectReason, Rejected, Task, ThreadBuilder};
use tidegate_pool::{DisplacedError, OrderedView, PoolPolicy, WorkerPool};
use tidegate_testkit::{
    Bomb, Counter, DropCount, Gate, Rng, Tally, explode, model, rounds, until, yield_times,
};

use super::fixed;
use crate::{SECOND, hits};

/// The pool that the parts use, as long as there is one.
type Cell = Arc<Mutex<Option<WorkerPool>>>;

/// Uses the pool as a part must not, or as it may.
fn use_pool(rng: &mut Rng, cell: &Cell) {
    let Some(pool) = cell.lock().unwrap().clone() else {
        return;
    };
    match rng.below(7) {
        0 => drop(pool.execute(|| ())),
        1 => assert!(!pool.dump().to_string().is_empty()),
        2 => drop(pool.enqueue(Task::new(|| ())).map(|job| job.remove())),
        3 => drop(pool.resize(pool.limits())),
        4 => drop(pool.schedule(Duration::from_nanos(1), || ())),
        5 => drop(pool.try_execute(Task::new(|| ()))),
        _ => assert!(pool.metrics().limits.max > 0),
    }
}

/// A thread factory or an executor that mostly runs what it gets, and otherwise does anything else.
struct ChaosThreads<T> {
    rng: Mutex<Rng>,
    kept: Mutex<Vec<T>>,
    /// It accepts nothing any more.
    is_over: AtomicBool,
    cell: Cell,
    run: fn(T),
}

impl<T: Send + 'static> ChaosThreads<T> {
    fn new(rng: &mut Rng, cell: &Cell, run: fn(T)) -> Arc<Self> {
        Arc::new(Self {
            rng: Mutex::new(rng.fork()),
            kept: Mutex::default(),
            is_over: AtomicBool::new(false),
            cell: Arc::clone(cell),
            run,
        })
    }

    fn start(&self, work: T) -> Result<(), T> {
        let run = self.run;
        let started = thread::Builder::new().spawn(move || run(work));
        assert!(started.is_ok());
        Ok(())
    }

    /// Accepts the work, or returns it, or neither.
    fn accept(&self, work: T) -> Result<(), Option<T>> {
        let mut rng = self.rng.lock().unwrap().fork();
        if self.is_over.load(Ordering::SeqCst) {
            return Err(Some(work));
        }
        match rng.below(14) {
            0 => return Err(Some(work)),
            1 => drop(work),
            2 => (self.run)(work),
            3 => self.kept.lock().unwrap().push(work),
            4 => {
                self.kept.lock().unwrap().push(work);
                return Err(None);
            }
            5 => {
                drop(self.start(work));
                return Err(None);
            }
            6 => {
                drop(self.start(work));
                explode();
            }
            7 => explode(),
            8 => {
                use_pool(&mut rng, &self.cell);
                drop(self.start(work));
            }
            _ => drop(self.start(work)),
        }
        Ok(())
    }

    /// Runs or drops some of the work that was kept.
    fn settle(&self) {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap());
        for work in kept {
            // The drop may ask for more threads.
            let runs = self.rng.lock().unwrap().chance(0.5);
            match runs {
                true => drop(self.start(work)),
                false => drop(work),
            }
        }
    }
}

/// What one thread does with the pool and its view.
fn disturb(rng: &mut Rng, pool: &WorkerPool, view: &OrderedView, tally: &Tally) {
    for _ in 0..60 {
        let run = tally.closure(rng.below(4));
        let after = Duration::from_nanos(rng.below(20_000));
        let completion = match rng.below(6) {
            0 => pool.execute(run).map(|()| None).ok(),
            1 => view.execute(run).map(|()| None).ok(),
            2 => pool.schedule(after, run).map(Some).ok(),
            3 => view.schedule(after, run).map(Some).ok(),
            4 => pool.submit(run).map(Some).ok(),
            _ => {
                let job = pool.enqueue(Task::new(run)).ok();
                if rng.chance(0.5) {
                    drop(job.and_then(|job| job.remove()));
                }
                None
            }
        };
        if let Some(Some(completion)) = completion {
            let listener = tally.listener();
            completion.finally(move |_| listener());
        }
        if rng.chance(0.05) {
            let mut limits = pool.limits();
            limits.max = 1 + rng.index(3);
            limits.core = limits.core.min(limits.max);
            drop(pool.resize(limits));
        }
    }
}

#[test]
fn whatever_the_parts_do_each_closure_ends_once_and_each_listener_is_called() {
    model(0..rounds(20) as u64, |rng| {
        let cell = Cell::default();
        let factory = ChaosThreads::<ThreadJob>::new(rng, &cell, ThreadJob::run);
        let executor = ChaosThreads::<Task>::new(rng, &cell, Task::run);
        let pool = WorkerPool::builder("workers").core(1).max(2);
        let mut pool = pool.queue(rng.index(6)).reserved(0);
        if rng.chance(0.5) {
            pool = pool.policy(PoolPolicy::DropOldest);
        }
        let (mine, asked) = (Arc::clone(&factory), Arc::clone(&executor));
        match rng.below(3) {
            0 => {
                let threads = ThreadBuilder::new("workers").spawner(move |job| {
                    let refused = |_| io::Error::other("no thread today");
                    mine.accept(job).map_err(refused)
                });
                pool = pool.threads(threads);
            }
            1 => {
                pool = pool.borrow_threads(move |task| {
                    let none = || Task::new(|| ());
                    let back = asked.accept(task).map_err(|back| back.unwrap_or_else(none));
                    back.map_err(|task| Rejected::new(task, RejectReason::Full))
                });
            }
            _ => {}
        }
        let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
        let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
        *cell.lock().unwrap() = Some(pool.clone());
        let (tally, go) = (Tally::new(), Gate::new());
        let (way, pause) = (rng.below(4), rng.below(200));
        thread::scope(|scope| {
            for _ in 0..3 {
                let (mut mine, pool, view) = (rng.fork(), &pool, &view);
                let (tally, go) = (&tally, &go);
                scope.spawn(move || {
                    go.wait();
                    disturb(&mut mine, pool, view, tally);
                });
            }
            go.open();
            yield_times(pause);
            match way {
                0 => drop(pool.shutdown(Duration::ZERO)),
                1 => drop(pool.shutdown(60 * SECOND)),
                _ => {}
            }
        });
        // Work that is kept for ever holds up the end, but not beyond its limit.
        if way == 0 {
            until("it has ended", || pool.termination().is_done());
        }
        for is_over in [&factory.is_over, &executor.is_over] {
            is_over.store(true, Ordering::SeqCst);
        }
        drop(cell.lock().unwrap().take());
        let (ended, back, of_view) = (pool.termination(), pool.handed_back(), view.handed_back());
        match way {
            2 => drop((view, pool)),
            _ => drop(pool.shutdown(60 * SECOND)),
        }
        until("each closure has ended", || {
            factory.settle();
            executor.settle();
            back.take().into_iter().for_each(Task::run);
            of_view.take().into_iter().for_each(Task::run);
            ended.is_done() && tally.has_dropped_all()
        });
        drop((ended, back, of_view));
        tally.wait_until_heard();
    });
}

/// A factory that gives a thread unless `is_broken`, and calls `before` first.
fn factory(
    is_broken: &Arc<AtomicBool>,
    before: impl Fn() + Send + Sync + 'static,
) -> ThreadBuilder {
    let is_broken = Arc::clone(is_broken);
    ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
        before();
        if is_broken.load(Ordering::SeqCst) {
            return Err(io::Error::other("no thread today"));
        }
        thread::Builder::new().spawn(move || job.run()).map(drop)
    })
}

#[test]
fn a_job_that_waits_for_a_thread_that_never_comes_is_told() {
    let clock = ManualClock::new();
    let (asked, answer) = (Gate::new(), Gate::new());
    let (here, go_on) = (asked.clone(), answer.clone());
    let threads = factory(&Arc::new(AtomicBool::new(true)), move || {
        here.open();
        go_on.wait();
    });
    let pool = fixed(&clock, 1, 4).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| pool.execute(|| ()).unwrap_err().why());
        asked.wait();
        // The pool has a thread, as far as it knows.
        let second = pool.submit(|| ()).unwrap();
        answer.open();
        assert_eq!(first.join().unwrap(), RejectReason::NoThread);
        let error = second.wait().unwrap_err().failure().expect("it failed");
        assert!(error.downcast_ref::<DisplacedError>().is_some(), "{error}");
    });
    let metrics = pool.metrics();
    assert_eq!((metrics.threads, metrics.queued), (0, 0));
    assert_eq!(metrics.accepted, metrics.displaced);
}

#[test]
fn a_periodic_task_goes_on_after_a_run_for_which_there_was_no_thread() {
    let clock = ManualClock::new();
    let is_broken = Arc::new(AtomicBool::new(true));
    let threads = factory(&is_broken, || ());
    let pool = fixed(&clock, 2, 4).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    let (runs, of_view) = (Counter::new(), Counter::new());
    let ticks = pool.schedule_at_fixed_rate(SECOND, SECOND, hits(runs.clone()));
    let view_ticks = view.schedule_at_fixed_rate(SECOND, SECOND, hits(of_view.clone()));
    let once = pool.schedule(SECOND, || ()).unwrap();
    clock.jump(SECOND);
    assert!(once.wait().is_err(), "it waits for no other task");
    until("the other two have failed, too", || {
        let metrics = pool.metrics();
        metrics.scheduled == 2 && metrics.threads == 0
    });
    is_broken.store(false, Ordering::SeqCst);
    clock.settle();
    clock.advance(SECOND);
    runs.wait_for(1);
    of_view.wait_for(1);
    assert!(ticks.unwrap().cancel() && view_ticks.unwrap().cancel());
}

#[test]
fn a_start_that_is_lost_costs_no_job_while_another_thread_runs() {
    let clock = ManualClock::new();
    let kept = Arc::<Mutex<Vec<ThreadJob>>>::default();
    let keeps = Arc::clone(&kept);
    let starts = Counter::new();
    let threads = ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
        match starts.hit() {
            2 => keeps.lock().unwrap().push(job),
            _ => drop(thread::Builder::new().spawn(move || job.run())?),
        }
        Ok(())
    });
    // There is no place in the queue for the job that loses its thread.
    let pool = fixed(&clock, 2, 0).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    let gate = super::hold(&pool);
    let second = pool.submit(|| 7).unwrap();
    drop(std::mem::take(&mut *kept.lock().unwrap()));
    assert_eq!(second.wait().unwrap(), 7, "it gets another thread");
    let metrics = pool.metrics();
    assert_eq!((metrics.accepted, metrics.displaced), (2, 0));
    gate.open();
}

#[test]
fn a_wait_does_not_rely_on_a_thread_that_cannot_be_started() {
    let clock = ManualClock::new();
    let is_broken = Arc::new(AtomicBool::new(false));
    let pool = fixed(&clock, 2, 4).threads(factory(&is_broken, || ()));
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    let waits = |fails: bool| {
        let (inner, is_broken) = (pool.clone(), Arc::clone(&is_broken));
        let waited = pool.submit(move || {
            is_broken.store(fails, Ordering::SeqCst);
            let behind = inner.submit(|| 7).unwrap();
            let waited = behind.wait();
            is_broken.store(false, Ordering::SeqCst);
            waited.is_err_and(|error| error.is_refused())
        });
        waited.unwrap().wait().unwrap()
    };
    assert!(waits(true), "its only thread would wait for itself");
    assert!(!waits(false), "there is another thread again");
}

#[test]
fn a_wait_relies_on_a_thread_that_runs_before_its_factory_has_answered() {
    let clock = ManualClock::new();
    let (starts, answers) = (Counter::new(), Gate::new());
    let answer = answers.clone();
    let threads = ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
        match starts.hit() {
            2 => return Err(io::Error::other("no thread today")),
            3 => {
                thread::Builder::new().spawn(move || job.run())?;
                answer.wait();
            }
            _ => drop(thread::Builder::new().spawn(move || job.run())?),
        }
        Ok(())
    });
    let pool = fixed(&clock, 2, 4).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    let first = super::hold(&pool);
    let behind = pool.submit(|| 5).unwrap();
    let inner = pool.clone();
    let waits = move || {
        let behind = inner.submit(|| 7).unwrap();
        first.open();
        let waited = behind.wait();
        answers.open();
        waited
    };
    // Submitted on a thread that waits for the answer of the factory.
    let waited = thread::scope(|scope| {
        let submitted = scope.spawn(|| pool.submit(waits).unwrap());
        submitted.join().unwrap().wait().unwrap()
    });
    assert_eq!(waited.unwrap(), 7, "two threads run");
    assert_eq!(behind.wait().unwrap(), 5);
}

#[test]
fn an_executor_may_refuse_with_a_task_of_its_own_whose_drop_panics() {
    let clock = ManualClock::new();
    for keeps in [false, true] {
        let kept = Arc::<Mutex<Vec<Task>>>::default();
        let place = Arc::clone(&kept);
        let pool = fixed(&clock, 1, 4).borrow_threads(move |task| {
            if keeps {
                place.lock().unwrap().push(task);
            }
            let bomb = Bomb::new();
            let other = Task::new(move || drop(bomb));
            Err(Rejected::new(other, RejectReason::Full))
        });
        let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
        let dropped = Counter::new();
        let held = DropCount::new(&dropped);
        let refused = pool.execute(move || drop(held)).unwrap_err();
        assert_eq!(refused.why(), RejectReason::NoThread);
        let metrics = pool.metrics();
        assert_eq!((metrics.threads, metrics.accepted), (0, 0));
        // A task that runs after it was refused finds nothing to do.
        let kept = std::mem::take(&mut *kept.lock().unwrap());
        kept.into_iter().for_each(Task::run);
        assert_eq!(dropped.count(), 0, "the submitter has its job back");
        drop(refused);
        assert_eq!(dropped.count(), 1);
        let report = pool.shutdown(SECOND).wait().unwrap();
        assert!(report.handed_back.is_empty() && report.stuck.is_empty());
    }
}

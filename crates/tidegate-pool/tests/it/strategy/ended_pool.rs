//! Helpers of strategies in the queue of an executor that ends. The executor holds its queue and what
//! it hands back, the helper holds the strategy, and the strategy holds the executor: nobody but the
//! executor itself can break the cycle. Its threads run such helpers, or it drops them.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Executor, ManualClock, Task};
use tidegate_pool::queue::JobList;
use tidegate_pool::strategy::{ProduceConsume, Strategy};
use tidegate_pool::{OrderedView, WorkerPool, WorkerPoolBuilder};
use tidegate_testkit::{Counter, DropCount, Gate, Log, Stop, until};

use super::{AnyProducer, KINDS, Kind, make};
use crate::SECOND;

/// A pool of one thread, which runs a job until `go_on` is opened, and a strategy over the pool. Its
/// helper waits behind that job, and then a job of the user.
struct Busy {
    clock: ManualClock,
    pool: WorkerPool,
    strategy: Arc<dyn Strategy>,
    go_on: Gate,
    /// Calls of the producer.
    polls: Counter,
    /// Producers that were dropped.
    gone: Counter,
    /// Jobs of the user that ran.
    ran: Counter,
}

fn busy(kind: Kind, change: impl FnOnce(WorkerPoolBuilder) -> WorkerPoolBuilder) -> Busy {
    let clock = ManualClock::new();
    let pool = WorkerPool::builder("workers").clock(&clock);
    let pool = pool.core(1).max(1).reserved(0);
    let pool = change(pool).build().unwrap();
    let (polls, gone, ran) = (Counter::new(), Counter::new(), Counter::new());
    let (polled, drops) = (polls.clone(), DropCount::new(&gone));
    let producer: AnyProducer = Box::new(move || {
        let _drops = &drops;
        polled.hit();
        None
    });
    let made = make(kind, producer, Arc::new(pool.clone()), drop);
    let stop = Stop::new();
    pool.execute(stop.closure()).unwrap();
    stop.reached();
    made.strategy.dispatch().unwrap();
    pool.execute(ran.hits()).unwrap();
    Busy {
        clock,
        pool,
        strategy: made.strategy,
        go_on: stop.gate(),
        polls,
        gone,
        ran,
    }
}

impl Busy {
    /// Shuts the pool down and lets its deadline pass.
    fn end_pool(&self, timeout: Duration) {
        let stopped = self.pool.shutdown(timeout);
        if !timeout.is_zero() {
            self.clock.await_sleepers(1);
            self.clock.jump(timeout);
        }
        let report = stopped.wait().unwrap();
        assert_eq!(report.stuck.len(), 1);
    }
}

#[test]
fn the_last_thread_of_an_ended_pool_runs_the_helpers_and_hands_back_the_rest() {
    for (kind, timeout) in KINDS
        .into_iter()
        .zip([Duration::ZERO, SECOND].into_iter().cycle())
    {
        let busy = busy(kind, |pool| pool);
        busy.end_pool(timeout);
        let handed_back = busy.pool.handed_back();
        assert_eq!(handed_back.len(), 1, "{kind:?}: the job of the user alone");
        assert_eq!(busy.pool.metrics().queued, 1, "{kind:?}: the helper");
        busy.go_on.open();
        until("the pool has no thread", || {
            busy.pool.metrics().threads == 0
        });
        assert_eq!((busy.polls.count(), busy.ran.count()), (1, 0), "{kind:?}");
        assert!(busy.strategy.is_idle());
        let now = busy.pool.metrics();
        assert_eq!((now.queued, now.done), (0, 2), "{kind:?}");
        handed_back.take().into_iter().for_each(Task::run);
        assert_eq!((busy.ran.count(), handed_back.len()), (1, 0));
    }
}

#[test]
fn nothing_outlives_an_ended_pool_whose_tasks_nobody_takes() {
    for kind in KINDS {
        for timeout in [Some(Duration::ZERO), Some(SECOND), None] {
            let busy = busy(kind, |pool| pool);
            if let Some(timeout) = timeout {
                busy.end_pool(timeout);
            }
            let (go_on, gone) = (busy.go_on.clone(), busy.gone.clone());
            drop(busy);
            assert_eq!(gone.count(), 0, "{kind:?}: the helper still has it");
            go_on.open();
            gone.wait_for(1);
        }
    }
}

#[test]
fn the_helpers_of_a_pool_with_a_queue_of_the_users_own_run_too() {
    for kind in KINDS {
        let busy = busy(kind, |pool| pool.queue_of(JobList::default()));
        busy.end_pool(Duration::ZERO);
        assert_eq!(busy.pool.handed_back().len(), 1, "{kind:?}");
        let (go_on, gone, ran) = (busy.go_on.clone(), busy.gone.clone(), busy.ran.clone());
        drop(busy);
        go_on.open();
        gone.wait_for(1);
        assert_eq!(ran.count(), 0, "{kind:?}");
    }
}

#[test]
fn a_helper_whose_thread_is_lost_at_the_end_of_the_pool_is_dropped() {
    for kind in KINDS {
        let (lent, gone) = (Log::new(), Counter::new());
        let lends = lent.clone();
        let pool = WorkerPool::builder("workers").max(1).reserved(0);
        let pool = pool.on_unhandled(|_, _| ()).borrow_threads(move |task| {
            lends.push(task);
            Ok(())
        });
        let pool = pool.build().unwrap();
        let drops = DropCount::new(&gone);
        let producer: AnyProducer = Box::new(move || {
            let _drops = &drops;
            None
        });
        let made = make(kind, producer, Arc::new(pool.clone()), drop);
        made.strategy.dispatch().unwrap();
        let stopped = pool.shutdown(Duration::ZERO);
        assert!(stopped.wait().unwrap().handed_back.is_empty(), "{kind:?}");
        drop((pool, made));
        assert_eq!(gone.count(), 0, "{kind:?}: it waits for its thread");
        let [lost] = <[Task; 1]>::try_from(lent.take()).unwrap();
        drop(lost);
        gone.wait_for(1);
    }
}

#[test]
fn a_pool_that_borrows_from_an_ended_pool_gets_the_thread_that_it_was_promised() {
    let lender = WorkerPool::builder("lender").core(1).max(1).reserved(0);
    let lender = lender.build().unwrap();
    let (stop, ran) = (Stop::new(), Counter::new());
    lender.execute(stop.closure()).unwrap();
    stop.reached();
    let lends = lender.clone();
    let pool = WorkerPool::builder("borrower").max(1);
    let pool = pool.borrow_threads(move |task| lends.execute_task(task));
    let pool = pool.build().unwrap();
    pool.execute(ran.hits()).unwrap();
    let report = lender.shutdown(Duration::ZERO).wait().unwrap();
    assert!(report.handed_back.is_empty());
    stop.go_on();
    pool.shutdown(60 * SECOND).wait().unwrap();
    assert_eq!((pool.metrics().done, ran.count()), (1, 1));
}

/// A strategy whose rounds run on `executor`.
fn over(executor: Arc<dyn Executor>, gone: &Counter) -> ProduceConsume<AnyProducer> {
    let drops = DropCount::new(gone);
    let producer: AnyProducer = Box::new(move || {
        let _drops = &drops;
        None
    });
    ProduceConsume::new(producer, executor)
}

/// A pool whose threads are busy until `go_on` is opened, and a view over it.
struct BusyView {
    pool: WorkerPool,
    view: OrderedView,
    go_on: Gate,
}

/// One thread is busy in a turn of the view if `runs_a_turn`, otherwise all are in jobs of the pool.
fn busy_view(runs_a_turn: bool) -> BusyView {
    let pool = WorkerPool::builder("workers").core(2).max(2).reserved(0);
    let pool = pool.build().unwrap();
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    let go_on = Gate::new();
    for at in 0..2 {
        let (begun, gate) = (Gate::new(), go_on.clone());
        let here = begun.clone();
        let hold = move || {
            here.open();
            gate.wait();
        };
        match runs_a_turn && at == 0 {
            true => view.execute(hold).unwrap(),
            false => pool.execute(hold).unwrap(),
        }
        begun.wait();
    }
    BusyView { pool, view, go_on }
}

#[test]
fn a_view_over_an_ended_pool_drops_its_helpers() {
    for runs_a_turn in [false, true] {
        let BusyView { pool, view, go_on } = busy_view(runs_a_turn);
        let (gone, ran) = (Counter::new(), Counter::new());
        let strategy = over(Arc::new(view.clone()), &gone);
        strategy.dispatch().unwrap();
        view.execute(ran.hits()).unwrap();
        pool.shutdown(Duration::ZERO).wait().unwrap();
        // What a turn hands back is in the list of the view, and is dropped with its last handle.
        drop((view, strategy, pool));
        go_on.open();
        gone.wait_for(1);
        assert_eq!(ran.count(), 0, "turn: {runs_a_turn}");
    }
}

#[test]
fn the_list_of_a_view_has_the_tasks_of_the_user_only() {
    let BusyView { pool, view, go_on } = busy_view(true);
    let (gone, ran) = (Counter::new(), Counter::new());
    let strategy = over(Arc::new(view.clone()), &gone);
    strategy.dispatch().unwrap();
    view.execute(ran.hits()).unwrap();
    pool.shutdown(Duration::ZERO).wait().unwrap();
    go_on.open();
    let handed_back = view.handed_back();
    until("the turn has handed back", || !handed_back.is_empty());
    let tasks = handed_back.take();
    assert_eq!(tasks.len(), 1);
    tasks.into_iter().for_each(Task::run);
    assert_eq!(ran.count(), 1);
    drop((view, strategy));
    gone.wait_for(1);
}

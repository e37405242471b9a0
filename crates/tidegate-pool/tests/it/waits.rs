//! Waits of jobs and of view tasks that would close a circle: one of them is refused, and none else.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use tidegate_pool::{Growth, NotStartedError, OrderedView, PoolPolicy, WorkerPool};
use tidegate_promise::{Completion, Failure, WaitError};
use tidegate_testkit::{Counter, Gate, Rng, Stop, block_on, model};

fn pool(name: &str, threads: usize) -> WorkerPool {
    let builder = WorkerPool::builder(name).core(threads).max(threads);
    builder.reserved(0).build().unwrap()
}

fn view(pool: &WorkerPool) -> OrderedView {
    let view = OrderedView::builder(Arc::new(pool.clone())).name("view");
    view.build().unwrap()
}

/// Waits for `answer`, and fails instead of hanging.
fn ends<T: Send + 'static>(answer: Completion<T>) -> T {
    block_on("the wait ends", answer).unwrap()
}

/// The number of waits that were refused as a circle, among this one and those inside it.
fn refusals(waited: Result<u32, WaitError<Failure>>) -> u32 {
    match waited {
        Ok(inside) => inside,
        Err(WaitError::Refused(why)) => {
            assert!(why.is_deadlock(), "{why}");
            1
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_circle_through_a_pool_with_free_threads_is_refused() {
    let (one, many) = (pool("one", 1), pool("many", 4));
    let back = one.clone();
    let outer = one.submit(move || {
        let inner = many.submit(move || refusals(back.submit(|| 0).unwrap().wait()));
        refusals(inner.unwrap().wait())
    });
    assert_eq!(ends(outer.unwrap()), 1);
}

#[test]
fn jobs_that_wait_for_a_view_over_their_pool_cannot_take_all_threads() {
    let pool = pool("workers", 2);
    let view = view(&pool);
    let arrived = Counter::new();
    let jobs = [(); 2].map(|()| {
        let (view, arrived) = (view.clone(), arrived.clone());
        let job = move || {
            let due = view.schedule(Duration::ZERO, || 0).unwrap();
            arrived.hit();
            arrived.wait_for(2);
            refusals(due.wait())
        };
        pool.submit(job).unwrap()
    });
    assert_eq!(jobs.map(ends).iter().sum::<u32>(), 1);
}

#[test]
fn a_task_of_a_view_that_waits_takes_a_thread_of_the_pool() {
    let pool = pool("workers", 2);
    let (view, handle) = (view(&pool), pool.clone());
    let outer = pool.submit(move || {
        let inside = move || refusals(handle.submit(|| 0).unwrap().wait());
        let inner = view.schedule(Duration::ZERO, inside).unwrap();
        refusals(inner.wait())
    });
    assert_eq!(ends(outer.unwrap()), 1);
}

#[test]
fn a_task_of_a_view_is_on_a_thread_of_the_pool() {
    let builder = WorkerPool::builder("workers").core(2).max(2).queue(1);
    let pause = Duration::from_secs(3_600);
    let policy = PoolPolicy::Backoff { attempts: 1, pause };
    let pool = builder.reserved(0).policy(policy).build().unwrap();
    let (view, handle) = (view(&pool), pool.clone());
    let stop = Stop::new();
    pool.execute(stop.closure()).unwrap();
    let gate = stop.reached();
    let tried = view.schedule(Duration::ZERO, move || {
        // The second job does not fit into the queue.
        let results = [(); 2].map(|()| handle.execute(|| ()).is_ok());
        (handle.is_current(), results)
    });
    assert_eq!(ends(tried.unwrap()), (true, [true, false]));
    gate.open();
    assert!(!pool.is_current());
}

#[test]
fn a_wait_for_a_job_that_was_handed_back_needs_no_thread_of_its_pool() {
    for taken in [false, true] {
        let pool = pool("workers", 1);
        let (give, given) = mpsc::channel::<Completion<u32>>();
        let begun = Gate::new();
        let opens = begun.opens();
        let waiting = pool.submit(move || {
            opens();
            given.recv().unwrap().wait_timeout(Duration::from_nanos(1))
        });
        begun.wait();
        let queued = pool.submit(|| 0).unwrap();
        let report = pool.shutdown(Duration::ZERO).wait().unwrap().handed_back;
        let tasks = taken.then(|| report.take());
        give.send(queued).unwrap();
        let why = ends(waiting.unwrap()).unwrap_err();
        assert_eq!(why.is_timeout(), taken, "{why}");
        let cause = why.failure();
        assert_eq!(
            cause.is_some_and(|cause| cause.downcast_ref::<NotStartedError>().is_some()),
            !taken
        );
        drop(tasks);
    }
}

#[test]
fn a_wait_for_a_scheduled_task_ends_where_nothing_is_queued() {
    let builder = WorkerPool::builder("workers").core(1).max(1).queue(0);
    let pool = builder.reserved(0).build().unwrap();
    let handle = pool.clone();
    // The task finds neither a thread nor a place when it is due.
    let waiting = pool.submit(move || handle.schedule(Duration::ZERO, || 0).unwrap().wait());
    let why = ends(waiting.unwrap()).unwrap_err();
    assert!(matches!(why, WaitError::Failed(_)), "{why}");
}

#[test]
fn a_view_over_a_pool_that_queues_first_keeps_the_order() {
    let builder = WorkerPool::builder("workers").core(1).max(2).queue(1);
    let pool = builder.growth(Growth::QueueFirst).build().unwrap();
    assert!(OrderedView::over(Arc::new(pool)).is_ok());
    assert!(OrderedView::over(Arc::new(self::pool("one", 1))).is_err());
}

/// A job that submits to a random pool and waits, and so on.
fn chain(pools: &Arc<[WorkerPool]>, mut rng: Rng, depth: u32) -> u32 {
    if depth == 0 {
        return 0;
    }
    let (own, next) = (Arc::clone(pools), rng.fork());
    let at = rng.index(pools.len());
    let inner = pools[at].submit(move || chain(&own, next, depth - 1));
    refusals(inner.unwrap().wait())
}

#[test]
fn nested_waits_end_and_none_is_refused_where_threads_are_left() {
    model(0..20, |rng| {
        for (threads, may_refuse) in [(1, true), (2, true), (16, false)] {
            let pools: Arc<[_]> = (0..3).map(|_| pool("workers", threads)).collect();
            let chains: Vec<_> = (0..3)
                .map(|_| {
                    let (own, rng) = (Arc::clone(&pools), rng.fork());
                    pools[0].submit(move || chain(&own, rng, 4)).unwrap()
                })
                .collect();
            let refused: u32 = chains.into_iter().map(ends).sum();
            assert!(may_refuse || refused == 0, "{threads} threads");
        }
    });
}

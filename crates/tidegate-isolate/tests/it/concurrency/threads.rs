//! A thread factory and an executor of the program, and what happens if they give no thread.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::thread::ThreadJob;
use tidegate_core::{RejectReason, Rejected, Task, ThreadBuilder};
use tidegate_isolate::{Cause, ConcurrencyStrategy, Event, Isolation, Rejection};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Gate, until};

use super::{on_a_thread, others_go_on, with_parts};
use crate::support::{builder, cause, hold, made, pool, pool_of};

/// Builds a factory of threads that does this.
fn factory(
    spawn: impl Fn(ThreadJob) -> io::Result<()> + Send + Sync + 'static,
) -> impl Fn() -> ConcurrencyStrategy + Send + Sync + 'static {
    let spawn = Arc::new(spawn);
    move || {
        let spawn = Arc::clone(&spawn);
        let threads = ThreadBuilder::new("own").spawner(move |job| spawn(job));
        ConcurrencyStrategy::default().threads(threads)
    }
}

#[test]
fn threads_come_from_the_factory_of_the_program() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let (_clock, isolation, _told) = with_parts(factory(move |job| {
        count.fetch_add(1, Ordering::Relaxed);
        std::thread::Builder::new().spawn(|| job.run()).map(drop)
    }));
    let command = builder("a").threads(pool_of(2, 2));
    let command = command.build(&isolation).unwrap();
    let go_on = Gate::new();
    let held = [hold(&command, &go_on), hold(&command, &go_on)];
    assert_eq!(made.load(Ordering::Relaxed), 2);
    go_on.open();
    for answer in held {
        answer.wait().unwrap();
    }
    assert_eq!(made.load(Ordering::Relaxed), 2, "they are kept");
}

#[test]
fn a_factory_may_use_the_isolation_while_a_pool_grows() {
    let place = Arc::<Mutex<Option<Isolation>>>::default();
    let inner = Arc::clone(&place);
    let (_clock, isolation, _told) = with_parts(factory(move |job| {
        let isolation = inner.lock().unwrap().clone();
        if let Some(isolation) = isolation {
            assert_eq!(isolation.settings().len(), isolation.snapshots().len());
            assert_eq!(isolation.pool_snapshots().len(), 1);
            assert!(isolation.reset_breaker("a"));
        }
        std::thread::Builder::new().spawn(|| job.run()).map(drop)
    }));
    let command = made(builder("a").threads(pool_of(1, 2)).no_timeout(), &isolation);
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let waits = command.queue(|_| Ok(7));
    *place.lock().unwrap() = Some(isolation.clone());
    command.configure(|c| c.pool.core = 2).unwrap();
    assert_eq!(waits.wait().unwrap(), 7, "on the new thread");
    drop(place.lock().unwrap().take());
    go_on.open();
    held.wait().unwrap();
}

#[test]
fn a_factory_that_gives_no_thread_is_named_and_the_call_is_rejected() {
    for (how, named) in ["fails", "panics"]
        .into_iter()
        .zip(["no thread for you", "the spawner panicked: on purpose"])
    {
        let is_bad = Arc::new(AtomicBool::new(true));
        let switch = Arc::clone(&is_bad);
        let (_clock, isolation, told) = with_parts(factory(move |job| {
            match how {
                _ if !switch.load(Ordering::Relaxed) => {
                    std::thread::Builder::new().spawn(|| job.run())?;
                }
                "fails" => return Err(io::Error::other("no thread for you")),
                _ => panic!("on purpose"),
            }
            Ok(())
        }));
        let command = made(builder("a").threads(pool_of(1, 1)), &isolation);
        let error = command.run(|_| panic!("must not run")).unwrap_err();
        assert_eq!(
            error.cause(),
            &Cause::Rejected(Rejection::NoThread),
            "{how}"
        );
        assert!(
            error.to_string().contains("its pool got no thread"),
            "{error}"
        );
        let error = cause(command.queue(|_| panic!("must not run")));
        assert_eq!(error, Cause::Rejected(Rejection::NoThread), "{how}");
        let message = told.recv().unwrap();
        let part = "the thread factory of pool `tidegate-a` failed: ";
        assert!(
            message.starts_with(part) && message.contains(named),
            "{message}"
        );
        assert_eq!(command.snapshot().totals[Event::PoolRejected], 2);
        others_go_on(&isolation);
        is_bad.store(false, Ordering::Relaxed);
        assert_eq!(command.run(|_| Ok(1)), Ok(1), "{how}: it recovers");
    }
}

#[test]
fn a_factory_that_drops_the_work_of_a_thread_ends_its_pool() {
    let (_clock, isolation, told) = with_parts(factory(|job| {
        drop(job);
        Ok(())
    }));
    let command = made(builder("a").threads(pool_of(1, 1)), &isolation);
    for _ in 0..2 {
        let error = cause(command.queue(|_| panic!("must not run")));
        assert_eq!(error, Cause::Rejected(Rejection::Closed));
    }
    let message = told.recv().unwrap();
    let part = "the thread factory of pool `tidegate-a` failed: it did not run the work";
    assert!(message.starts_with(part), "{message}");
    let failed = pool(&isolation).failed_part.unwrap_or_default();
    assert!(failed.starts_with("the thread factory: "), "{failed}");
    assert!(told.try_recv().is_err(), "it is said once");
    others_go_on(&isolation);
}

/// Builds parts with an executor that does this.
fn executor(
    execute: impl Fn(Task) -> Result<(), Rejected<Task>> + Send + Sync + 'static,
) -> impl Fn() -> ConcurrencyStrategy + Send + Sync + 'static {
    let execute = Arc::new(execute);
    move || {
        let execute = Arc::clone(&execute);
        ConcurrencyStrategy::default().executor(move |task| execute(task))
    }
}

#[test]
fn calls_run_on_the_executor_of_the_program() {
    let shared = WorkerPool::builder("shared")
        .core(3)
        .max(3)
        .build()
        .unwrap();
    let lends = shared.clone();
    let (_clock, isolation, told) = with_parts(executor(move |task| lends.execute_task(task)));
    let command = made(builder("a").threads(pool_of(2, 1)), &isolation);
    let name = Arc::new(Mutex::new(String::new()));
    let note = Arc::clone(&name);
    let answer = command.run(move |_| {
        *note.lock().unwrap() = std::thread::current().name().unwrap_or_default().to_owned();
        Ok(7)
    });
    assert_eq!(answer, Ok(7));
    assert!(name.lock().unwrap().starts_with("shared"), "{name:?}");
    until("the thread is given back", || shared.metrics().busy == 0);
    let go_on = Gate::new();
    let held = [hold(&command, &go_on), hold(&command, &go_on)];
    assert_eq!(shared.metrics().busy, 2, "no more than the pool may have");
    let queued = command.queue(|_| Ok(3));
    assert!(command.run(|_| Ok(1)).unwrap_err().is_rejected());
    go_on.open();
    for answer in held {
        answer.wait().unwrap();
    }
    assert_eq!(queued.wait().unwrap(), 3);
    until("the threads are given back", || shared.metrics().busy == 0);
    assert_eq!(pool(&isolation).threads, 0, "it keeps none");
    assert!(told.try_recv().is_err());
}

#[test]
fn an_executor_that_does_not_run_calls_is_named_and_they_are_rejected() {
    for (how, why, named) in [
        (
            "refuses",
            Rejection::NoThread,
            "it refused a task: the queue is full",
        ),
        ("panics", Rejection::NoThread, "it panicked: on purpose"),
        (
            "drops",
            Rejection::Closed,
            "it did not run the work of a thread",
        ),
        (
            "inline",
            Rejection::Closed,
            "it did not run the work of a thread",
        ),
    ] {
        let is_bad = Arc::new(AtomicBool::new(true));
        let switch = Arc::clone(&is_bad);
        let (_clock, isolation, told) = with_parts(executor(move |task| {
            match how {
                _ if !switch.load(Ordering::Relaxed) => {
                    let ran = on_a_thread("own", task);
                    return ran.map_err(|task| Rejected::new(task, RejectReason::NoThread));
                }
                "refuses" => return Err(Rejected::new(task, RejectReason::Full)),
                "panics" => panic!("on purpose"),
                "drops" => drop(task),
                _ => task.run(),
            }
            Ok(())
        }));
        let command = made(builder("a").threads(pool_of(1, 1)), &isolation);
        let error = command.run(|_| panic!("must not run")).unwrap_err();
        assert_eq!(error.cause(), &Cause::Rejected(why), "{how}");
        let message = told.recv().unwrap();
        let part = "the executor of pool `tidegate-a` failed: ";
        assert!(
            message.starts_with(part) && message.contains(named),
            "{message}"
        );
        others_go_on(&isolation);
        is_bad.store(false, Ordering::Relaxed);
        let recovers = command.run(|_| Ok(1)).is_ok();
        assert_eq!(recovers, why == Rejection::NoThread, "{how}");
    }
}

//! Calls that their pool hands back: the program takes and runs them elsewhere, or nobody can take
//! them any more and they end as rejected.

use std::time::Duration;

use tidegate_core::Task;
use tidegate_isolate::{Cause, Isolation, Rejection};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Gate, until};

use crate::concurrency::{Plain, with_parts};
use crate::support::{Answer, Numbers, builder, cause, hold, made, pool_of, still};

/// The only thread of this command is busy until the gate opens; `queued` calls wait for it.
fn busy(isolation: &Isolation, go_on: &Gate, queued: u32) -> (Numbers, Answer, Vec<Answer>) {
    let command = made(builder("a").threads(pool_of(1, 8)).no_timeout(), isolation);
    let held = hold(&command, go_on);
    let queued = (0..queued).map(|n| command.queue(move |_| Ok(n)));
    let queued = queued.collect();
    (command, held, queued)
}

fn shut_down_pool(isolation: &Isolation) -> WorkerPool {
    let pool = isolation.pool("a").unwrap();
    pool.shutdown(Duration::ZERO).wait().unwrap();
    assert_eq!(pool.handed_back().len(), 3);
    pool
}

fn all_closed(queued: Vec<Answer>) {
    for answer in queued {
        until("the call has ended", || answer.is_done());
        assert_eq!(cause(answer), Cause::Rejected(Rejection::Closed));
    }
}

#[test]
fn calls_that_nobody_can_take_end_as_rejected() {
    for commands_last in [false, true] {
        let (go_on, (_clock, isolation)) = (Gate::new(), still());
        let (command, held, queued) = busy(&isolation, &go_on, 3);
        drop(shut_down_pool(&isolation));
        assert!(queued.iter().all(|answer| !answer.is_done()));
        let command = commands_last.then_some(command);
        assert!(queued.iter().all(|answer| !answer.is_done()));
        drop(isolation);
        all_closed(queued);
        if let Some(command) = command {
            let late = command.run(|_| panic!("must not run")).unwrap_err();
            assert_eq!(late.cause(), &Cause::Rejected(Rejection::Closed));
        }
        go_on.open();
        assert_eq!(held.wait(), Ok(0));
    }
}

#[test]
fn calls_of_a_queue_of_the_program_end_as_rejected_too() {
    let parts = || tidegate_isolate::ConcurrencyStrategy::default().queue(Plain::default());
    let (go_on, (_clock, isolation, told)) = (Gate::new(), with_parts(parts));
    let (command, held, queued) = busy(&isolation, &go_on, 3);
    drop(shut_down_pool(&isolation));
    drop((command, isolation));
    all_closed(queued);
    go_on.open();
    assert_eq!(held.wait(), Ok(0));
    assert_eq!(told.try_recv().ok(), None, "no part has failed");
}

#[test]
fn a_report_keeps_the_calls_after_the_isolation_is_gone() {
    for from_handle in [false, true] {
        let (go_on, (_clock, isolation)) = (Gate::new(), still());
        let (command, held, queued) = busy(&isolation, &go_on, 3);
        let pool = shut_down_pool(&isolation);
        let report = pool.termination();
        let pool = from_handle.then_some(pool);
        drop((isolation, command));
        assert!(queued.iter().all(|answer| !answer.is_done()));
        let tasks = match pool {
            Some(pool) => {
                drop(report);
                pool.handed_back().take()
            }
            None => report.wait().unwrap().handed_back.take(),
        };
        assert_eq!(tasks.len(), 3);
        tasks.into_iter().for_each(Task::run);
        let answers = queued.into_iter().map(|answer| answer.wait().unwrap());
        assert_eq!(answers.collect::<Vec<_>>(), [0, 1, 2]);
        go_on.open();
        assert_eq!(held.wait(), Ok(0));
    }
}

#[test]
fn calls_of_a_removed_key_end_with_the_isolation() {
    let (go_on, (_clock, isolation)) = (Gate::new(), still());
    let (command, held, queued) = busy(&isolation, &go_on, 3);
    let pool = isolation.pool("a").unwrap();
    assert!(isolation.remove("a"));
    pool.shutdown(Duration::ZERO).wait().unwrap();
    assert_eq!(pool.handed_back().len(), 3);
    drop(pool);
    assert!(queued.iter().all(|answer| !answer.is_done()));
    drop(isolation);
    all_closed(queued);
    go_on.open();
    assert_eq!(held.wait(), Ok(0));
    drop(command);
}

#[test]
fn a_pool_that_a_command_makes_after_the_isolation_hands_nothing_back() {
    let (go_on, (_clock, isolation)) = (Gate::new(), still());
    let command = made(
        builder("a")
            .no_timeout()
            .configure(|c| c.pool = pool_of(1, 8)),
        &isolation,
    );
    drop(isolation);
    let threads = |c: &mut tidegate_isolate::CommandConfig| {
        c.bulkhead = tidegate_isolate::Bulkhead::Threads;
    };
    command.configure(threads).unwrap();
    let held = hold(&command, &go_on);
    let queued = command.queue(|_| Ok(1));
    drop(command);
    go_on.open();
    assert_eq!(
        (held.wait(), queued.wait()),
        (Ok(0), Ok(1)),
        "accepted calls run"
    );
}

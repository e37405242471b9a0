//! Jobs and workers at the dispatcher, driven step by step.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::Clock;
use tidegate_testkit::until;

use super::wake_backoff::WakeBackoff;
use super::*;

impl JobSource<u32> for VecDeque<u32> {
    fn take(&mut self) -> Option<u32> {
        self.pop_front()
    }

    fn len(&self) -> usize {
        VecDeque::len(self)
    }
}

type Plain = Dispatcher<u32, VecDeque<u32>>;

fn dispatcher(core: usize, max: usize, growth: Growth, reserved: usize) -> Plain {
    let limits = DispatchLimits {
        core,
        max,
        leased: 0,
        growth,
    };
    Dispatcher::new(VecDeque::new(), limits, reserved)
}

/// What became of a job.
#[derive(Debug, PartialEq, Eq)]
enum Placed {
    Handed,
    Start(u32),
    Queue(u32),
    Full(u32),
}

fn place(dispatcher: &Plain, job: u32, has_room: bool, urgent: bool) -> Placed {
    match dispatcher.turn().place(job, has_room, urgent) {
        Dispatch::Handed(_) => Placed::Handed,
        Dispatch::Start(job) => Placed::Start(job),
        Dispatch::Queue(job) => Placed::Queue(job),
        Dispatch::Full(job) => Placed::Full(job),
    }
}

/// Counts a thread and registers it as idle.
fn worker(dispatcher: &Plain) -> Arc<WorkerSlot<u32>> {
    let worker_slot = Arc::new(WorkerSlot::new());
    assert!(dispatcher.turn().count_thread());
    sit(dispatcher, &worker_slot);
    worker_slot
}

fn sit(dispatcher: &Plain, worker_slot: &Arc<WorkerSlot<u32>>) {
    assert!(matches!(
        dispatcher.turn().next_step(worker_slot),
        WorkerStep::Wait { .. }
    ));
}

#[test]
fn the_newest_idle_worker_is_taken_first() {
    let dispatcher = dispatcher(0, 4, Growth::ThreadsFirst, 0);
    let seats: Vec<_> = (0..3).map(|_| worker(&dispatcher)).collect();
    // The first worker spins and stays on top; the others are inserted below it, newest last.
    for (job, at) in [(1, 0), (2, 2), (3, 1)] {
        assert_eq!(place(&dispatcher, job, true, false), Placed::Handed);
        assert_eq!(seats[at].try_take(), Some(job));
    }
    assert_eq!(place(&dispatcher, 4, true, false), Placed::Start(4));
    assert_eq!(dispatcher.tally().threads, 4);
    assert_eq!(place(&dispatcher, 5, true, false), Placed::Queue(5));
    assert_eq!(place(&dispatcher, 6, false, false), Placed::Full(6));
}

#[test]
fn queue_first_grows_when_the_queue_is_full() {
    let dispatcher = dispatcher(1, 2, Growth::QueueFirst, 0);
    assert_eq!(place(&dispatcher, 1, true, false), Placed::Start(1));
    assert_eq!(place(&dispatcher, 2, true, false), Placed::Queue(2));
    assert_eq!(place(&dispatcher, 3, false, false), Placed::Start(3));
    assert_eq!(place(&dispatcher, 4, false, false), Placed::Full(4));
}

/// Waits until the worker of `worker_slot` sleeps.
fn until_asleep(worker_slot: &WorkerSlot<u32>) {
    until("the worker of the slot sleeps", || !worker_slot.is_awake());
}

#[test]
fn a_sleeper_on_its_way_holds_back_the_next_wakeup_while_there_is_room() {
    let dispatcher = dispatcher(0, 2, Growth::ThreadsFirst, 0);
    let seats = [worker(&dispatcher), worker(&dispatcher)];
    std::thread::scope(|scope| {
        let threads = [&seats[0], &seats[1]].map(|worker_slot| {
            let thread = scope.spawn(|| worker_slot.sleep(&Clock::system(), None));
            until_asleep(worker_slot);
            thread
        });
        let handed = dispatcher.turn().place(1, true, false);
        assert!(matches!(&handed, Dispatch::Handed(wake) if wake.is_asleep()));
        assert_eq!(place(&dispatcher, 2, true, false), Placed::Queue(2));
        // The queue is full: the other worker is taken at once.
        assert_eq!(place(&dispatcher, 3, false, false), Placed::Handed);
        drop(handed);
        let slept = threads.map(|thread| thread.join().expect("it does not panic"));
        let given = |job| SlotWait::Given { job, asleep: true };
        assert_eq!(slept, [given(1), given(3)]);
    });
    assert!(
        dispatcher.turn().woken_worker_arrived().is_none(),
        "nothing waits"
    );
}

#[test]
fn a_spinning_worker_gets_the_job_though_another_was_woken() {
    let dispatcher = dispatcher(0, 2, Growth::ThreadsFirst, 0);
    let seats = [worker(&dispatcher), worker(&dispatcher)];
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| seats[0].sleep(&Clock::system(), None));
        until_asleep(&seats[0]);
        let handed = dispatcher.turn().place(1, true, false);
        assert!(
            matches!(dispatcher.turn().place(2, true, false), Dispatch::Handed(wake) if !wake.is_asleep())
        );
        assert_eq!(seats[1].try_take(), Some(2));
        drop(handed);
        assert!(matches!(
            thread.join().expect("it does not panic"),
            SlotWait::Given { job: 1, .. }
        ));
    });
}

/// Runs `test` on a dispatcher with a busy worker and one that sleeps until it is given the job
/// that `test` returns.
fn with_a_busy_and_a_sleeping_one(test: impl FnOnce(&Plain, &Arc<WorkerSlot<u32>>) -> u32) {
    let dispatcher = dispatcher(0, 2, Growth::ThreadsFirst, 0);
    // Otherwise the test would depend on the machine.
    dispatcher.turn().state.wake_backoff = WakeBackoff::for_cpus(2);
    let (sleeper, busy) = (worker(&dispatcher), Arc::new(WorkerSlot::new()));
    assert!(
        dispatcher.turn().may_defer_wake().is_none(),
        "no worker is busy"
    );
    assert!(dispatcher.turn().count_thread());
    assert!(dispatcher.turn().may_defer_wake().is_none(), "one spins");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| sleeper.sleep(&Clock::system(), None));
        until_asleep(&sleeper);
        let expected = test(&dispatcher, &busy);
        let slept = thread.join().expect("it does not panic");
        assert!(matches!(slept, SlotWait::Given { job, .. } if job == expected));
    });
}

/// Queues `jobs` and defers their wake-up.
fn defer_wake<const N: usize>(dispatcher: &Plain, jobs: [u32; N]) {
    let mut turn = dispatcher.turn();
    assert!(turn.may_defer_wake().is_some());
    turn.extend(jobs);
    turn.defer_wake();
}

#[test]
fn a_wakeup_is_put_off_for_a_busy_worker_that_comes_at_once() {
    with_a_busy_and_a_sleeping_one(|dispatcher, busy| {
        for job in 0..100 {
            defer_wake(dispatcher, [job]);
            assert!(dispatcher.is_wake_deferred());
            assert!(
                matches!(dispatcher.turn().place(0, true, false), Dispatch::Queue(0)),
                "a worker is woken"
            );
            assert_eq!(dispatcher.turn().next_step(busy), WorkerStep::Run(job));
            assert!(!dispatcher.is_wake_deferred());
            assert!(
                dispatcher.turn().perform_deferred_wake().is_none(),
                "nothing is owed"
            );
        }
        assert_eq!(place(dispatcher, 7, true, false), Placed::Handed);
        7
    });
}

#[test]
fn a_wakeup_that_was_put_off_is_made_up_for() {
    with_a_busy_and_a_sleeping_one(|dispatcher, busy| {
        // Two jobs are queued: the busy worker takes one, and the wake-up for the other is still
        // owed.
        defer_wake(dispatcher, [1, 2]);
        assert_eq!(dispatcher.turn().next_step(busy), WorkerStep::Run(1));
        assert!(dispatcher.is_wake_deferred());
        let sent = dispatcher.turn().perform_deferred_wake();
        assert!(matches!(sent, Some(WorkerWanted::Idle(wake)) if wake.is_asleep()));
        assert!(!dispatcher.is_wake_deferred());
        2
    });
}

#[test]
fn wakeups_are_not_put_off_in_vain_again_and_again() {
    with_a_busy_and_a_sleeping_one(|dispatcher, _| {
        let mut deferred = 0;
        for _ in 0..1_000 {
            let mut turn = dispatcher.turn();
            if turn.may_defer_wake().is_some() {
                turn.defer_wake();
                deferred += 1;
            }
            drop(turn);
            assert!(
                dispatcher.turn().perform_deferred_wake().is_none(),
                "nothing waits"
            );
        }
        assert!((30..=40).contains(&deferred), "{deferred}");
        assert_eq!(place(dispatcher, 7, true, false), Placed::Handed);
        7
    });
}

#[test]
fn a_woken_worker_wakes_the_next_one_for_waiting_jobs() {
    let dispatcher = dispatcher(0, 2, Growth::ThreadsFirst, 1);
    let worker_slot = worker(&dispatcher);
    assert_eq!(dispatcher.reserve().available(), 1);
    dispatcher.turn().push_back(7);
    assert!(
        dispatcher.turn().woken_worker_arrived().is_none(),
        "the one in reserve spins"
    );
    assert_eq!(worker_slot.try_take(), Some(7));
    assert_eq!(dispatcher.tally().queued, 0);
}

#[test]
fn a_woken_worker_continues_until_a_sleeper_is_woken_or_no_job_waits() {
    let dispatcher = dispatcher(0, 4, Growth::ThreadsFirst, 0);
    let seats: Vec<_> = (0..2).map(|_| worker(&dispatcher)).collect();
    dispatcher.turn().extend([1, 2, 3]);
    // Both workers spin. The third job needs a thread, which is being started for it.
    assert!(matches!(
        dispatcher.turn().woken_worker_arrived(),
        Some(WorkerWanted::Start)
    ));
    assert_eq!(
        (dispatcher.tally().threads, dispatcher.tally().queued),
        (3, 1)
    );
    let mut got: Vec<_> = seats
        .iter()
        .filter_map(|worker_slot| worker_slot.try_take())
        .collect();
    got.sort_unstable();
    assert_eq!(got, [1, 2]);
    assert!(
        dispatcher.turn().woken_worker_arrived().is_none(),
        "one is on its way"
    );
    // The new thread sends the next one in turn, up to the maximum.
    dispatcher.turn().extend([4, 5]);
    let new = Arc::new(WorkerSlot::new());
    let (next, sent) = dispatcher.turn().started(&new);
    assert!(next == WorkerStep::Run(3) && matches!(sent, Some(WorkerWanted::Start)));
    let (next, sent) = dispatcher.turn().started(&new);
    assert!(
        next == WorkerStep::Run(4) && sent.is_none(),
        "no more may start"
    );
}

#[test]
fn a_job_queued_behind_a_wakeup_gets_a_new_thread_when_the_idle_one_is_claimed() {
    for (growth, starts) in [(Growth::ThreadsFirst, true), (Growth::QueueFirst, false)] {
        let dispatcher = dispatcher(2, 4, growth, 1);
        let (reserved, idle) = (worker(&dispatcher), worker(&dispatcher));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| idle.sleep(&Clock::system(), None));
            until_asleep(&idle);
            let handed = dispatcher.turn().place(1, true, false);
            assert!(matches!(&handed, Dispatch::Handed(wake) if wake.is_asleep()));
            let Dispatch::Queue(queued) = dispatcher.turn().place(2, true, false) else {
                panic!("one is on its way, and one is in reserve");
            };
            dispatcher.turn().push_back(queued);
            drop(dispatcher.claim(3).expect("one is in reserve"));
            drop(handed);
            assert!(thread.join().is_ok());
        });
        let sent = dispatcher.turn().woken_worker_arrived();
        assert_eq!(
            matches!(sent, Some(WorkerWanted::Start)),
            starts,
            "{growth:?}"
        );
        assert_eq!(reserved.try_take(), Some(3));
    }
}

#[test]
fn a_worker_whose_time_is_up_takes_what_waits_instead_of_leaving() {
    let dispatcher = dispatcher(0, 4, Growth::ThreadsFirst, 0);
    let seats = [worker(&dispatcher), worker(&dispatcher)];
    dispatcher.turn().push_back(7);
    assert_eq!(
        dispatcher.turn().recheck_idle(&seats[0], true),
        WorkerStep::Run(7)
    );
    assert_eq!(
        dispatcher.turn().recheck_idle(&seats[1], true),
        WorkerStep::Leave
    );
    assert_eq!(dispatcher.turn().threads(), 1);
    // The same at the end of the pool.
    sit(&dispatcher, &seats[0]);
    dispatcher.turn().push_back(8);
    drop(dispatcher.turn().close());
    assert_eq!(
        dispatcher.turn().recheck_idle(&seats[0], false),
        WorkerStep::Run(8)
    );
}

#[test]
fn a_thread_that_could_not_be_started_is_replaced_by_an_idle_one() {
    let dispatcher = dispatcher(0, 2, Growth::ThreadsFirst, 0);
    assert_eq!(place(&dispatcher, 1, true, false), Placed::Start(1));
    let worker_slot = worker(&dispatcher);
    dispatcher.turn().push_back(2);
    assert!(dispatcher.turn().not_started(false).is_none(), "it spins");
    assert_eq!(worker_slot.try_take(), Some(2));
    dispatcher.turn().push_back(3);
    assert!(dispatcher.turn().count_for_waiting());
    assert!(!dispatcher.turn().count_for_waiting(), "one for one job");
    assert!(dispatcher.turn().not_started(true).is_none());
    assert!(dispatcher.turn().count_for_waiting(), "it is wanted again");
}

#[test]
fn an_urgent_job_gets_a_thread_beyond_the_core() {
    let dispatcher = dispatcher(1, 2, Growth::QueueFirst, 0);
    assert_eq!(place(&dispatcher, 1, true, false), Placed::Start(1));
    assert_eq!(place(&dispatcher, 2, true, false), Placed::Queue(2));
    assert_eq!(place(&dispatcher, 3, true, true), Placed::Start(3));
    assert_eq!(place(&dispatcher, 4, true, true), Placed::Queue(4));
}

#[test]
fn queue_first_begins_with_one_thread_and_counts_leased_ones_apart() {
    let limits = |core, leased| DispatchLimits {
        core,
        max: 8,
        leased,
        growth: Growth::QueueFirst,
    };
    let firsts =
        [(0, 0), (1, 0), (2, 3), (7, 3)].map(|(core, leased)| limits(core, leased).first());
    assert_eq!(firsts, [1, 1, 5, 8]);
}

#[test]
fn the_reserve_is_used_before_a_job_waits() {
    let dispatcher = dispatcher(1, 1, Growth::QueueFirst, 1);
    let worker_slot = worker(&dispatcher);
    assert_eq!(place(&dispatcher, 1, true, false), Placed::Handed);
    assert_eq!(worker_slot.try_take(), Some(1));
    assert!(dispatcher.claim(2).is_err());
}

#[test]
fn only_surplus_workers_leave_and_never_one_that_is_claimed() {
    let dispatcher = dispatcher(1, 3, Growth::ThreadsFirst, 1);
    let (reserved, idle) = (worker(&dispatcher), worker(&dispatcher));
    assert!(matches!(
        dispatcher.turn().recheck_idle(&idle, false),
        WorkerStep::Wait { .. }
    ));
    drop(dispatcher.claim(1).expect("one is in reserve"));
    assert!(matches!(
        dispatcher.turn().recheck_idle(&reserved, true),
        WorkerStep::Wait { .. }
    ));
    assert_eq!(
        dispatcher.turn().recheck_idle(&idle, true),
        WorkerStep::Leave
    );
    assert_eq!(reserved.try_take(), Some(1));
    sit(&dispatcher, &reserved);
    assert!(matches!(
        dispatcher.turn().recheck_idle(&reserved, true),
        WorkerStep::Wait { .. }
    ));
    drop(dispatcher.turn().close());
    assert_eq!(
        dispatcher.turn().recheck_idle(&reserved, false),
        WorkerStep::Leave
    );
    assert_eq!(dispatcher.tally(), DispatchCounts::default());
}

#[test]
fn dismissed_workers_leave_what_they_have_not_begun() {
    let dispatcher = dispatcher(0, 4, Growth::ThreadsFirst, 1);
    let [begun, given, reserved] = [
        worker(&dispatcher),
        worker(&dispatcher),
        worker(&dispatcher),
    ];
    assert_eq!(dispatcher.reserve().available(), 1);
    for _ in 0..2 {
        assert_eq!(place(&dispatcher, 1, true, false), Placed::Handed);
    }
    let seats = [begun, given, reserved];
    let taken: Vec<_> = seats
        .iter()
        .map(|worker_slot| worker_slot.try_take())
        .collect();
    assert_eq!(taken.iter().flatten().count(), 2);
    let claimed = dispatcher.claim(3);
    assert!(claimed.is_ok());
    let mut left = Vec::new();
    let mut turn = dispatcher.turn();
    drop(turn.close());
    let wakes = turn.dismiss(&seats, &mut left);
    drop(turn);
    assert_eq!((left, wakes.len()), (vec![3], 3));
    for worker_slot in &seats {
        assert_eq!(worker_slot.give(4), Err(4));
        assert_eq!(worker_slot.sleep(&Clock::system(), None), SlotWait::Closed);
        assert_eq!(dispatcher.turn().next_step(worker_slot), WorkerStep::Leave);
    }
    assert!(dispatcher.claim(5).is_err());
}

#[test]
fn new_limits_hold_for_all_workers_at_once() {
    let dispatcher = dispatcher(3, 3, Growth::ThreadsFirst, 2);
    let seats: Vec<_> = (0..3).map(|_| worker(&dispatcher)).collect();
    let limits = DispatchLimits {
        core: 0,
        max: 1,
        leased: 0,
        growth: Growth::QueueFirst,
    };
    drop(dispatcher.turn().set_limits(limits, 0));
    assert_eq!(dispatcher.reserve().available(), 0);
    let left = seats.iter();
    let left = left.filter(|worker_slot| {
        dispatcher.turn().recheck_idle(worker_slot, false) == WorkerStep::Leave
    });
    assert_eq!(left.count(), 2);
    assert_eq!(dispatcher.turn().threads(), 1);
    assert_eq!(dispatcher.turn().ready(), 1);
}

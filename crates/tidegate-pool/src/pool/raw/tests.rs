//! Jobs and workers at the dispatcher, driven step by step.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::Clock;
use tidegate_testkit::until;

use super::*;

impl Work<u32> for VecDeque<u32> {
    fn take(&mut self) -> Option<u32> {
        self.pop_front()
    }

    fn len(&self) -> usize {
        VecDeque::len(self)
    }
}

type Plain = Desk<u32, VecDeque<u32>>;

fn desk(core: usize, max: usize, growth: Growth, reserved: usize) -> Plain {
    let limits = DeskLimits {
        core,
        max,
        leased: 0,
        growth,
    };
    Desk::new(VecDeque::new(), limits, reserved)
}

/// Counts a thread and registers it as idle.
fn worker(desk: &Plain) -> Arc<Seat<u32>> {
    let seat = Arc::new(Seat::new());
    assert!(desk.turn().count_thread());
    sit(desk, &seat);
    seat
}

fn sit(desk: &Plain, seat: &Arc<Seat<u32>>) {
    assert!(matches!(desk.turn().next(seat), Next::Wait { .. }));
}

#[test]
fn the_newest_idle_worker_is_taken_first() {
    let desk = desk(0, 4, Growth::ThreadsFirst, 0);
    let seats: Vec<_> = (0..3).map(|_| worker(&desk)).collect();
    // The first worker spins and stays on top; the others are inserted below it, newest last.
    for (job, at) in [(1, 0), (2, 2), (3, 1)] {
        assert!(matches!(
            desk.turn().place(job, true, false),
            Placed::Handed(_)
        ));
        assert_eq!(seats[at].try_take(), Some(job));
    }
    assert!(matches!(
        desk.turn().place(4, true, false),
        Placed::Start(4)
    ));
    assert_eq!(desk.tally().threads, 4);
    assert!(matches!(
        desk.turn().place(5, true, false),
        Placed::Queue(5)
    ));
    assert!(matches!(
        desk.turn().place(6, false, false),
        Placed::Full(6)
    ));
}

#[test]
fn queue_first_grows_when_the_queue_is_full() {
    let desk = desk(1, 2, Growth::QueueFirst, 0);
    assert!(matches!(
        desk.turn().place(1, true, false),
        Placed::Start(1)
    ));
    assert!(matches!(
        desk.turn().place(2, true, false),
        Placed::Queue(2)
    ));
    assert!(matches!(
        desk.turn().place(3, false, false),
        Placed::Start(3)
    ));
    assert!(matches!(
        desk.turn().place(4, false, false),
        Placed::Full(4)
    ));
}

/// Waits until the worker of `seat` sleeps.
fn until_asleep(seat: &Seat<u32>) {
    until("the worker of the seat sleeps", || !seat.is_awake());
}

#[test]
fn a_sleeper_on_its_way_holds_back_the_next_wakeup_while_there_is_room() {
    let desk = desk(0, 2, Growth::ThreadsFirst, 0);
    let seats = [worker(&desk), worker(&desk)];
    std::thread::scope(|scope| {
        let threads = [&seats[0], &seats[1]].map(|seat| {
            let thread = scope.spawn(|| seat.sleep(&Clock::system(), None));
            until_asleep(seat);
            thread
        });
        let handed = desk.turn().place(1, true, false);
        assert!(matches!(&handed, Placed::Handed(wake) if wake.is_asleep()));
        assert!(matches!(
            desk.turn().place(2, true, false),
            Placed::Queue(2)
        ));
        // The queue is full: the other worker is taken at once.
        assert!(matches!(
            desk.turn().place(3, false, false),
            Placed::Handed(_)
        ));
        drop(handed);
        let slept = threads.map(|thread| thread.join().expect("it does not panic"));
        let given = |job| Slept::Given { job, asleep: true };
        assert_eq!(slept, [given(1), given(3)]);
    });
    assert!(desk.turn().arrived().is_none(), "nothing waits");
}

#[test]
fn who_looks_on_gets_the_job_though_another_is_on_its_way() {
    let desk = desk(0, 2, Growth::ThreadsFirst, 0);
    let seats = [worker(&desk), worker(&desk)];
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| seats[0].sleep(&Clock::system(), None));
        until_asleep(&seats[0]);
        let handed = desk.turn().place(1, true, false);
        assert!(
            matches!(desk.turn().place(2, true, false), Placed::Handed(wake) if !wake.is_asleep())
        );
        assert_eq!(seats[1].try_take(), Some(2));
        drop(handed);
        assert!(matches!(
            thread.join().expect("it does not panic"),
            Slept::Given { job: 1, .. }
        ));
    });
}

/// Runs `test` on a dispatcher with a busy worker and one that sleeps until it is given the job
/// that `test` returns.
fn with_a_busy_and_a_sleeping_one(test: impl FnOnce(&Plain, &Arc<Seat<u32>>) -> u32) {
    let desk = desk(0, 2, Growth::ThreadsFirst, 0);
    let (sleeper, busy) = (worker(&desk), Arc::new(Seat::new()));
    assert!(desk.turn().may_put_off().is_none(), "nobody is busy");
    assert!(desk.turn().count_thread());
    assert!(desk.turn().may_put_off().is_none(), "one looks on");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| sleeper.sleep(&Clock::system(), None));
        until_asleep(&sleeper);
        let expected = test(&desk, &busy);
        let slept = thread.join().expect("it does not panic");
        assert!(matches!(slept, Slept::Given { job, .. } if job == expected));
    });
}

/// Queues `jobs` and defers their wake-up.
fn put_off<const N: usize>(desk: &Plain, jobs: [u32; N]) {
    let mut turn = desk.turn();
    assert!(turn.may_put_off().is_some());
    turn.extend(jobs);
    turn.put_off();
}

#[test]
fn a_wakeup_is_put_off_for_a_busy_worker_that_comes_at_once() {
    with_a_busy_and_a_sleeping_one(|desk, busy| {
        for job in 0..100 {
            put_off(desk, [job]);
            assert!(desk.is_put_off());
            assert!(
                matches!(desk.turn().place(0, true, false), Placed::Queue(0)),
                "somebody cares"
            );
            assert_eq!(desk.turn().next(busy), Next::Run(job));
            assert!(!desk.is_put_off());
            assert!(desk.turn().make_up().is_none(), "nothing is owed");
        }
        assert!(matches!(
            desk.turn().place(7, true, false),
            Placed::Handed(_)
        ));
        7
    });
}

#[test]
fn a_wakeup_that_was_put_off_is_made_up_for() {
    with_a_busy_and_a_sleeping_one(|desk, busy| {
        // Two jobs are queued: the busy worker takes one, and the wake-up for the other is still
        // owed.
        put_off(desk, [1, 2]);
        assert_eq!(desk.turn().next(busy), Next::Run(1));
        assert!(desk.is_put_off());
        let sent = desk.turn().make_up();
        assert!(matches!(sent, Some(Sent::Idle(wake)) if wake.is_asleep()));
        assert!(!desk.is_put_off());
        2
    });
}

#[test]
fn wakeups_are_not_put_off_in_vain_again_and_again() {
    with_a_busy_and_a_sleeping_one(|desk, _| {
        let mut put_off = 0;
        for _ in 0..1_000 {
            let mut turn = desk.turn();
            if turn.may_put_off().is_some() {
                turn.put_off();
                put_off += 1;
            }
            drop(turn);
            assert!(desk.turn().make_up().is_none(), "nothing waits");
        }
        assert!((30..=40).contains(&put_off), "{put_off}");
        assert!(matches!(
            desk.turn().place(7, true, false),
            Placed::Handed(_)
        ));
        7
    });
}

#[test]
fn who_arrives_sends_the_next_one_after_what_waits() {
    let desk = desk(0, 2, Growth::ThreadsFirst, 1);
    let seat = worker(&desk);
    assert_eq!(desk.reserve().available(), 1);
    desk.turn().push_back(7);
    assert!(
        desk.turn().arrived().is_none(),
        "the one in reserve looks on"
    );
    assert_eq!(seat.try_take(), Some(7));
    assert_eq!(desk.tally().queued, 0);
}

#[test]
fn who_arrives_goes_on_until_a_sleeper_is_woken_or_nothing_waits() {
    let desk = desk(0, 4, Growth::ThreadsFirst, 0);
    let seats: Vec<_> = (0..2).map(|_| worker(&desk)).collect();
    desk.turn().extend([1, 2, 3]);
    // Both workers spin. The third job needs a thread, which is being started for it.
    assert!(matches!(desk.turn().arrived(), Some(Sent::Start)));
    assert_eq!((desk.tally().threads, desk.tally().queued), (3, 1));
    let mut got: Vec<_> = seats.iter().filter_map(|seat| seat.try_take()).collect();
    got.sort_unstable();
    assert_eq!(got, [1, 2]);
    assert!(desk.turn().arrived().is_none(), "one is on its way");
    // The new thread sends the next one in turn, up to the maximum.
    desk.turn().extend([4, 5]);
    let new = Arc::new(Seat::new());
    let (next, sent) = desk.turn().started(&new);
    assert!(next == Next::Run(3) && matches!(sent, Some(Sent::Start)));
    let (next, sent) = desk.turn().started(&new);
    assert!(next == Next::Run(4) && sent.is_none(), "no more may start");
}

#[test]
fn a_job_queued_behind_a_wakeup_gets_a_new_thread_when_the_idle_one_is_claimed() {
    for (growth, starts) in [(Growth::ThreadsFirst, true), (Growth::QueueFirst, false)] {
        let desk = desk(2, 4, growth, 1);
        let (reserved, idle) = (worker(&desk), worker(&desk));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| idle.sleep(&Clock::system(), None));
            until_asleep(&idle);
            let handed = desk.turn().place(1, true, false);
            assert!(matches!(&handed, Placed::Handed(wake) if wake.is_asleep()));
            let Placed::Queue(queued) = desk.turn().place(2, true, false) else {
                panic!("one is on its way, and one is in reserve");
            };
            desk.turn().push_back(queued);
            drop(desk.claim(3).expect("one is in reserve"));
            drop(handed);
            assert!(thread.join().is_ok());
        });
        let sent = desk.turn().arrived();
        assert_eq!(matches!(sent, Some(Sent::Start)), starts, "{growth:?}");
        assert_eq!(reserved.try_take(), Some(3));
    }
}

#[test]
fn a_worker_whose_time_is_up_takes_what_waits_instead_of_leaving() {
    let desk = desk(0, 4, Growth::ThreadsFirst, 0);
    let seats = [worker(&desk), worker(&desk)];
    desk.turn().push_back(7);
    assert_eq!(desk.turn().again(&seats[0], true), Next::Run(7));
    assert_eq!(desk.turn().again(&seats[1], true), Next::Leave);
    assert_eq!(desk.turn().threads(), 1);
    // The same at the end of the pool.
    sit(&desk, &seats[0]);
    desk.turn().push_back(8);
    drop(desk.turn().close());
    assert_eq!(desk.turn().again(&seats[0], false), Next::Run(8));
}

#[test]
fn a_thread_that_could_not_be_started_is_replaced_by_an_idle_one() {
    let desk = desk(0, 2, Growth::ThreadsFirst, 0);
    assert!(matches!(
        desk.turn().place(1, true, false),
        Placed::Start(1)
    ));
    let seat = worker(&desk);
    desk.turn().push_back(2);
    assert!(desk.turn().not_started(false).is_none(), "it looks on");
    assert_eq!(seat.try_take(), Some(2));
    desk.turn().push_back(3);
    assert!(desk.turn().count_for_waiting());
    assert!(!desk.turn().count_for_waiting(), "one for one job");
    assert!(desk.turn().not_started(true).is_none());
    assert!(desk.turn().count_for_waiting(), "it is wanted again");
}

#[test]
fn an_urgent_job_gets_a_thread_beyond_the_core() {
    let desk = desk(1, 2, Growth::QueueFirst, 0);
    assert!(matches!(
        desk.turn().place(1, true, false),
        Placed::Start(1)
    ));
    assert!(matches!(
        desk.turn().place(2, true, false),
        Placed::Queue(2)
    ));
    assert!(matches!(desk.turn().place(3, true, true), Placed::Start(3)));
    assert!(matches!(desk.turn().place(4, true, true), Placed::Queue(4)));
}

#[test]
fn queue_first_begins_with_one_thread_and_counts_leased_ones_apart() {
    let limits = |core, leased| DeskLimits {
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
    let desk = desk(1, 1, Growth::QueueFirst, 1);
    let seat = worker(&desk);
    assert!(matches!(
        desk.turn().place(1, true, false),
        Placed::Handed(_)
    ));
    assert_eq!(seat.try_take(), Some(1));
    assert!(desk.claim(2).is_err());
}

#[test]
fn only_surplus_workers_leave_and_never_one_that_is_claimed() {
    let desk = desk(1, 3, Growth::ThreadsFirst, 1);
    let (reserved, idle) = (worker(&desk), worker(&desk));
    assert!(matches!(desk.turn().again(&idle, false), Next::Wait { .. }));
    drop(desk.claim(1).expect("one is in reserve"));
    assert!(matches!(
        desk.turn().again(&reserved, true),
        Next::Wait { .. }
    ));
    assert_eq!(desk.turn().again(&idle, true), Next::Leave);
    assert_eq!(reserved.try_take(), Some(1));
    sit(&desk, &reserved);
    assert!(matches!(
        desk.turn().again(&reserved, true),
        Next::Wait { .. }
    ));
    drop(desk.turn().close());
    assert_eq!(desk.turn().again(&reserved, false), Next::Leave);
    assert_eq!(desk.tally(), Tally::default());
}

#[test]
fn dismissed_workers_leave_what_they_have_not_begun() {
    let desk = desk(0, 4, Growth::ThreadsFirst, 1);
    let [begun, given, reserved] = [worker(&desk), worker(&desk), worker(&desk)];
    assert_eq!(desk.reserve().available(), 1);
    for _ in 0..2 {
        assert!(matches!(
            desk.turn().place(1, true, false),
            Placed::Handed(_)
        ));
    }
    let seats = [begun, given, reserved];
    let taken: Vec<_> = seats.iter().map(|seat| seat.try_take()).collect();
    assert_eq!(taken.iter().flatten().count(), 2);
    let claimed = desk.claim(3);
    assert!(claimed.is_ok());
    let mut left = Vec::new();
    let mut turn = desk.turn();
    drop(turn.close());
    let wakes = turn.dismiss(&seats, &mut left);
    drop(turn);
    assert_eq!((left, wakes.len()), (vec![3], 3));
    for seat in &seats {
        assert_eq!(seat.give(4), Err(4));
        assert_eq!(seat.sleep(&Clock::system(), None), Slept::Closed);
        assert_eq!(desk.turn().next(seat), Next::Leave);
    }
    assert!(desk.claim(5).is_err());
}

#[test]
fn new_limits_hold_for_everybody_at_once() {
    let desk = desk(3, 3, Growth::ThreadsFirst, 2);
    let seats: Vec<_> = (0..3).map(|_| worker(&desk)).collect();
    let limits = DeskLimits {
        core: 0,
        max: 1,
        leased: 0,
        growth: Growth::QueueFirst,
    };
    drop(desk.turn().set_limits(limits, 0));
    assert_eq!(desk.reserve().available(), 0);
    let left = seats.iter();
    let left = left.filter(|seat| desk.turn().again(seat, false) == Next::Leave);
    assert_eq!(left.count(), 2);
    assert_eq!(desk.turn().threads(), 1);
    assert_eq!(desk.turn().ready(), 1);
}

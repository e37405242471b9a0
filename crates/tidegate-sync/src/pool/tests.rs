//! Jobs and workers meet at the desk, by hand.

use std::collections::VecDeque;
use std::sync::Arc;

use super::*;
use crate::Clock;

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
    Desk::new(VecDeque::new(), DeskLimits { core, max, growth }, reserved)
}

/// Counts a thread and lets it sit down.
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
    // The first one looks on and stays on top; the others went below it, newest last.
    for (job, at) in [(1, 0), (2, 2), (3, 1)] {
        assert!(matches!(desk.turn().place(job, true), Placed::Handed(_)));
        assert_eq!(seats[at].try_take(), Some(job));
    }
    assert!(matches!(desk.turn().place(4, true), Placed::Start(4)));
    assert_eq!(desk.tally().threads, 4);
    assert!(matches!(desk.turn().place(5, true), Placed::Queue(5)));
    assert!(matches!(desk.turn().place(6, false), Placed::Full(6)));
}

#[test]
fn queue_first_grows_when_the_queue_is_full() {
    let desk = desk(1, 2, Growth::QueueFirst, 0);
    assert!(matches!(desk.turn().place(1, true), Placed::Start(1)));
    assert!(matches!(desk.turn().place(2, true), Placed::Queue(2)));
    assert!(matches!(desk.turn().place(3, false), Placed::Start(3)));
    assert!(matches!(desk.turn().place(4, false), Placed::Full(4)));
}

/// Waits until the worker of `seat` sleeps.
fn until_asleep(seat: &Seat<u32>) {
    while seat.is_awake() {
        std::thread::yield_now();
    }
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
        let handed = desk.turn().place(1, true);
        assert!(matches!(&handed, Placed::Handed(wake) if wake.is_asleep()));
        assert!(matches!(desk.turn().place(2, true), Placed::Queue(2)));
        // No room: the other one is taken at once.
        assert!(matches!(desk.turn().place(3, false), Placed::Handed(_)));
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
        let handed = desk.turn().place(1, true);
        assert!(matches!(desk.turn().place(2, true), Placed::Handed(wake) if !wake.is_asleep()));
        assert_eq!(seats[1].try_take(), Some(2));
        drop(handed);
        assert!(matches!(
            thread.join().expect("it does not panic"),
            Slept::Given { job: 1, .. }
        ));
    });
}

/// A desk with a busy worker and one that sleeps until `poke` is run.
fn with_a_busy_and_a_sleeping_one(test: impl FnOnce(&Plain, &Arc<Seat<u32>>) -> u32) {
    let desk = desk(0, 2, Growth::ThreadsFirst, 0);
    let (sleeper, busy) = (worker(&desk), Arc::new(Seat::new()));
    assert!(desk.turn().put_off().is_none(), "nobody is busy");
    assert!(desk.turn().count_thread());
    assert!(desk.turn().put_off().is_none(), "one looks on");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| sleeper.sleep(&Clock::system(), None));
        until_asleep(&sleeper);
        let expected = test(&desk, &busy);
        let slept = thread.join().expect("it does not panic");
        assert!(matches!(slept, Slept::Given { job, .. } if job == expected));
    });
}

#[test]
fn a_wakeup_is_put_off_for_a_busy_worker_that_comes_at_once() {
    with_a_busy_and_a_sleeping_one(|desk, busy| {
        for job in 0..100 {
            assert!(desk.turn().put_off().is_some());
            desk.turn().push_back(job);
            assert!(desk.is_put_off());
            assert!(
                matches!(desk.turn().place(0, true), Placed::Queue(0)),
                "somebody cares"
            );
            assert_eq!(desk.turn().next(busy), Next::Run(job));
            assert!(!desk.is_put_off());
            assert!(desk.turn().make_up().is_none(), "nothing is owed");
        }
        assert!(matches!(desk.turn().place(7, true), Placed::Handed(_)));
        7
    });
}

#[test]
fn a_wakeup_that_was_put_off_is_made_up_for() {
    with_a_busy_and_a_sleeping_one(|desk, busy| {
        // More than one waits: the busy worker takes one, the other one is still owed.
        assert!(desk.turn().put_off().is_some());
        desk.turn().extend([1, 2]);
        assert_eq!(desk.turn().next(busy), Next::Run(1));
        assert!(desk.is_put_off());
        let wake = desk.turn().make_up();
        assert!(wake.is_some_and(|wake| wake.is_asleep()));
        assert!(!desk.is_put_off());
        2
    });
}

#[test]
fn wakeups_are_not_put_off_in_vain_again_and_again() {
    with_a_busy_and_a_sleeping_one(|desk, _| {
        let mut put_off = 0;
        for _ in 0..1_000 {
            put_off += u32::from(desk.turn().put_off().is_some());
            assert!(desk.turn().make_up().is_none(), "nothing waits");
        }
        assert!((30..=40).contains(&put_off), "{put_off}");
        assert!(matches!(desk.turn().place(7, true), Placed::Handed(_)));
        7
    });
}

#[test]
fn who_arrives_sends_the_next_one_after_what_waits() {
    let desk = desk(0, 2, Growth::ThreadsFirst, 1);
    let seat = worker(&desk);
    assert_eq!(desk.reserve().available(), 1);
    desk.turn().push_back(7);
    drop(desk.turn().arrived().expect("somebody in reserve is idle"));
    assert_eq!(seat.try_take(), Some(7));
    assert_eq!(desk.tally().queued, 0);
}

#[test]
fn the_reserve_is_used_before_a_job_waits() {
    let desk = desk(1, 1, Growth::QueueFirst, 1);
    let seat = worker(&desk);
    assert!(matches!(desk.turn().place(1, true), Placed::Handed(_)));
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
fn new_limits_hold_for_everybody_at_once() {
    let desk = desk(3, 3, Growth::ThreadsFirst, 2);
    let seats: Vec<_> = (0..3).map(|_| worker(&desk)).collect();
    let limits = DeskLimits {
        core: 0,
        max: 1,
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

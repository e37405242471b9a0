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

#[test]
fn a_sleeper_on_its_way_holds_back_the_next_wakeup_while_there_is_room() {
    let desk = desk(0, 2, Growth::ThreadsFirst, 0);
    let seats = [worker(&desk), worker(&desk)];
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| seats[0].sleep(&Clock::system(), None));
        while seats[0].is_awake() {
            std::thread::yield_now();
        }
        let handed = desk.turn().place(1, true);
        assert!(matches!(&handed, Placed::Handed(wake) if wake.is_asleep()));
        assert!(matches!(desk.turn().place(2, true), Placed::Queue(2)));
        desk.turn().push_back(2);
        // No room: the other one is taken at once.
        assert!(matches!(desk.turn().place(3, false), Placed::Handed(_)));
        assert_eq!(seats[1].try_take(), Some(3));
        sit_again_finds_the_queue(&desk, &seats[1]);
        drop(handed);
        let (job, asleep) = (1, true);
        assert_eq!(thread.join().unwrap(), Slept::Given { job, asleep });
    });
    assert!(desk.turn().arrived().is_none(), "nothing waits");
}

fn sit_again_finds_the_queue(desk: &Plain, seat: &Arc<Seat<u32>>) {
    assert_eq!(desk.turn().next(seat), Next::Run(2));
    sit(desk, seat);
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

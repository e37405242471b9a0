//! The guarantees of a task lane: order, an exact bound, an atomic close, little memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::thread;

use tidegate_testkit::{Rng, rounds, until, yield_times};

use super::*;

type Seen = Arc<Mutex<Vec<(usize, usize)>>>;

/// Creates a task that records its producer and number; every third one is too large to be inline.
fn noting(seen: &Seen, producer: usize, number: usize) -> Task {
    let seen = Arc::clone(seen);
    if number.is_multiple_of(3) {
        let wide = [number; 6];
        return Task::new(move || note(&seen, producer, wide[5]));
    }
    Task::new(move || note(&seen, producer, number))
}

fn note(seen: &Seen, producer: usize, number: usize) {
    lock(seen).push((producer, number));
}

fn lock(seen: &Seen) -> MutexGuard<'_, Vec<(usize, usize)>> {
    crate::sys::prim::unpoisoned(seen.lock())
}

/// Returns the numbers of the tasks that ran, without their producers.
fn numbers(seen: &Seen) -> Vec<usize> {
    lock(seen).iter().map(|(_, number)| *number).collect()
}

/// Counts how often a task was run and how often it was dropped.
#[derive(Default)]
struct Fate {
    ran: AtomicUsize,
    dropped: AtomicUsize,
}

struct OnDrop(Arc<Fate>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Relaxed);
    }
}

fn fated(fate: &Arc<Fate>, wide: bool) -> Task {
    let held = OnDrop(Arc::clone(fate));
    let run = move || {
        held.0.ran.fetch_add(1, Relaxed);
    };
    if wide {
        let pad = [1_usize; 9];
        return Task::new(move || {
            assert_eq!(pad[8], 1);
            run();
        });
    }
    Task::new(run)
}

/// Creates a task that counts its start.
fn counting(started: &Arc<AtomicUsize>) -> Task {
    let started = Arc::clone(started);
    Task::new(move || {
        started.fetch_add(1, SeqCst);
    })
}

/// Pushes, retrying while the lane is full.
fn insist(lane: &TaskLane, task: Task) {
    let mut task = Some(task);
    until("the lane has room", || {
        let Err(refused) = lane.push(task.take().expect("it came back")) else {
            return true;
        };
        assert_eq!(refused.why(), RejectReason::Full);
        task = Some(refused.into_inner());
        false
    });
}

/// Pushes `count` tasks that do nothing.
fn fill(lane: &TaskLane, count: usize) {
    for _ in 0..count {
        lane.push(Task::new(|| ())).expect("there is room");
    }
}

fn pop_and_run(end: &mut TaskLaneReceiver) -> bool {
    end.pop().map(Task::run).is_some()
}

/// Waits for the next task and runs it; publishes the head when a refused producer asks for it.
fn run_next(end: &mut TaskLaneReceiver) {
    until("a task came and ran", || {
        let ran = pop_and_run(end);
        if !ran && end.take_head_request() {
            end.publish();
        }
        ran
    });
}

#[test]
fn one_producers_tasks_run_in_order_across_chunk_borders() {
    let (lane, mut end) = TaskLane::new(4 * CHUNK);
    let seen = Seen::default();
    let count = 10 * CHUNK + 7;
    let mut pushed = 0;
    while pushed < count {
        for _ in 0..(3 * CHUNK + 5).min(count - pushed) {
            lane.push(noting(&seen, 0, pushed)).expect("there is room");
            pushed += 1;
        }
        while pop_and_run(&mut end) {}
        end.publish();
    }
    let expected: Vec<_> = (0..count).map(|number| (0, number)).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn each_of_four_producers_keeps_its_order() {
    let (lane, mut end) = TaskLane::new(1000);
    let seen = Seen::default();
    let each = rounds(20_000);
    thread::scope(|scope| {
        for producer in 0..4 {
            let (lane, seen) = (&lane, &seen);
            scope.spawn(move || {
                for number in 0..each {
                    insist(lane, noting(seen, producer, number));
                }
            });
        }
        for ran in 1..=4 * each {
            run_next(&mut end);
            if ran.is_multiple_of(64) || end.take_head_request() {
                end.publish();
            }
        }
    });
    let seen = seen.lock().unwrap();
    for producer in 0..4 {
        let of_one = seen.iter().filter(|(by, _)| *by == producer);
        assert!(of_one.map(|(_, number)| *number).eq(0..each));
    }
}

#[test]
fn a_small_bound_is_raised_to_sixteen() {
    for asked in [0, 1, 15, 16] {
        assert_eq!(TaskLane::new(asked).0.bound(), 16);
    }
    assert_eq!(TaskLane::new(17).0.bound(), 17);
}

#[test]
fn the_seventeenth_task_comes_back_and_can_still_run() {
    let (lane, mut end) = TaskLane::new(1);
    let seen = Seen::default();
    for number in 0..16 {
        assert_eq!(lane.push(noting(&seen, 0, number)).unwrap(), number + 1);
    }
    assert!(!end.take_head_request());
    let refused = lane.push(noting(&seen, 0, 16)).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Full);
    refused.into_inner().run();
    assert_eq!(*seen.lock().unwrap(), [(0, 16)]);
    assert_eq!(lane.len(), 16);
    assert!(
        end.take_head_request(),
        "the refused producer requests the head"
    );
    assert!(!end.take_head_request(), "and its request was taken");

    assert!(pop_and_run(&mut end));
    assert!(lane.push(Task::new(|| ())).is_err(), "not published yet");
    end.publish();
    assert!(lane.push(Task::new(|| ())).is_ok());
    assert!(lane.push(Task::new(|| ())).is_err());
}

#[test]
fn with_the_loop_stopped_exactly_the_bound_is_accepted() {
    for bound in [16, 100, CHUNK, CHUNK + 1] {
        let (lane, end) = TaskLane::new(bound);
        let accepted = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..bound {
                        let pushed = lane.push(Task::new(|| ())).is_ok();
                        accepted.fetch_add(usize::from(pushed), Relaxed);
                    }
                });
            }
        });
        assert_eq!((accepted.into_inner(), end.len()), (bound, bound));
    }
}

#[test]
fn with_the_loop_running_the_bound_is_never_exceeded() {
    const BOUND: usize = 16;
    let (lane, mut end) = TaskLane::new(BOUND);
    let (accepted, started) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (each, producers) = (rounds(20_000), 3);
    thread::scope(|scope| {
        for _ in 0..producers {
            scope.spawn(|| {
                for _ in 0..each {
                    insist(&lane, counting(&started));
                    // Incremented after the push and compared with a later count of started tasks,
                    // so this is never more than the number of tasks that really waited.
                    let waiting = accepted.fetch_add(1, SeqCst) + 1;
                    assert!(waiting <= BOUND + started.load(SeqCst));
                }
            });
        }
        for ran in 1..=producers * each {
            assert!(end.len() <= BOUND);
            run_next(&mut end);
            if ran.is_multiple_of(8) || end.take_head_request() {
                end.publish();
            }
        }
    });
    assert_eq!(started.load(SeqCst), producers * each);
}

#[test]
fn what_was_accepted_is_drained_and_what_was_refused_came_back() {
    for round in 0..rounds(150) {
        let (lane, mut end) = TaskLane::new(64);
        let fates: Vec<Vec<Arc<Fate>>> = (0..3)
            .map(|_| (0..40).map(|_| Arc::default()).collect())
            .collect();
        let go = AtomicBool::new(false);
        let (accepted, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut taken = 0;
        thread::scope(|scope| {
            for mine in &fates {
                let (lane, go, accepted, refused) = (&lane, &go, &accepted, &refused);
                scope.spawn(move || {
                    until("the lane is about to be closed", || go.load(Relaxed));
                    for (number, fate) in mine.iter().enumerate() {
                        match lane.push(fated(fate, number % 2 == 0)) {
                            Ok(_) => accepted.fetch_add(1, Relaxed),
                            Err(_) => refused.fetch_add(1, Relaxed),
                        };
                    }
                });
            }
            scope.spawn(|| {
                go.store(true, Relaxed);
                yield_times(round as u64 % 50);
                assert!(lane.close());
                assert!(!lane.close(), "closed before");
            });
            until("the lane is closed", || {
                taken += usize::from(pop_and_run(&mut end));
                end.publish();
                lane.is_closed()
            });
            let left = end.drain();
            taken += left.len();
            left.into_iter().for_each(Task::run);
        });
        assert_eq!(taken, accepted.into_inner());
        assert_eq!(taken + refused.into_inner(), 3 * 40);
        let fates = fates.iter().flatten();
        assert!(fates.clone().all(|fate| fate.dropped.load(Relaxed) == 1));
        assert_eq!(
            fates.map(|fate| fate.ran.load(Relaxed)).sum::<usize>(),
            taken
        );
        assert!(end.is_empty() && end.pop().is_none());
        let late = lane.push(Task::new(|| ())).unwrap_err();
        assert_eq!(late.why(), RejectReason::Closed);
    }
}

#[test]
fn local_reservations_count_against_the_bound() {
    let (lane, mut end) = TaskLane::new(16);
    assert_eq!(end.reserve(10), 10);
    fill(&lane, 6);
    assert_eq!(
        lane.push(Task::new(|| ())).unwrap_err().why(),
        RejectReason::Full
    );
    assert_eq!((end.reserve(1), lane.len(), end.len()), (0, 16, 6));
    end.release(4);
    assert_eq!(end.reserve(100), 4, "as many as there is room for");
    end.release(10);
    assert_eq!(lane.len(), 6);
    lane.close();
    assert_eq!(end.reserve(1), 0, "a closed lane takes nothing");
    assert_eq!(end.drain().len(), 6);
}

#[test]
fn reservations_are_exact_against_concurrent_pushes() {
    for _ in 0..rounds(300) {
        let (lane, end) = TaskLane::new(100);
        let accepted = AtomicUsize::new(0);
        let mut reserved = 0;
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while lane.push(Task::new(|| ())).is_ok() {
                        accepted.fetch_add(1, Relaxed);
                    }
                });
            }
            for turn in 0..100 {
                reserved += end.reserve(2);
                if turn % 4 == 0 && reserved > 0 {
                    end.release(1);
                    reserved -= 1;
                }
            }
            reserved += end.reserve(u32::MAX);
        });
        assert_eq!(accepted.into_inner() + reserved as usize, 100);
        end.release(reserved);
    }
}

#[test]
fn the_index_wraps_around() {
    for behind in [0, 1, CHUNK as u32, 3 * CHUNK as u32 - 1] {
        let (lane, mut end) = TaskLane::starting_at(2 * CHUNK, 0_u32.wrapping_sub(behind));
        let seen = Seen::default();
        let mut number = 0;
        for _ in 0..8 {
            for _ in 0..CHUNK {
                lane.push(noting(&seen, 0, number)).expect("there is room");
                number += 1;
            }
            assert_eq!((lane.len(), end.len()), (CHUNK, CHUNK));
            while pop_and_run(&mut end) {}
            end.publish();
            assert!(end.is_empty() && lane.is_empty());
        }
        assert!(numbers(&seen).into_iter().eq(0..number));
    }
}

#[test]
fn the_bound_is_exact_where_the_index_wraps_around() {
    let (lane, mut end) = TaskLane::starting_at(16, u32::MAX - 3);
    for _ in 0..4 {
        fill(&lane, 16);
        assert!(lane.push(Task::new(|| ())).is_err());
        assert_eq!(end.reserve(1), 0);
        while pop_and_run(&mut end) {}
        end.publish();
    }
}

#[test]
fn a_shallow_lane_keeps_few_chunks() {
    for bound in [16, 65_536] {
        let (lane, mut end) = TaskLane::new(bound);
        let mut most = 0;
        for number in 0..rounds(100_000) {
            lane.push(Task::new(|| ())).expect("there is room");
            assert!(pop_and_run(&mut end));
            if number.is_multiple_of(7) {
                end.publish();
            }
            if number % CHUNK < 3 {
                most = most.max(lane.chunks());
            }
        }
        assert!(most <= 3, "{most} chunks for one task at a time");
    }
}

#[test]
fn a_lane_that_was_deep_gives_its_chunks_back() {
    let (lane, mut end) = TaskLane::new(65_536);
    let deep = 20 * CHUNK;
    fill(&lane, deep);
    assert!((20..=22).contains(&lane.chunks()));
    while pop_and_run(&mut end) {}
    end.publish();
    assert!(lane.chunks() <= 3, "{} chunks when idle", lane.chunks());
}

#[test]
fn a_dropped_end_drops_the_tasks_left_and_closes() {
    let (lane, mut end) = TaskLane::new(3 * CHUNK);
    let fates: Vec<Arc<Fate>> = (0..2 * CHUNK + 3).map(|_| Arc::default()).collect();
    for (number, fate) in fates.iter().enumerate() {
        lane.push(fated(fate, number % 2 == 0))
            .expect("there is room");
    }
    assert!(pop_and_run(&mut end));
    drop(end);
    let ran: usize = fates.iter().map(|fate| fate.ran.load(Relaxed)).sum();
    assert_eq!(ran, 1);
    assert!(fates.iter().all(|fate| fate.dropped.load(Relaxed) == 1));
    let refused = lane.push(fated(&fates[0], false)).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Closed);
}

#[test]
fn a_task_whose_drop_panics_does_not_keep_the_others() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let (lane, end) = TaskLane::new(16);
    let fates: Vec<Arc<Fate>> = (0..4).map(|_| Arc::default()).collect();
    for (number, fate) in fates.iter().enumerate() {
        if number == 2 {
            let bad = Bad;
            lane.push(Task::new(move || drop(bad)))
                .expect("there is room");
        }
        lane.push(fated(fate, false)).expect("there is room");
    }
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(end)));
    assert!(caught.is_err());
    assert!(fates.iter().all(|fate| fate.dropped.load(Relaxed) == 1));
}

/// The reference model of a lane: a queue under a lock.
struct Reference {
    queue: VecDeque<usize>,
    bound: usize,
    /// Taken and not yet published: still counted.
    hidden: usize,
    local: usize,
    closed: bool,
}

impl Reference {
    fn push(&mut self, number: usize) -> Result<usize, RejectReason> {
        if self.closed {
            return Err(RejectReason::Closed);
        }
        if self.waiting() >= self.bound {
            return Err(RejectReason::Full);
        }
        self.queue.push_back(number);
        Ok(self.waiting())
    }

    fn waiting(&self) -> usize {
        self.queue.len() + self.hidden + self.local
    }
}

#[test]
fn agrees_with_a_queue_under_a_lock() {
    for seed in 0..rounds(60) as u64 {
        agrees_with_the_reference(seed);
    }
}

fn agrees_with_the_reference(seed: u64) {
    let mut rng = Rng::new(seed);
    let bound = [16, 40, CHUNK + 3][rng.index(3)];
    let (lane, mut end) = TaskLane::starting_at(bound, u32::MAX - rng.index(2_000) as u32);
    let mut reference = Reference {
        queue: VecDeque::new(),
        bound,
        hidden: 0,
        local: 0,
        closed: false,
    };
    let seen = Seen::default();
    for number in 0..4_000 {
        match rng.index(if number > 3_900 { 101 } else { 100 }) {
            0..50 => {
                let pushed = lane.push(noting(&seen, 0, number));
                let pushed = pushed.map_err(|refused| refused.why());
                let expected = reference.push(number);
                // The number of waiting tasks is computed from a possibly old head: never too
                // small.
                assert!(pushed.unwrap_or(0) >= expected.unwrap_or(0), "seed {seed}");
                assert_eq!(pushed.err(), expected.err(), "seed {seed}");
            }
            50..85 => {
                let ran = pop_and_run(&mut end);
                let expected = reference.queue.pop_front();
                reference.hidden += usize::from(ran);
                let last = numbers(&seen).pop();
                lock(&seen).clear();
                assert_eq!((ran, last), (expected.is_some(), expected), "seed {seed}");
            }
            85..92 => {
                end.publish();
                reference.hidden = 0;
            }
            92..97 => {
                let most = rng.index(10);
                let room = reference.bound - reference.waiting();
                let granted = if reference.closed { 0 } else { most.min(room) };
                assert_eq!(end.reserve(most as u32) as usize, granted, "seed {seed}");
                reference.local += granted;
            }
            97..100 => {
                let count = rng.index(reference.local + 1);
                end.release(count as u32);
                reference.local -= count;
            }
            _ => {
                assert_eq!(lane.close(), !reference.closed, "seed {seed}");
                reference.closed = true;
            }
        }
        assert_eq!(lane.len(), reference.waiting(), "seed {seed}");
        assert_eq!(end.len(), reference.queue.len(), "seed {seed}");
        assert_eq!(end.is_empty(), reference.queue.is_empty(), "seed {seed}");
    }
    lane.close();
    end.drain().into_iter().for_each(Task::run);
    assert_eq!(reference.queue, numbers(&seen), "seed {seed}");
}

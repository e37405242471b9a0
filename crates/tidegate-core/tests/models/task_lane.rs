//! The task lane: claim, write, read, recycle, close.

use super::*;

/// Three threads, three tasks, bound 4 (four directory entries, chunks of two slots).
/// Fails when: the tag is stored or read relaxed.
#[test]
fn two_producers_each_task_once_and_each_producer_in_order() {
    loom::model(|| {
        let (lane, mut end) = TaskLane::new(4);
        let log = Arc::new(Log::default());
        let other = {
            let (lane, log) = (StdArc::clone(&lane), Arc::clone(&log));
            thread::spawn(move || {
                lane.push(note(&log, 1)).expect("there is room");
                lane.push(note(&log, 2)).expect("there is room");
            })
        };
        let third = {
            let (lane, log) = (StdArc::clone(&lane), Arc::clone(&log));
            thread::spawn(move || {
                lane.push(note(&log, 11)).expect("there is room");
            })
        };
        run(&mut end, 3, false);
        other.join().expect("it does not panic");
        third.join().expect("it does not panic");
        assert!(end.is_empty() && end.pop().is_none());
        let seen = log.get();
        let first: Vec<u32> = seen.iter().copied().filter(|&what| what < 10).collect();
        assert_eq!((first, seen.len()), (vec![1, 2], 3));
    });
}

/// Three threads, up to four tasks, bound 4. Every accepted task is drained, every refused one is
/// returned to its producer, and none is both.
#[test]
fn a_push_against_close_is_drained_or_comes_back() {
    loom::model(|| {
        let (lane, mut end) = TaskLane::new(4);
        let log = Arc::new(Log::default());
        let producers: Vec<_> = [2, 1]
            .into_iter()
            .map(|count| {
                let (lane, log) = (StdArc::clone(&lane), Arc::clone(&log));
                thread::spawn(move || {
                    (0..count)
                        .filter(|&what| lane.push(note(&log, what)).is_ok())
                        .count()
                })
            })
            .collect();
        let popped = end.pop().map(Task::run).map_or(0, |()| 1);
        assert!(lane.close());
        let drained = end.drain();
        let count = popped + drained.len();
        drained.into_iter().for_each(Task::run);
        let accepted: usize = producers
            .into_iter()
            .map(|producer| producer.join().expect("it does not panic"))
            .sum();
        assert_eq!((count, log.get().len()), (accepted, accepted));
        assert!(lane.push(Task::new(|| ())).is_err());
    });
}

/// Three threads: the receiver is dropped while two threads push; loom's `Arc` detects a lost task.
#[test]
fn a_dropped_end_drops_what_was_accepted() {
    loom::model(|| {
        let (lane, end) = TaskLane::new(2);
        let log = Arc::new(Log::default());
        let producers: Vec<_> = (0..2)
            .map(|what| {
                let (lane, log) = (StdArc::clone(&lane), Arc::clone(&log));
                thread::spawn(move || drop(lane.push(note(&log, what))))
            })
            .collect();
        drop(end);
        for producer in producers {
            producer.join().expect("it does not panic");
        }
        assert!(lane.is_closed());
    });
}

/// Two threads, five tasks through bound 2: directory entries and chunks are used up to three
/// times.
/// Fails when: `head` is published relaxed; `retire` does not clear the entry or toggle the tag.
#[test]
fn chunks_are_recycled_under_a_running_producer() {
    loom::model(|| {
        let (lane, mut end) = TaskLane::new(2);
        let log = Arc::new(Log::default());
        let producer = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                for what in 0..5 {
                    push(&lane, note(&log, what));
                }
            })
        };
        run(&mut end, 5, true);
        producer.join().expect("it does not panic");
        assert_eq!(log.get(), [0, 1, 2, 3, 4]);
    });
}

/// Two threads, five tasks, bound 6, nothing published: the producer reaches a used chunk without
/// having read a `head` that was published after its reuse.
/// Fails when: `retire` installs the chunk relaxed.
#[test]
fn a_used_chunk_is_reached_before_the_head_is_published() {
    loom::model(|| {
        let (lane, mut end) = TaskLane::new(6);
        let log = Arc::new(Log::default());
        lane.push(note(&log, 0)).expect("there is room");
        lane.push(note(&log, 1)).expect("there is room");
        let producer = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                for what in 2..5 {
                    lane.push(note(&log, what)).expect("there is room");
                }
            })
        };
        run(&mut end, 5, false);
        producer.join().expect("it does not panic");
        assert_eq!(log.get(), [0, 1, 2, 3, 4]);
    });
}

/// Three threads, up to five tasks through bound 2: the producer that reaches a recycled entry is
/// not the one that saw the entry become free. Each tries once.
/// Fails when: `head` is read relaxed.
#[test]
fn a_producer_that_comes_late_finds_the_recycled_chunk() {
    loom::model(|| {
        let (lane, mut end) = TaskLane::new(2);
        let log = Arc::new(Log::default());
        lane.push(note(&log, 0)).expect("there is room");
        lane.push(note(&log, 1)).expect("there is room");
        run(&mut end, 1, true);
        lane.push(note(&log, 2)).expect("there is room");
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (lane, log) = (StdArc::clone(&lane), Arc::clone(&log));
                thread::spawn(move || usize::from(lane.push(note(&log, 9)).is_ok()))
            })
            .collect();
        run(&mut end, 2, true);
        let accepted: usize = producers
            .into_iter()
            .map(|producer| producer.join().expect("it does not panic"))
            .sum();
        run(&mut end, accepted, true);
        assert!(end.is_empty());
        assert_eq!(log.get(), [0, 1, 2, 9, 9][..3 + accepted]);
    });
}

/// Three threads, up to six tasks through bound 2: two producers fill a recycled entry by the
/// `seen` that a third producer (the model's own thread) has stored without a claim. Each pushes
/// once, since a second push would come after the fence that loom has at the end of the first.
/// Fails when: `seen` is stored or loaded relaxed.
#[test]
fn producers_go_by_the_head_that_another_has_seen() {
    loom::model(|| {
        let (lane, mut end) = TaskLane::new(2);
        let log = Arc::new(Log::default());
        lane.push(note(&log, 0)).expect("there is room");
        lane.push(note(&log, 1)).expect("there is room");
        run(&mut end, 1, true);
        lane.push(note(&log, 2)).expect("there is room");
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (lane, log) = (StdArc::clone(&lane), Arc::clone(&log));
                thread::spawn(move || usize::from(lane.push(note(&log, 9)).is_ok()))
            })
            .collect();
        run(&mut end, 2, true);
        let mine = usize::from(lane.push(note(&log, 9)).is_ok());
        let theirs: usize = producers
            .into_iter()
            .map(|producer| producer.join().expect("it does not panic"))
            .sum();
        run(&mut end, mine + theirs, true);
        assert!(end.is_empty());
        assert_eq!(log.get(), [0, 1, 2, 9, 9, 9][..3 + mine + theirs]);
    });
}

/// Three threads, bound 2: two pushes against one reservation; exactly two of the three succeed.
/// Fails when: a reservation is not counted, or counted after the check.
#[test]
fn reservations_and_pushes_share_one_exact_bound() {
    loom::model(|| {
        let (lane, end) = TaskLane::new(2);
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let lane = StdArc::clone(&lane);
                thread::spawn(move || u32::from(lane.push(Task::new(|| ())).is_ok()))
            })
            .collect();
        let reserved = end.reserve(1);
        let accepted: u32 = producers
            .into_iter()
            .map(|producer| producer.join().expect("it does not panic"))
            .sum();
        assert_eq!((accepted + reserved, lane.len()), (2, 2));
    });
}

/// Retries until the lane accepts the task.
fn push(lane: &TaskLane, mut task: Task) {
    while let Err(refused) = lane.push(task) {
        task = refused.into_inner();
        thread::yield_now();
    }
}

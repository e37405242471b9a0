//! One timed run: producers that all start at a barrier, one consumer, until the last task has run.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::lane::{self, Lane, STEP};

/// One timed run's shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    /// Who runs, for error messages.
    pub(super) contestant: &'a str,
    /// Threads that submit.
    pub(super) producers: usize,
    /// Tasks of all producers together.
    pub(super) tasks: u64,
    /// How many tasks may be outstanding when the harness has to see to it.
    pub(super) window: Option<usize>,
}

/// Runs it: the time from the moment the first producer passed the barrier to the last task.
pub(super) fn drive(run: Run<'_>, submit: &(impl Fn(&'static Lane, u64) + Sync)) -> Duration {
    let shares = shares(run.tasks, run.producers);
    let lanes = lane::prepare(&shares);
    let window = run.window.map(|window| (window / run.producers) as u64);
    let barrier = Barrier::new(run.producers + 1);
    let elapsed = thread::scope(|scope| {
        let produce = |lane, share| {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                let began = Instant::now();
                match window {
                    Some(window) => produce_within(window, lane, share, submit),
                    None => (0..share).for_each(|number| submit(lane, number)),
                }
                began
            })
        };
        let producers: Vec<_> = lanes
            .iter()
            .zip(&shares)
            .map(|(lane, &share)| produce(lane, share))
            .collect();
        barrier.wait();
        lane::FINISH.wait(run.contestant);
        let ended = Instant::now();
        let begins = producers
            .into_iter()
            .map(|producer| producer.join().expect("a producer does not panic"));
        let began = begins.min().expect("there is at least one producer");
        ended.duration_since(began)
    });
    lanes.iter().for_each(|lane| lane.check(run.contestant));
    elapsed
}

/// Submits `share` tasks with never more than `window` of this lane outstanding; yields while it is full.
fn produce_within(
    window: u64,
    lane: &'static Lane,
    share: u64,
    submit: &impl Fn(&'static Lane, u64),
) {
    assert!(
        window >= 2 * STEP,
        "a window must hold two steps, or the lane stalls"
    );
    let mut number = 0;
    while number < share {
        let end = share.min(number + STEP);
        while end > lane.ran() + window {
            thread::yield_now();
        }
        for number in number..end {
            submit(lane, number);
        }
        number = end;
    }
}

/// `tasks` in `producers` parts that differ by at most one; every part has at least one task.
fn shares(tasks: u64, producers: usize) -> Vec<u64> {
    let count = producers as u64;
    let tasks = tasks.max(count);
    (0..count)
        .map(|place| tasks / count + u64::from(place < tasks % count))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        assert_eq!(shares(10, 4), [3, 3, 2, 2]);
        assert_eq!(shares(0, 2), [1, 1]);
    }
}

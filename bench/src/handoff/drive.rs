//! One timed run: the producers start together at a barrier, and the run ends when the consumer has
//! run the last task.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::lane::{self, Lane, STEP};

/// The parameters of one timed run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    /// The name of the contestant, for error messages.
    pub(super) contestant: &'a str,
    /// Number of threads that submit.
    pub(super) producers: usize,
    /// Number of tasks of all producers together.
    pub(super) tasks: u64,
    /// The maximum number of outstanding tasks, if the harness enforces it.
    pub(super) window: Option<usize>,
}

/// Runs the tasks and returns the time from the first producer's start at the barrier to the last
/// task.
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

/// Submits `share` tasks with at most `window` tasks of this lane outstanding; yields while it is
/// full.
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

/// Splits `tasks` into `producers` parts that differ by at most one; every part has at least one
/// task.
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

//! Models of the word of a timeout and of the lane that carries it.

use super::*;

use tidegate_core::Parker;
use tidegate_core::internal::Doorbell;
use tidegate_timer::internal::{TimeoutLane, TimeoutNode, TimeoutOutcome};

/// Three threads, one timeout: a cancel, an expiry and a reset. One of the first two gets the
/// value, and a reset that succeeded is not overtaken by the old deadline.
/// Fails when: `expire` does not compare the deadline.
#[test]
fn one_fate_and_one_taker() {
    loom::model(|| {
        let log = Arc::new(Log::default());
        let cell = TimeoutNode::new(5, Arc::clone(&log));
        let canceller = {
            let cell = StdArc::clone(&cell);
            thread::spawn(move || {
                cell.decide(TimeoutOutcome::Cancelled)
                    .map(|log| log.note(1))
                    .is_some()
            })
        };
        let resetter = {
            let cell = StdArc::clone(&cell);
            thread::spawn(move || cell.reset(9).is_granted())
        };
        let expired = cell.expire(5).map(|log| log.note(2)).is_ok();
        let cancelled = canceller.join().expect("it does not panic");
        let reset = resetter.join().expect("it does not panic");
        assert!(!(expired && cancelled));
        assert!(
            !(expired && reset),
            "the old deadline came after the new one"
        );
        assert!(expired || cancelled || cell.deadline() == Some(9));
        assert_eq!(
            log.get().len(),
            usize::from(expired) + usize::from(cancelled)
        );
    });
}

/// Two threads, one cell in the lane: it is cancelled and pushed again while the owner takes. The
/// owner sees the cancellation in its last `take` at the latest.
/// Fails when: `queued` is not cleared when the batch returns the cell.
#[test]
fn the_last_news_of_a_cell_is_seen() {
    loom::model(|| {
        let lane = StdArc::new(TimeoutLane::new());
        let cell = TimeoutNode::new(5, ());
        assert!(lane.push(&cell));
        let canceller = {
            let (lane, cell) = (StdArc::clone(&lane), StdArc::clone(&cell));
            thread::spawn(move || {
                assert!(cell.decide(TimeoutOutcome::Cancelled).is_some());
                assert!(lane.push(&cell));
            })
        };
        let mut seen = false;
        for cell in lane.take() {
            seen |= cell.outcome().is_some();
        }
        canceller.join().expect("it does not panic");
        for cell in lane.take() {
            seen |= cell.outcome().is_some();
        }
        assert!(seen);
        assert!(lane.is_empty());
    });
}

/// Three threads: two push a cell each while the owner closes. Each cell is in the last batch, in
/// the one before, or rejected.
#[test]
fn a_cell_is_taken_or_refused() {
    loom::model(|| {
        let lane = StdArc::new(TimeoutLane::new());
        let pushers: Vec<_> = (0..2)
            .map(|number| {
                let lane = StdArc::clone(&lane);
                thread::spawn(move || {
                    let cell = TimeoutNode::new(number, ());
                    usize::from(lane.push(&cell))
                })
            })
            .collect();
        let taken = lane.take().count() + lane.close().count();
        let accepted: usize = pushers
            .into_iter()
            .map(|pusher| pusher.join().expect("it does not panic"))
            .sum();
        assert_eq!(taken, accepted);
    });
}

/// Two threads: one pushes and rings, the other sleeps by the doorbell. No wake-up is lost, even if
/// the cell was already in the lane.
/// Fails when: there is no fence in `TimeoutLane::push`, or a swap of `queued` is relaxed.
#[test]
fn no_timeout_is_slept_over() {
    loom::model(|| {
        let shared = StdArc::new((TimeoutLane::new(), Doorbell::new(), Parker::new()));
        let cell = TimeoutNode::new(5, ());
        let pusher = {
            let (shared, cell) = (StdArc::clone(&shared), StdArc::clone(&cell));
            thread::spawn(move || {
                for deadline in [4, 3] {
                    assert!(cell.reset(deadline).is_granted());
                    assert!(shared.0.push(&cell));
                    if shared.1.ring() {
                        shared.2.unpark();
                    }
                }
            })
        };
        let mut latest = 5;
        while latest != 3 {
            for cell in shared.0.take() {
                latest = cell.deadline().expect("it is not decided yet");
            }
            if latest == 3 {
                break;
            }
            shared.1.arm(u64::MAX);
            if shared.0.is_empty() {
                shared.2.park(None);
            }
            shared.1.disarm();
        }
        pusher.join().expect("it does not panic");
    });
}

//! Models of loans that no thread of the pool takes: the monitor takes care of each of them.

use tidegate_pool::internal::StarvationDetector;

use super::*;

/// A producer, what the monitor knows of its pool, and a task that needs production to continue.
struct Busy {
    cell: ProducerCell<Log>,
    starvation_detector: StarvationDetector,
    /// Incremented by the thread that produces. Relaxed, because the parker orders it.
    went_on: AtomicUsize,
}

impl Busy {
    /// Creates a strategy whose pool was seen to be brisk.
    fn new() -> StdArc<Self> {
        let starvation_detector = StarvationDetector::new();
        starvation_detector.record_scan(50, 0);
        starvation_detector.record_scan(100, 0);
        StdArc::new(Self {
            cell: ProducerCell::new(Box::new(Log::default())),
            starvation_detector,
            went_on: AtomicUsize::new(0),
        })
    }

    fn lend(&self, held: ProducerGuard<'_, Log>) -> u64 {
        held.lend(false).number
    }

    /// Produces once and rests.
    fn go_on(&self, held: ProducerGuard<'_, Log>) {
        held.note(7);
        self.went_on.fetch_add(1, Relaxed);
        assert!(
            matches!(held.finish_round(), RestResult::Idle),
            "no other thread requested it"
        );
    }
}

/// Two threads. A task that was lent in a brisk pool blocks until production continues, and every
/// thread of the pool is blocked too. The monitor sees the loan in two scans. If it did not find
/// the loan held, production would never continue, and loom would report the deadlock.
/// Seen to fail when: a promise holds for every loan, `snapshot` or `lend` is relaxed, or a scan
/// that finds the pool blocked does not reset that it is brisk.
#[test]
fn a_loan_that_no_thread_of_the_pool_can_take_over_is_found_held() {
    loom::model(|| {
        let busy = Busy::new();
        let parker = Parker::new();
        let monitor = {
            let (busy, parker) = (StdArc::clone(&busy), parker.clone());
            thread::spawn(move || {
                let mut seen = busy.cell.snapshot();
                while !seen.lent {
                    thread::yield_now();
                    seen = busy.cell.snapshot();
                }
                // The second scan. The helper that is sent stays in the queue of a blocked pool.
                assert!(busy.starvation_detector.send(seen.loans));
                busy.starvation_detector.record_scan(100, 0);
                if busy.starvation_detector.is_held(seen.loans)
                    && let Some(held) = busy.cell.take_loan(seen.loans)
                {
                    busy.go_on(held);
                    parker.unpark();
                }
            })
        };
        let held = busy.cell.claim().expect("idle");
        busy.lend(held);
        while busy.went_on.load(Relaxed) == 0 {
            parker.park(None);
        }
        assert!(
            busy.cell.resume().is_none(),
            "another thread has ended the round"
        );
        monitor.join().expect("it does not panic");
        let held = busy.cell.claim().expect("idle again");
        assert_eq!(held.get(), [7]);
        drop(held.finish_round());
    });
}

/// Three threads. The helper from the queue and the stand-in come for one loan while its task
/// ends. One of the three continues producing, and a stand-in that gives the producer back to a
/// helper leaves nothing behind.
/// Seen to fail when: `lend` leaves the cell idle or is relaxed, or `arrive` leaves `PENDING`.
#[test]
fn a_stand_in_a_helper_and_the_task_that_ends_never_share_a_producer() {
    loom::model(|| {
        let busy = Busy::new();
        let held = busy.cell.claim().expect("idle");
        let loan = busy.lend(held);
        assert!(busy.starvation_detector.send(loan));
        let helper = {
            let busy = StdArc::clone(&busy);
            thread::spawn(move || {
                busy.starvation_detector.helper_done(loan);
                if let Some(held) = busy.cell.take_loan(loan) {
                    busy.go_on(held);
                }
            })
        };
        let stand_in = {
            let busy = StdArc::clone(&busy);
            thread::spawn(move || {
                let Some(held) = busy.cell.take_loan(loan) else {
                    return;
                };
                held.note(1);
                assert!(held.lend_to_queue().bring_helper);
                // The helper that it queued arrives.
                if let Some(held) = busy.cell.arrive() {
                    busy.go_on(held);
                }
            })
        };
        if let Some(held) = busy.cell.resume() {
            busy.go_on(held);
        }
        helper.join().expect("it does not panic");
        stand_in.join().expect("it does not panic");
        assert_eq!(busy.went_on.load(Relaxed), 1);
        assert!(busy.cell.is_idle() && !busy.cell.is_helper_pending());
    });
}

/// Two threads. The helper for the first loan arrives late, while the monitor sends one for the
/// second. The end of the first helper does not hide that the second is on its way.
/// Seen to fail when: `helper_done` clears any record, `send` does not check what was sent, or
/// `take_loan` does not compare the number.
#[test]
fn the_end_of_one_helper_does_not_hide_the_next() {
    loom::model(|| {
        let busy = Busy::new();
        let held = busy.cell.claim().expect("idle");
        let first = busy.lend(held);
        assert!(busy.starvation_detector.send(first));
        busy.starvation_detector.promise(first);
        let helper = {
            let busy = StdArc::clone(&busy);
            thread::spawn(move || {
                busy.starvation_detector.helper_done(first);
                busy.cell.take_loan(first).map(|held| busy.go_on(held))
            })
        };
        let sent = busy.cell.resume().map(|held| {
            let second = busy.lend(held);
            assert!(busy.starvation_detector.send(second));
            busy.starvation_detector.promise(second);
            second
        });
        let taken = helper.join().expect("it does not panic");
        match sent {
            None => assert!(taken.is_some(), "a thread has the first loan"),
            Some(second) => {
                assert!(taken.is_none(), "the first loan was over");
                assert!(!busy.starvation_detector.send(second), "one is on its way");
                assert!(busy.starvation_detector.is_promised(second));
                let held = busy.cell.take_loan(second).expect("it lies there");
                busy.go_on(held);
            }
        }
    });
}

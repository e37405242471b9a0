//! Models of reserved stand-ins: whatever the monitor does meanwhile, a task that blocks is taken
//! over.

use tidegate_pool::internal::{MonitorState, NotifyResult, StandInSlot};

use super::*;

/// A producer, its monitor's state, its stand-in, and a task that needs production to continue.
struct Watched {
    cell: ProducerCell<Log>,
    monitor_state: MonitorState,
    stand_in_slot: StandInSlot<u32>,
    parker: Parker,
    /// Incremented by the thread that produces. Relaxed, because the parker orders it.
    went_on: AtomicUsize,
}

impl Watched {
    fn new(stand_in: Option<u32>) -> StdArc<Self> {
        let stand_in_slot = StandInSlot::new();
        if let Some(one) = stand_in {
            stand_in_slot.put(one).expect("it is empty");
        }
        StdArc::new(Self {
            cell: ProducerCell::new(Box::new(Log::default())),
            monitor_state: MonitorState::new(),
            stand_in_slot,
            parker: Parker::new(),
            went_on: AtomicUsize::new(0),
        })
    }

    /// Produces once, and rests.
    fn go_on(&self, held: ProducerGuard<'_, Log>) {
        held.note(7);
        drop(held.finish_round());
        self.went_on.fetch_add(1, Relaxed);
        self.parker.unpark();
    }

    /// Lends, and runs a task that blocks until production has continued.
    fn lend_and_block(&self, held: ProducerGuard<'_, Log>, task: u32) {
        drop(held.lend(false));
        match self.monitor_state.notify() {
            NotifyResult::Awake => {}
            NotifyResult::Woken => {
                if !self.stand_in_slot.is_surely_ready() {
                    self.stand_in_slot.put(task).expect("there was none");
                }
            }
            NotifyResult::Over => {
                if let Some(held) = self.cell.resume() {
                    // The producer is no longer lent, so the task must not block here.
                    return self.go_on(held);
                }
            }
        }
        while self.went_on.load(Relaxed) == 0 {
            self.parker.park(None);
        }
    }

    /// Makes the last scan, on the thread that stops the monitor.
    fn shutdown(&self) {
        assert!(self.monitor_state.end());
        let seen = self.cell.snapshot();
        if seen.lent
            && self.stand_in_slot.take().is_some()
            && let Some(held) = self.cell.take_loan(seen.loans)
        {
            self.go_on(held);
        }
    }
}

/// Two threads: the monitor stops while a producer lends. Its last scan finds the loan, or the
/// producer finds the monitor stopped. Otherwise the task would block for ever, and loom would
/// report the deadlock.
/// Seen to fail when: `end` has no fence, `lend` has none, or the last scan comes before `end`.
#[test]
fn a_monitor_that_stops_finds_a_loan_or_is_found_stopped() {
    loom::model(|| {
        let line = Watched::new(Some(1));
        let stopper = {
            let line = StdArc::clone(&line);
            thread::spawn(move || line.shutdown())
        };
        let held = line.cell.claim().expect("idle");
        line.lend_and_block(held, 2);
        stopper.join().expect("it does not panic");
        assert_eq!(line.went_on.load(Relaxed), 1);
    });
}

/// Three threads: the stand-in is on its way to a loan that ends, the producer lends once more and
/// blocks, and the monitor stops. Its last scan may find no reserved stand-in. The stand-in comes
/// back and takes the loan, which no scan will find any more.
/// Seen to fail when: the stand-in does not check whether the monitor has stopped, checks before
/// it puts itself back, or checks by relaxed loads.
#[test]
fn a_stand_in_that_is_away_at_the_last_look_comes_by_itself() {
    loom::model(|| {
        let line = Watched::new(None);
        let first = line.cell.claim().expect("idle").lend(false).number;
        let stand_in = {
            let line = StdArc::clone(&line);
            thread::spawn(move || {
                if let Some(held) = line.cell.take_loan(first) {
                    return line.go_on(held);
                }
                line.stand_in_slot.put(1).expect("it is alone");
                if line.monitor_state.is_surely_over()
                    && line.stand_in_slot.take().is_some()
                    && line.cell.snapshot().lent
                    && let Some(held) = line.cell.resume()
                {
                    line.go_on(held);
                }
            })
        };
        let stopper = {
            let line = StdArc::clone(&line);
            thread::spawn(move || line.shutdown())
        };
        if let Some(held) = line.cell.resume() {
            line.lend_and_block(held, 2);
        }
        stand_in.join().expect("it does not panic");
        stopper.join().expect("it does not panic");
        assert_eq!(line.went_on.load(Relaxed), 1);
    });
}

/// Two threads: the monitor falls asleep and releases the stand-in while a producer lends. The
/// monitor finds the loan and keeps the stand-in, or the producer wakes it and reserves another.
/// Seen to fail when: `sleep` has no fence, the stand-in is released after the last scan, or the
/// producer does not check for it again.
#[test]
fn a_stand_in_that_is_sent_away_is_kept_or_missed() {
    loom::model(|| {
        let line = Watched::new(Some(1));
        let monitor = {
            let line = StdArc::clone(&line);
            thread::spawn(move || {
                assert!(line.monitor_state.sleep());
                let one = line.stand_in_slot.take();
                let mut seen = line.cell.snapshot();
                if seen.lent {
                    if let Some(one) = one {
                        // If refused, the producer has reserved another one.
                        let _ = line.stand_in_slot.put(one);
                    }
                    line.monitor_state.wake();
                } else {
                    while !seen.lent {
                        thread::yield_now();
                        seen = line.cell.snapshot();
                    }
                }
                // If woken before the producer has reserved a stand-in, the monitor checks again.
                while line.stand_in_slot.take().is_none() {
                    thread::yield_now();
                }
                let held = line.cell.take_loan(seen.loans).expect("it lies there");
                line.go_on(held);
            })
        };
        let held = line.cell.claim().expect("idle");
        line.lend_and_block(held, 2);
        monitor.join().expect("it does not panic");
        assert_eq!(line.went_on.load(Relaxed), 1);
    });
}

/// Two threads: a task has lent its producer, and a helper takes it, finds no work and rests. The
/// task requests a round from inside and waits for it: it sends a helper if no thread produces.
/// Seen to fail when: `request_from_task` does not return that the cell is idle.
#[test]
fn demand_from_inside_a_task_reaches_a_thread() {
    loom::model(|| {
        let line = Watched::new(None);
        let work = StdArc::new(AtomicUsize::new(0));
        let loan = line.cell.claim().expect("idle").lend(false).number;
        let drive = |line: &Watched, work: &AtomicUsize, mut held: ProducerGuard<'_, Log>| {
            loop {
                if work.swap(0, Relaxed) > 0 {
                    line.went_on.fetch_add(1, Relaxed);
                    line.parker.unpark();
                }
                match held.finish_round() {
                    RestResult::Again(again) => held = again,
                    RestResult::Idle | RestResult::GivenUp(_) => return,
                }
            }
        };
        let helper = {
            let (line, work) = (StdArc::clone(&line), StdArc::clone(&work));
            thread::spawn(move || {
                if let Some(held) = line.cell.take_loan(loan) {
                    drive(&line, &work, held);
                }
            })
        };
        // Inside the task.
        work.fetch_add(1, Relaxed);
        let helped = line.cell.request_from_task().then(|| {
            let (line, work) = (StdArc::clone(&line), StdArc::clone(&work));
            thread::spawn(move || {
                if let Some(held) = line.cell.resume() {
                    drive(&line, &work, held);
                }
            })
        });
        while line.went_on.load(Relaxed) == 0 {
            line.parker.park(None);
        }
        helper.join().expect("it does not panic");
        if let Some(helped) = helped {
            helped.join().expect("it does not panic");
        }
        assert!(line.cell.is_idle());
    });
}

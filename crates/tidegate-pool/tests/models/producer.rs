//! Models of the right to produce: no two threads have it, no demand is lost, and no loan is
//! missed.

use super::*;

/// State shared by a producer and the threads that give it work.
struct Line {
    cell: ProducerCell<Log>,
    /// Pending units of work. Relaxed, because the cell has to order it.
    work: AtomicUsize,
    done: AtomicUsize,
}

impl Line {
    fn new(work: usize) -> StdArc<Self> {
        StdArc::new(Self {
            cell: ProducerCell::new(Box::new(Log::default())),
            work: AtomicUsize::new(work),
            done: AtomicUsize::new(0),
        })
    }

    /// Does all pending work, then rests; repeats if another round was requested.
    fn drive(&self, held: ProducerGuard<'_, Log>) {
        let mut held = held;
        loop {
            held.note(0);
            while self.work.load(Relaxed) > 0 {
                self.work.fetch_sub(1, Relaxed);
                self.done.fetch_add(1, Relaxed);
            }
            match held.finish_round() {
                RestResult::Again(again) => held = again,
                RestResult::Idle | RestResult::GivenUp(_) => return,
            }
        }
    }

    fn give(&self) {
        self.work.fetch_add(1, Relaxed);
        if let Some(held) = self.cell.claim() {
            self.drive(held);
        }
    }
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("it does not panic");
    }
}

/// Three threads, one unit of work each: the producing thread does all of it, alone.
/// Fails when: `rest` does not check for demand, `claim` is relaxed or does not leave demand.
#[test]
fn demand_is_never_lost_and_a_producer_is_alone() {
    loom::model(|| {
        let line = Line::new(0);
        let others = (0..2).map(|_| {
            let line = StdArc::clone(&line);
            thread::spawn(move || line.give())
        });
        let others = others.collect();
        line.give();
        join(others);
        assert_eq!(line.done.load(Relaxed), 3);
        assert!(line.cell.is_idle());
    });
}

/// Three threads: one lends its producer and runs a task, a helper arrives, a third thread
/// requests a round. One of them continues producing, and the pending work is done.
/// Fails when: `lend` leaves the cell idle, or `arrive` and `resume` are relaxed.
#[test]
fn a_lent_producer_is_continued_by_one_of_the_threads_that_claim_it() {
    loom::model(|| {
        let line = Line::new(0);
        let held = line.cell.claim().expect("idle");
        held.note(1);
        let loan = held.lend(true);
        assert!(loan.bring_helper);
        let helper = {
            let line = StdArc::clone(&line);
            thread::spawn(move || {
                if let Some(held) = line.cell.arrive() {
                    line.drive(held);
                }
            })
        };
        let requester = {
            let line = StdArc::clone(&line);
            thread::spawn(move || line.give())
        };
        if let Some(held) = line.cell.resume() {
            line.drive(held);
        }
        join(vec![helper, requester]);
        assert_eq!(line.done.load(Relaxed), 1);
        assert!(line.cell.is_idle() && !line.cell.is_helper_pending());
    });
}

/// Two threads: the monitor's helper takes a loan over while its own thread comes back. Exactly
/// one of them gets the producer, and only by the loan that was seen.
/// Fails when: `take_loan` does not compare the number, or either is a plain load and store.
#[test]
fn a_loan_is_taken_over_or_taken_back_never_both() {
    loom::model(|| {
        let line = Line::new(2);
        let first = line.cell.claim().expect("idle").lend(false).number;
        let helper = {
            let line = StdArc::clone(&line);
            thread::spawn(move || match line.cell.take_loan(first) {
                Some(held) => {
                    line.drive(held);
                    1
                }
                None => 0,
            })
        };
        let mut came_back = 0;
        if let Some(held) = line.cell.resume() {
            came_back = 1;
            held.note(2);
            // The next loan has another number: the helper must not mistake it for the first.
            let second = held.lend(false).number;
            assert_eq!(second, first + 1);
            let held = line.cell.resume().expect("no thread takes the second loan");
            line.drive(held);
        }
        let taken = helper.join().expect("it does not panic");
        assert_eq!(taken + came_back, 1);
        assert_eq!(line.done.load(Relaxed), 2);
    });
}

/// Two threads: a producer lends and then checks the doorbell, the monitor arms the doorbell and
/// then checks the cell. A monitor that missed the loan would never wake, and loom would report
/// the deadlock.
/// Fails when: `lend` or `arm` has no fence.
#[test]
fn no_loan_is_slept_over_by_the_monitor() {
    loom::model(|| {
        let line = Line::new(0);
        let (bell, parker) = (StdArc::new(Doorbell::new()), Parker::new());
        let producer = {
            let (line, bell, parker) = (StdArc::clone(&line), StdArc::clone(&bell), parker.clone());
            thread::spawn(move || {
                let held = line.cell.claim().expect("idle");
                let loan = held.lend(false);
                if bell.ring() {
                    parker.unpark();
                }
                loan.number
            })
        };
        let mut seen = 0;
        while seen == 0 {
            bell.arm(u64::MAX);
            match line.cell.snapshot() {
                snapshot if snapshot.lent || snapshot.loans > 0 => seen = snapshot.loans,
                _ => {
                    parker.park(None);
                }
            }
            bell.disarm();
        }
        assert_eq!(seen, producer.join().expect("it does not panic"));
        let held = line.cell.take_loan(seen).expect("it lies there");
        line.drive(held);
    });
}

/// Three threads: one produces, one stops, one adds work. Afterwards the producer was dropped once
/// and the cell can be opened again.
/// Fails when: `close` reads the box before it has cleared `HOME`, or `rest` ignores the stop.
#[test]
fn a_stop_ends_the_producer_once() {
    loom::model(|| {
        let line = Line::new(1);
        let stopper = {
            let line = StdArc::clone(&line);
            thread::spawn(move || {
                if let CloseResult::Home(log) = line.cell.close() {
                    drop(log.get());
                }
            })
        };
        let giver = {
            let line = StdArc::clone(&line);
            thread::spawn(move || line.give())
        };
        if let Some(held) = line.cell.claim() {
            let loan = held.lend(false);
            if loan.given_up.is_none()
                && let Some(held) = line.cell.resume()
            {
                line.drive(held);
            }
        }
        join(vec![stopper, giver]);
        assert!(line.cell.is_over());
        assert!(line.cell.reopen(Box::default()).is_ok());
        let held = line.cell.claim().expect("open and idle");
        held.note(9);
        assert_eq!(held.get(), [9], "the new one");
        line.drive(held);
        assert_eq!(line.work.load(Relaxed), 0);
    });
}

/// Two threads: one stops, the other tries to open the cell again with another producer. The
/// thread that reads the old box has finished before the new one is put in.
/// Fails when: `close` leaves `HOME` set while it reads the box, or sets it relaxed.
#[test]
fn a_cell_is_opened_again_only_after_the_stop() {
    loom::model(|| {
        let line = Line::new(0);
        let stopper = {
            let line = StdArc::clone(&line);
            thread::spawn(move || matches!(line.cell.close(), CloseResult::Home(_)))
        };
        let mut fresh = Box::new(Log::default());
        fresh.note(9);
        while let Err(back) = line.cell.reopen(fresh) {
            fresh = back;
            thread::yield_now();
        }
        assert!(stopper.join().expect("it does not panic"));
        let held = line.cell.claim().expect("open and idle");
        assert_eq!(held.get(), [9], "the new one");
        line.drive(held);
    });
}

/// Two threads: one holds the producer, the other stops and opens the cell again. The new producer
/// is put in only after the old one was given up.
/// Fails when: `give_up` is relaxed, or sets `HOME` before it has the box.
#[test]
fn a_cell_is_opened_again_only_after_the_holder() {
    loom::model(|| {
        let line = Line::new(0);
        let held = line.cell.claim().expect("idle");
        let stopper = {
            let line = StdArc::clone(&line);
            thread::spawn(move || {
                let _ = line.cell.close();
                let mut fresh = Box::new(Log::default());
                fresh.note(9);
                while let Err(back) = line.cell.reopen(fresh) {
                    fresh = back;
                    thread::yield_now();
                }
            })
        };
        held.note(1);
        drop(held.finish_round());
        stopper.join().expect("it does not panic");
        let held = line.cell.claim().expect("open and idle");
        assert_eq!(held.get(), [9], "the new one");
        line.drive(held);
    });
}

/// Two threads: a helper that is refused is requested again; a helper that was requested and has
/// arrived is no longer pending.
#[test]
fn one_helper_is_pending_at_a_time() {
    loom::model(|| {
        let line = Line::new(1);
        let helpers: usize = {
            let others = (0..2).map(|_| {
                let line = StdArc::clone(&line);
                thread::spawn(move || {
                    usize::from(
                        line.cell.request_round()
                            == tidegate_pool::internal::HelperRequest::BringHelper,
                    )
                })
            });
            let others: Vec<_> = others.collect();
            let others = others.into_iter();
            others
                .map(|other| other.join().expect("it does not panic"))
                .sum()
        };
        assert_eq!(helpers, 1);
        let held = line.cell.arrive().expect("it was requested");
        line.drive(held);
        assert_eq!(line.done.load(Relaxed), 1);
        assert!(line.cell.is_idle() && !line.cell.is_helper_pending());
    });
}

//! Models of the state words of an isolated call: every interleaving of the worker that takes a
//! queued job, the timer, the caller that cancels, and the probes of a breaker (`cargo xtask
//! loom`).
//!
//! Each of the following changes was made by hand and fails a model. In the word of a call: a
//! relaxed store in `begin`; no fence after that store, before the load in `look`, after a `leave`
//! or before `is_left`; a relaxed load in `look` or a relaxed `start`; an end that swaps instead of
//! comparing; a `leave` that does not compare the number; an end that keeps the number. In the word
//! of a breaker: `change` without Release or relaxed, `get` without Acquire, `is_due` without
//! Acquire, `judge` without Release, or advancing the time before it decides. In the word of an
//! entry: a `report` that loads and stores instead of swapping. In the word of a waiter: a `decide`
//! that does not compare. The ends of a call are relaxed, and the models hold.
#![cfg(tidegate_loom)]

use std::sync::Arc as StdArc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use tidegate_core::permits::Permits;
use tidegate_isolate::BreakerState;
use tidegate_isolate::internal::{BreakerWord, CallWord, EndCause, EntryWord, WorkState};

#[path = "loom/entries.rs"]
mod entries;
#[path = "../../tidegate-testkit/shared/race_cell.rs"]
mod race_cell;
#[path = "loom/waiters.rs"]
mod waiters;

use race_cell::RaceCell;

/// A worker takes a queued job while it times out and its caller cancels. Exactly one of them ends
/// the call, and a side that ended it from outside knows whether the work ran.
#[test]
fn one_of_worker_timer_and_caller_ends_a_queued_call() {
    loom::model(|| {
        let word = StdArc::new(CallWord::default());
        let began = Arc::new(RaceCell::default());
        let seen = word.begin_queued();
        let worker = {
            let (word, began) = (StdArc::clone(&word), Arc::clone(&began));
            thread::spawn(move || {
                began.set(7);
                let ran = word.start();
                (ran, ran && word.finish())
            })
        };
        let leaver = |why: EndCause| {
            let (word, began) = (StdArc::clone(&word), Arc::clone(&began));
            move || {
                let left = word.leave(seen, why);
                if left == Some(WorkState::Running) {
                    assert_eq!(began.get(), 7, "when the work began is known");
                }
                left
            }
        };
        let timer = thread::spawn(leaver(EndCause::Expired));
        let caller = leaver(EndCause::Cancelled)();
        let timer = timer.join().expect("it does not panic");
        let (ran, finished) = worker.join().expect("it does not panic");
        let ends = [finished, timer.is_some(), caller.is_some()];
        assert_eq!(ends.iter().filter(|end| **end).count(), 1, "{ends:?}");
        let left = timer.or(caller);
        assert_eq!(
            left == Some(WorkState::Queued),
            !ran,
            "it ran, or it was queued"
        );
        assert_eq!(word.is_left(), left.is_some());
    });
}

/// A pool refuses a call while it times out: one of the two ends it, and its work never seems to run.
#[test]
fn a_call_that_is_refused_while_it_times_out_never_runs() {
    loom::model(|| {
        let word = StdArc::new(CallWord::default());
        let seen = word.begin_queued();
        let timer = {
            let word = StdArc::clone(&word);
            thread::spawn(move || word.leave(seen, EndCause::Expired))
        };
        let is_taken_back = word.take_back();
        let left = timer.join().expect("it does not panic");
        assert_eq!(left, (!is_taken_back).then_some(WorkState::Queued));
    });
}

/// The timer saw a call that ends, and the word is reused for the next one: the next call is not
/// ended.
#[test]
fn a_timer_that_is_late_does_not_hit_the_next_call() {
    loom::model(|| {
        let word = StdArc::new(CallWord::default());
        let seen = word.begin();
        let timer = {
            let word = StdArc::clone(&word);
            thread::spawn(move || word.leave(seen, EndCause::Expired).is_some())
        };
        let first = word.finish();
        if first {
            word.begin_queued();
            assert!(
                word.start() && word.finish(),
                "no other thread has seen this call"
            );
        }
        let expired = timer.join().expect("it does not panic");
        assert_ne!(first, expired);
    });
}

/// The timer looks while a word changes from one call to the next. It never uses the deadline of
/// one call for the other, so it ends no call too early. Here the first call has a late deadline,
/// and the second is due.
#[test]
fn a_call_is_judged_by_its_own_deadline() {
    const NOW: u64 = 5;
    loom::model(|| {
        let word = StdArc::new(CallWord::default());
        let deadline = Arc::new(AtomicU64::new(10));
        word.begin();
        let timer = {
            let (word, deadline) = (StdArc::clone(&word), Arc::clone(&deadline));
            thread::spawn(move || {
                let seen = word.look()?;
                let notified = deadline.load(Ordering::Relaxed);
                let ended = notified <= NOW && word.leave(seen, EndCause::Expired).is_some();
                Some((seen, notified, ended))
            })
        };
        let mut second = None;
        if word.finish() {
            deadline.store(1, Ordering::Relaxed);
            second = Some(word.begin());
        }
        let looked = timer.join().expect("it does not panic");
        let Some((seen, notified, ended)) = looked else {
            return;
        };
        assert!(second.is_some(), "the first had time");
        if second == Some(seen) {
            assert_eq!(
                (notified, ended),
                (1, true),
                "its own deadline, which was over"
            );
        } else {
            assert!(!ended, "the first had time");
        }
    });
}

/// A call begins while the timer is about to sleep for a long time: the caller sees that and wakes
/// the timer, or the timer's last look finds the call.
#[test]
fn a_call_that_begins_is_seen_by_a_timer_that_falls_asleep() {
    const AWAKE: u64 = 0;
    const LONG: u64 = u64::MAX;
    loom::model(|| {
        let word = StdArc::new(CallWord::default());
        let next_wake = Arc::new(AtomicU64::new(AWAKE));
        let timer = {
            let (word, next_wake) = (StdArc::clone(&word), Arc::clone(&next_wake));
            thread::spawn(move || {
                next_wake.store(LONG, Ordering::Relaxed);
                word.look().is_some()
            })
        };
        word.begin_queued();
        let wakes = next_wake.load(Ordering::Relaxed) == LONG;
        let found = timer.join().expect("it does not panic");
        assert!(wakes || found, "it would sleep through the deadline");
    });
}

/// A job is put into the queue, and its place is recorded after that. If the call is ended from
/// outside in between, that thread removes the job, or the thread that queued it does: the job is
/// never left behind.
#[test]
fn a_queued_job_is_removed_when_its_caller_gives_up() {
    const NOWHERE: u64 = 0;
    loom::model(|| {
        let word = StdArc::new(CallWord::default());
        let place = Arc::new(AtomicU64::new(NOWHERE));
        let queue = Arc::new(Mutex::new(Some("job")));
        let seen = word.begin_queued();
        let take_out = {
            let (place, queue) = (Arc::clone(&place), Arc::clone(&queue));
            move || {
                if place.load(Ordering::Relaxed) != NOWHERE {
                    queue
                        .lock()
                        .expect("no thread panics while it holds the lock")
                        .take();
                }
            }
        };
        let leaver = {
            let (word, take_out) = (StdArc::clone(&word), take_out.clone());
            thread::spawn(move || {
                assert_eq!(
                    word.leave(seen, EndCause::Cancelled),
                    Some(WorkState::Queued)
                );
                take_out();
            })
        };
        place.store(9, Ordering::Relaxed);
        if word.is_left() {
            take_out();
        }
        leaver.join().expect("it does not panic");
        assert_eq!(
            *queue
                .lock()
                .expect("no thread panics while it holds the lock"),
            None
        );
    });
}

/// How the holder of an entry ends it.
#[derive(Clone, Copy, PartialEq)]
enum EntryEnd {
    /// With a verdict, and then by dropping it.
    Verdict,
    /// By dropping it.
    Drop,
}

/// An entry ends while its time ends and the limit changes: there is one outcome, the permit comes
/// back once, and never are more permits held than a limit allowed.
fn an_entry_ends(how: EntryEnd) {
    loom::model(move || {
        let word = StdArc::new(CallWord::default());
        let permits = Permits::new(1);
        let entry = EntryWord::default();
        permits.try_borrow().expect("one is free").forget();
        let seen = word.begin();
        let timer = {
            let word = StdArc::clone(&word);
            thread::spawn(move || word.leave(seen, EndCause::Expired).is_some())
        };
        let changer = {
            let permits = permits.clone();
            thread::spawn(move || {
                permits.set_limit(2);
                let other = permits.try_borrow();
                permits.set_limit(1);
                assert!(permits.held() <= 2);
                other.is_some()
            })
        };
        let mut in_time = None;
        if how == EntryEnd::Verdict {
            in_time = entry.report(|| word.finish());
            assert_eq!(entry.report(|| word.finish()), None, "it is given once");
        }
        if !entry.is_reported() {
            in_time = Some(word.finish());
        }
        drop(permits.adopt());
        let timed_out = timer.join().expect("it does not panic");
        assert_eq!(in_time, Some(!timed_out), "one of the two ends the call");
        let found = changer.join().expect("it does not panic");
        assert!(found, "there were two permits, and one was held");
        assert_eq!(permits.held(), 0);
        assert!(permits.try_borrow().is_some());
    });
}

#[test]
fn a_verdict_against_a_timeout_and_a_change_of_the_limit() {
    an_entry_ends(EntryEnd::Verdict);
}

#[test]
fn the_drop_of_an_entry_against_a_timeout_and_a_change_of_the_limit() {
    an_entry_ends(EntryEnd::Drop);
}

/// Two threads give a verdict on one entry while its time ends: one verdict counts at most, and
/// none if the time was over first.
#[test]
fn one_of_two_verdicts_counts() {
    loom::model(|| {
        let word = StdArc::new(CallWord::default());
        let entry = StdArc::new(EntryWord::default());
        let seen = word.begin();
        let timer = {
            let word = StdArc::clone(&word);
            thread::spawn(move || word.leave(seen, EndCause::Expired).is_some())
        };
        let verdict = || {
            let (word, entry) = (StdArc::clone(&word), StdArc::clone(&entry));
            move || entry.report(|| word.finish())
        };
        let other = thread::spawn(verdict());
        let mine = verdict()();
        let other = other.join().expect("it does not panic");
        let timed_out = timer.join().expect("it does not panic");
        assert_eq!(mine.is_some(), other.is_none(), "one of them reports");
        assert_eq!(mine.or(other), Some(!timed_out));
        assert!(entry.is_reported());
    });
}

const CLOSED: BreakerState = BreakerState::Closed;
const OPEN: BreakerState = BreakerState::Open;
const HALF_OPEN: BreakerState = BreakerState::HalfOpen;

/// Two calls find that the sleep is over: one becomes the probe, and a call that sees the breaker
/// open also sees the data that was written when it opened.
#[test]
fn one_call_becomes_the_probe() {
    loom::model(|| {
        let word = StdArc::new(BreakerWord::default());
        let until = Arc::new(RaceCell::default());
        let trips = {
            let (word, until) = (StdArc::clone(&word), Arc::clone(&until));
            thread::spawn(move || {
                until.set(5);
                word.change(word.get(), OPEN)
                    .expect("no other thread trips it");
            })
        };
        let call = |word: StdArc<BreakerWord>, until: Arc<RaceCell>| {
            let seen = word.get();
            seen.state() == OPEN && {
                assert_eq!(until.get(), 5);
                word.change(seen, HALF_OPEN).is_some()
            }
        };
        let other = {
            let (word, until) = (StdArc::clone(&word), Arc::clone(&until));
            thread::spawn(move || call(word, until))
        };
        let mine = call(StdArc::clone(&word), Arc::clone(&until));
        let other = other.join().expect("it does not panic");
        trips.join().expect("it does not panic");
        assert!(!(mine && other), "one probe");
        let state = word.get().state();
        assert_eq!(state, if mine || other { HALF_OPEN } else { OPEN });
    });
}

/// A probe succeeds while the breaker gives it up as late and opens: one verdict holds, and the
/// verdict of a call of an earlier phase is ignored.
#[test]
fn the_verdict_of_a_probe_counts_in_its_own_phase_only() {
    loom::model(|| {
        let word = StdArc::new(BreakerWord::default());
        let old = word.get();
        let open = word.change(old, OPEN).expect("there is no other thread");
        let probe = word
            .change(open, HALF_OPEN)
            .expect("there is no other thread");
        let succeeds = {
            let word = StdArc::clone(&word);
            thread::spawn(move || word.change(probe, CLOSED).is_some())
        };
        let straggler = {
            let word = StdArc::clone(&word);
            thread::spawn(move || word.get() == old || word.change(old, CLOSED).is_some())
        };
        let given_up = word.change(probe, OPEN).is_some();
        let succeeded = succeeds.join().expect("it does not panic");
        assert!(!straggler.join().expect("it does not panic"));
        assert_ne!(given_up, succeeded);
        let state = word.get().state();
        assert_eq!(state, if succeeded { CLOSED } else { OPEN });
        assert_eq!(word.get().number(), 3);
    });
}

/// Two callers come long after a window closed that was not judged yet: it is bad, and its sleep is
/// over. The first to judge opens the breaker. One of the two passes as the probe, and none passes
/// as if the breaker were closed.
#[test]
fn callers_that_judge_a_window_of_long_ago_let_one_probe_through() {
    const NOW: u64 = 5;
    const LATER: u64 = 10;
    loom::model(|| {
        let word = StdArc::new(BreakerWord::default());
        let judged = Arc::new(Mutex::new(false));
        let caller = || {
            let (word, judged) = (StdArc::clone(&word), Arc::clone(&judged));
            move || {
                if word.is_due(NOW) {
                    let mut judged = judged
                        .lock()
                        .expect("no thread panics while it holds the lock");
                    if !*judged {
                        *judged = true;
                        word.judge(LATER, || word.change(word.get(), OPEN));
                    }
                }
                if word.get().state() == CLOSED {
                    return true;
                }
                let _deciding = judged
                    .lock()
                    .expect("no thread panics while it holds the lock");
                let phase = word.get();
                phase.state() == OPEN && word.change(phase, HALF_OPEN).is_some()
            }
        };
        let other = thread::spawn(caller());
        let mine = caller()();
        let other = other.join().expect("it does not panic");
        assert_eq!((mine, other), (mine, !mine), "one passes");
        assert_eq!(word.get().state(), HALF_OPEN);
    });
}

//! Models of the end of an entry: the verdict at the head of a response, a cancel and the drop against
//! the timeout.

use std::sync::Arc as StdArc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use tidegate_core::permits::Permits;
use tidegate_isolate::internal::{CallWord, EndCause, EntryWord};

use crate::race_cell::RaceCell;

/// The calls that overstay, as `Overstaying` counts them: the report and the end of a call come in any
/// order.
#[derive(Default)]
struct Overstays {
    /// `Some(true)` while a call overstays, `Some(false)` if its end came first.
    call: Mutex<Option<bool>>,
    reports: AtomicUsize,
}

impl Overstays {
    fn toggle(&self, begins: bool) {
        let call = self.call.lock();
        let mut call = call.expect("no thread panics while it holds the lock");
        if call.take().is_none() {
            *call = Some(begins);
        }
    }

    fn report(&self) {
        self.reports.fetch_add(1, Ordering::Relaxed);
    }

    fn assert_over(&self) {
        assert_eq!(self.reports.load(Ordering::Relaxed), 1, "one report");
        let call = self.call.lock();
        let call = call.expect("no thread panics while it holds the lock");
        assert_eq!(*call, None, "no call overstays");
    }
}

/// How the holder of a response ends its entry before it drops it.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Verdict,
    Cancel,
    Nothing,
}

/// The holder of an entry reports it on one thread and drops it, while the timer ends the call. The
/// first side reports. The timer reads the data of the call that it has ended, and of no other. The
/// permit is given back once, and no call overstays in the end.
fn an_entry_is_reported_once(before: Before) {
    loom::model(move || {
        let word = StdArc::new(CallWord::default());
        let (permits, entry) = (Permits::new(1), EntryWord::default());
        let (overstays, fields) = (
            Arc::new(Overstays::default()),
            Arc::new(RaceCell::default()),
        );
        permits.try_borrow().expect("one is free").forget();
        fields.set(7);
        let seen = word.begin();
        let timer = {
            let (word, fields) = (StdArc::clone(&word), Arc::clone(&fields));
            let overstays = Arc::clone(&overstays);
            thread::spawn(move || {
                if word.leave(seen, EndCause::Expired).is_some() {
                    assert_eq!(fields.get(), 7, "the data of this call");
                    overstays.report();
                    overstays.toggle(true);
                }
            })
        };
        match before {
            Before::Verdict => {
                if entry.report(|| word.finish()) == Some(true) {
                    overstays.report();
                }
                assert_eq!(entry.report(|| word.finish()), None);
            }
            Before::Cancel => {
                let cancel = || word.leave(word.look()?, EndCause::Cancelled);
                if entry.report(cancel).flatten().is_some() {
                    overstays.toggle(true);
                    overstays.report();
                }
            }
            Before::Nothing => {}
        }
        // The drop.
        if !entry.is_reported() && word.finish() {
            overstays.report();
        }
        drop(permits.adopt());
        if word.is_idle() {
            fields.set(8); // for the next call
        } else {
            overstays.toggle(false);
        }
        timer.join().expect("it does not panic");
        overstays.assert_over();
        assert_eq!(permits.held(), 0);
    });
}

#[test]
fn a_verdict_at_the_head_against_a_timeout_and_the_drop() {
    an_entry_is_reported_once(Before::Verdict);
}

#[test]
fn a_cancel_against_a_timeout_and_the_drop() {
    an_entry_is_reported_once(Before::Cancel);
}

#[test]
fn a_drop_without_a_verdict_against_a_timeout() {
    an_entry_is_reported_once(Before::Nothing);
}

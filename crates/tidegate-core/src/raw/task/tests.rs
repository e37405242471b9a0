//! A task runs or drops its closure exactly once, whether the closure is inline or boxed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Blocking, Task};
use crate::executor::{RejectReason, Rejected};

/// Creates a task that adds one when run and a hundred when dropped.
fn counting(words: usize, seen: &Arc<AtomicUsize>) -> Task {
    struct OnDrop(Arc<AtomicUsize>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(100, Ordering::Relaxed);
        }
    }
    let held = OnDrop(Arc::clone(seen));
    match words {
        1 => Task::new(move || {
            held.0.fetch_add(1, Ordering::Relaxed);
        }),
        3 => {
            let pad = [1_usize, 2];
            Task::new(move || {
                held.0.fetch_add(pad[0], Ordering::Relaxed);
            })
        }
        _ => {
            let pad = [1_usize; 20];
            Task::new(move || {
                held.0.fetch_add(pad[7], Ordering::Relaxed);
            })
        }
    }
}

#[test]
fn is_four_words() {
    assert_eq!(std::mem::size_of::<Task>(), 32);
    assert_eq!(std::mem::size_of::<Option<Task>>(), 32);
}

#[test]
fn runs_once_and_frees_what_it_captured() {
    for words in [1, 3, 21] {
        let seen = Arc::new(AtomicUsize::new(0));
        counting(words, &seen).run();
        assert_eq!(seen.load(Ordering::Relaxed), 101);
        assert_eq!(Arc::strong_count(&seen), 1);
    }
}

#[test]
fn drops_the_closure_of_a_task_that_never_ran() {
    for words in [1, 3, 21] {
        let seen = Arc::new(AtomicUsize::new(0));
        drop(counting(words, &seen));
        assert_eq!(seen.load(Ordering::Relaxed), 100);
        assert_eq!(Arc::strong_count(&seen), 1);
    }
}

#[test]
fn frees_what_it_captured_when_it_panics() {
    for words in [1, 21] {
        let seen = Arc::new(AtomicUsize::new(0));
        let held = Arc::clone(&seen);
        let pad = vec![0_usize; words];
        let task = if words == 1 {
            Task::new(move || {
                let _held = held;
                panic!("on purpose");
            })
        } else {
            Task::new(move || {
                let _held = (held, pad, [0_usize; 9]);
                panic!("on purpose");
            })
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.run()));
        assert!(caught.is_err());
        assert_eq!(Arc::strong_count(&seen), 1);
    }
}

#[test]
fn reports_its_name_and_kind() {
    assert!(
        Task::new(|| {})
            .name()
            .contains("reports_its_name_and_kind")
    );
    assert_eq!(Task::named("compact", || {}).name(), "compact");
    let big = [0_usize; 9];
    let boxed = Task::named("big", move || assert_eq!(big[0], 0));
    assert_eq!(boxed.name(), "big");
    assert_eq!(boxed.blocking(), Blocking::May);
    assert_eq!(Task::non_blocking(|| {}).blocking(), Blocking::Never);
    assert_eq!(Task::adaptive(|| {}).blocking(), Blocking::Adapts);
}

#[test]
fn kinds_join_to_the_maximum() {
    let kinds = [Blocking::Never, Blocking::Adapts, Blocking::May];
    for a in kinds {
        assert_eq!(a.max(a), a);
        assert_eq!(a.max(Blocking::May), Blocking::May);
        for b in kinds {
            assert_eq!(a.max(b), b.max(a));
            for c in kinds {
                assert_eq!(a.max(b).max(c), a.max(b.max(c)));
            }
        }
    }
    assert_eq!(Blocking::Never.max(Blocking::Adapts), Blocking::Adapts);
    for kind in kinds {
        assert_eq!(Task::of(kind, || {}).blocking(), kind);
    }
}

#[test]
fn long_is_a_hint_and_not_a_kind() {
    assert!(Task::long(|| {}).is_long() && !Task::new(|| {}).is_long());
    assert_eq!(Task::long(|| {}).blocking(), Blocking::May);
    let made = || Task::new(|| {});
    assert_eq!(made().class(), made().class());
}

#[test]
fn an_over_aligned_closure_is_boxed_and_keeps_its_alignment() {
    #[repr(align(64))]
    struct Wide(u8);
    let wide = Wide(7);
    Task::new(move || {
        let wide = &wide;
        assert_eq!(std::ptr::from_ref(wide).addr() % 64, 0);
        assert_eq!(wide.0, 7);
    })
    .run();
}

#[test]
fn a_refused_one_is_an_error_that_any_report_takes() {
    let refused = Rejected::new(Task::named("refused", || ()), RejectReason::Full);
    let report = std::io::Error::other(refused);
    let refused = report.downcast::<Rejected<Task>>().unwrap();
    assert_eq!(refused.into_inner().name(), "refused");
}

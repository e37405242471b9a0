//! Counts the heap allocations of promises. A separate test program, because its counting
//! allocator applies to the whole program.
#![cfg(not(any(tidegate_sanitize, miri)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_promise::{Completion, Promise, promise};

#[path = "../../tidegate-testkit/shared/counting.rs"]
mod counting;

use counting::{ALLOCATED, BYTES};

/// Returns the number of allocations by this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATED.get();
    work();
    ALLOCATED.get() - before
}

/// Runs `work` on a new thread, which has no free block to reuse.
fn on_new_thread<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let thread = std::thread::Builder::new().spawn(work);
    let thread = thread.expect("a thread can be had");
    thread.join().expect("it does not panic")
}

fn live_once(notified: &Arc<AtomicU64>) {
    let (promise, answer) = promise::<u64>();
    let notified = Arc::clone(notified);
    answer.finally(move |outcome| {
        let value = outcome.success().copied().unwrap_or_default();
        notified.fetch_add(value, Ordering::Relaxed);
    });
    promise.succeed(1).expect("it was not cancelled");
}

#[test]
fn the_first_promise_of_a_thread_allocates_once_and_the_next_not_at_all() {
    let notified = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&notified);
    let (first, later) = on_new_thread(move || {
        let first = allocations(|| live_once(&count));
        let later = allocations(|| (0..1_000).for_each(|_| live_once(&count)));
        (first, later)
    });
    assert!(first <= 1, "{first} allocations");
    assert_eq!(later, 0);
    assert_eq!(notified.load(Ordering::Relaxed), 1_001);
}

#[test]
fn listening_peeking_and_taking_allocate_nothing_more() {
    let count = on_new_thread(|| {
        drop(promise::<u64>());
        live_once(&Arc::new(AtomicU64::new(0)));
        allocations(|| {
            let (promise, mut answer) = promise::<u64>();
            answer.on_complete(|_| ());
            promise.succeed(1).unwrap();
            assert!(answer.peek().is_some() && answer.take().is_some());
        })
    });
    assert_eq!(count, 0);
}

#[test]
fn waiting_and_polling_allocate_nothing_more() {
    let count = on_new_thread(|| {
        drop(promise::<u64>());
        let waker = std::task::Waker::noop();
        allocations(|| {
            let (promise, mut answer) = promise::<u64>();
            let mut context = std::task::Context::from_waker(waker);
            assert!(
                std::pin::Pin::new(&mut answer)
                    .poll(&mut context)
                    .is_pending()
            );
            promise.succeed(1).unwrap();
            assert_eq!(answer.wait().unwrap(), 1);
        })
    });
    // Only the first promise, which is dropped before the count starts, creates an abandoned
    // failure.
    assert_eq!(count, 0);
}

#[test]
fn a_cancellation_allocates_nothing() {
    let count = on_new_thread(|| {
        live_once(&Arc::new(AtomicU64::new(0)));
        allocations(|| {
            let (promise, answer) = promise::<u64>();
            assert!(answer.cancel());
            assert!(promise.succeed(1).is_err());
        })
    });
    assert_eq!(count, 0);
}

#[test]
fn crossing_threads_allocates_nothing() {
    let (promise, answer): (Promise<u64>, Completion<u64>) = promise();
    let notified = Arc::new(AtomicU64::new(0));
    let inner = Arc::clone(&notified);
    let listening = allocations(|| {
        answer.finally(move |_| {
            inner.fetch_add(1, Ordering::Relaxed);
        });
    });
    let completing = on_new_thread(move || allocations(|| promise.succeed(1).unwrap()));
    assert_eq!((listening, completing), (0, 0));
    assert_eq!(notified.load(Ordering::Relaxed), 1);
}

#[test]
fn a_million_guards_on_a_long_lived_completion_leave_nothing_behind() {
    let (grown, notified) = on_new_thread(|| {
        let (promise, answer) = promise::<u64>();
        let answer = answer.share().unwrap();
        let notified = Arc::new(AtomicU64::new(0));
        let kept = Arc::clone(&notified);
        answer.on_complete(move |_| {
            kept.fetch_add(1, Ordering::Relaxed);
        });
        let before = BYTES.get();
        let mut most = 0;
        for _ in 0..1_000_000 {
            drop(answer.listen(|_| ()));
            most = most.max(BYTES.get() - before);
        }
        promise.succeed(1).unwrap();
        (most, notified.load(Ordering::Relaxed))
    });
    assert!(grown < 32 * 1024, "{grown} bytes at the most");
    assert_eq!(notified, 1);
}

#[test]
fn a_million_polls_with_changing_wakers_leave_nothing_behind() {
    struct Idle;
    impl std::task::Wake for Idle {
        fn wake(self: Arc<Self>) {}
    }
    let grown = on_new_thread(|| {
        let (_promise, mut answer) = promise::<u64>();
        answer.on_complete(|_| ());
        let wakers = [0, 1].map(|_| std::task::Waker::from(Arc::new(Idle)));
        let before = BYTES.get();
        let mut most = 0;
        for turn in 0..1_000_000 {
            let mut context = std::task::Context::from_waker(&wakers[turn % 2]);
            assert!(
                std::pin::Pin::new(&mut answer)
                    .poll(&mut context)
                    .is_pending()
            );
            most = most.max(BYTES.get() - before);
        }
        most
    });
    assert!(grown < 32 * 1024, "{grown} bytes at the most");
}

#[test]
fn a_thread_keeps_a_bounded_number_of_free_blocks() {
    let kept = on_new_thread(|| {
        let before = BYTES.get();
        let many: Vec<_> = (0..200_000).map(|_| promise::<u64>()).collect();
        for (promise, answer) in many {
            promise.succeed(1).unwrap();
            drop(answer);
        }
        BYTES.get() - before
    });
    assert!(kept <= 16 * 1024 * 1024, "{kept} bytes");
}

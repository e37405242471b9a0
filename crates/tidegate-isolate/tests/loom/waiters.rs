//! Models of the calls that wait for a permit: arriving, leaving and timing out while a permit becomes
//! free.

use std::sync::Arc as StdArc;

use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;
use tidegate_core::permits::Permits;
use tidegate_isolate::internal::WaiterWord;

/// The permits of a gate, of which one is held, and the calls that wait for it. The steps are those
/// of `Gate`, with two places in the queue.
struct Line {
    permits: Permits,
    waiting: AtomicUsize,
    queue: Mutex<[Option<StdArc<WaiterWord>>; 2]>,
}

impl Line {
    fn new() -> Arc<Self> {
        let permits = Permits::new(1);
        permits.try_borrow().expect("one is free").forget();
        Arc::new(Self {
            permits,
            waiting: AtomicUsize::new(0),
            queue: Mutex::new([None, None]),
        })
    }

    fn enqueue(&self, at: usize) -> StdArc<WaiterWord> {
        let word = StdArc::new(WaiterWord::default());
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.lock()[at] = Some(StdArc::clone(&word));
        fence(Ordering::SeqCst);
        self.serve();
        word
    }

    /// Gives a permit back and serves the calls that wait.
    fn give_back(&self) {
        drop(self.permits.adopt());
        self.serve_waiters();
    }

    fn serve_waiters(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.serve();
        }
    }

    fn serve(&self) {
        let mut queue = self.lock();
        for place in queue.iter_mut() {
            let Some(word) = place.take() else {
                continue;
            };
            match self.permits.try_borrow() {
                Some(permit) if word.decide(WaiterWord::SERVED).is_ok() => permit.forget(),
                Some(_) => {}
                None => *place = Some(word),
            }
        }
    }

    /// Leaves the queue. A permit that was taken for the waiter goes to the next one.
    fn leave(&self, at: usize, word: &WaiterWord) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if word.decide(WaiterWord::GONE) == Err(WaiterWord::SERVED) {
            drop(self.permits.adopt());
        }
        self.lock()[at] = None;
        self.serve_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, [Option<StdArc<WaiterWord>>; 2]> {
        let queue = self.queue.lock();
        queue.expect("no thread panics while it holds the lock")
    }
}

/// A call takes a place in the queue while the permit becomes free: one of the two threads sees the
/// other, so the call does not wait for a permit that is free.
#[test]
fn a_waiter_that_arrives_finds_the_permit_or_is_found() {
    loom::model(|| {
        let line = Line::new();
        let holder = {
            let line = Arc::clone(&line);
            thread::spawn(move || line.give_back())
        };
        let word = line.enqueue(0);
        holder.join().expect("it does not panic");
        assert_eq!(word.get(), WaiterWord::SERVED);
        assert_eq!(line.permits.held(), 1);
    });
}

/// A call leaves the queue while the permit becomes free and its time ends: the permit is free
/// afterwards, whoever was first.
#[test]
fn a_waiter_that_leaves_or_times_out_keeps_no_permit() {
    loom::model(|| {
        let line = Line::new();
        let word = line.enqueue(0);
        let holder = {
            let line = Arc::clone(&line);
            thread::spawn(move || line.give_back())
        };
        let timer = {
            let word = StdArc::clone(&word);
            thread::spawn(move || word.decide(WaiterWord::GONE).is_ok())
        };
        line.leave(0, &word);
        holder.join().expect("it does not panic");
        timer.join().expect("it does not panic");
        assert_eq!(line.permits.held(), 0);
        assert_ne!(word.get(), WaiterWord::WAITING);
    });
}

/// A call leaves the queue while the permit becomes free, and another call waits behind it: the
/// permit reaches that call.
#[test]
fn a_waiter_that_leaves_does_not_keep_the_permit_from_the_next_one() {
    loom::model(|| {
        let line = Line::new();
        let (leaves, stays) = (line.enqueue(0), line.enqueue(1));
        let holder = {
            let line = Arc::clone(&line);
            thread::spawn(move || line.give_back())
        };
        line.leave(0, &leaves);
        holder.join().expect("it does not panic");
        assert_eq!(stays.get(), WaiterWord::SERVED);
        assert_eq!(line.permits.held(), 1);
    });
}

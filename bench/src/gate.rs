//! A gate: the measuring thread waits at it until the contestants' threads have passed it often
//! enough.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Time limit; a contestant that takes longer has lost a task.
const PATIENCE: Duration = Duration::from_secs(60);

/// A counter that opens when it was passed as often as it was armed for.
pub(crate) struct Gate {
    left: AtomicUsize,
    waiter: Mutex<Option<Thread>>,
}

impl Gate {
    /// Creates an open gate.
    pub(crate) const fn new() -> Self {
        Gate {
            left: AtomicUsize::new(0),
            waiter: Mutex::new(None),
        }
    }

    /// Closes the gate until it was passed `times` times. The calling thread is the one that will
    /// wait.
    pub(crate) fn arm(&self, times: usize) {
        *self.waiter() = Some(thread::current());
        self.left.store(times, Ordering::Release);
    }

    /// Passes the gate once; the last pass wakes the waiter.
    pub(crate) fn pass(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(waiter) = self.waiter().as_ref()
        {
            waiter.unpark();
        }
    }

    /// Sleeps until the gate opens. Ends the program if a contestant has lost a task, because its
    /// threads cannot be stopped.
    pub(crate) fn wait(&self, contestant: &str) {
        let began = Instant::now();
        while self.left.load(Ordering::Acquire) != 0 {
            thread::park_timeout(Duration::from_millis(50));
            if began.elapsed() > PATIENCE {
                eprintln!(
                    "{contestant} did not finish in {} s: it has lost a task",
                    PATIENCE.as_secs()
                );
                std::process::exit(3);
            }
        }
    }

    fn waiter(&self) -> std::sync::MutexGuard<'_, Option<Thread>> {
        self.waiter
            .lock()
            .expect("nothing panics while it holds this lock")
    }
}

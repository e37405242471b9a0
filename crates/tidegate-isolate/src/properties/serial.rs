//! A re-entrant lock: one thread at a time, which may enter again.

use crate::lock::lock;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use tidegate_core::internal::unpoisoned;

/// Admits one thread at a time. The thread inside may enter again, because listeners of a change
/// may make changes themselves.
#[derive(Debug, Default)]
pub(super) struct Serial {
    inside: Mutex<Option<(ThreadId, usize)>>,
    left: Condvar,
}

impl Serial {
    /// Blocks until no other thread is inside.
    pub(super) fn enter(&self) -> Inside<'_> {
        let me = thread::current().id();
        let mut inside = self.lock();
        loop {
            match &mut *inside {
                Some((of, depth)) if *of == me => {
                    *depth += 1;
                    break;
                }
                Some(_) => {
                    let waited = self.left.wait(inside);
                    inside = unpoisoned(waited);
                }
                None => {
                    *inside = Some((me, 1));
                    break;
                }
            }
        }
        Inside(self)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(ThreadId, usize)>> {
        lock(&self.inside)
    }
}

/// The guard of a thread inside; dropping it leaves.
pub(super) struct Inside<'a>(&'a Serial);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut inside = self.0.lock();
        let left = match &mut *inside {
            Some((_, depth)) => {
                *depth -= 1;
                *depth == 0
            }
            None => false,
        };
        if left {
            *inside = None;
            drop(inside);
            self.0.left.notify_one();
        }
    }
}

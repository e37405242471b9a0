//! Flushes that wait in a write queue.
//!
//! A flush with a promise is an entry without bytes that counts for nothing: a mark. Flushes at the
//! same place share one, and abandoned promises are dropped. So flushes that a peer holds up need no
//! more memory than the writes before them and the promises that are waited for.
//!
//! # Invariants
//!
//! * `Rest::marks` has the promises of each mark, in the order of the entries.

use bytes::Bytes;
use tidegate_promise::Promise;

use super::super::waiters::Waiters;
use super::{Entry, WriteQueue};

impl Entry {
    pub(super) fn is_mark(&self) -> bool {
        self.counts == 0
    }
}

impl WriteQueue {
    /// Makes `promise` succeed when everything added so far is written. Returns the promise if the
    /// queue is empty.
    pub(crate) fn push_mark(&mut self, promise: Promise<()>) -> Option<Promise<()>> {
        if self.is_empty() {
            return Some(promise);
        }
        let rest = self.rest_mut();
        if !rest.entries.back().is_some_and(Entry::is_mark) {
            rest.entries.push_back(Entry {
                bytes: Bytes::new(),
                counts: 0,
                promise: None,
            });
            rest.marks.push_back(Waiters::default());
        }
        if let Some(waiters) = rest.marks.back_mut() {
            drop(waiters.add(promise));
        }
        None
    }

    /// Returns the promises of the mark that was just taken out.
    pub(super) fn take_mark(&mut self) -> Vec<Promise<()>> {
        let Some(rest) = &mut self.rest else {
            return Vec::new();
        };
        let waiters = rest.marks.pop_front();
        if rest.is_unused() {
            self.return_memory();
        }
        waiters.map_or_else(Vec::new, |mut waiters| waiters.take())
    }
}

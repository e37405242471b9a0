//! The wait record: a graph of which executors have threads that wait for which other executors.
//!
//! It is behind one short lock, taken only by a thread that is about to sleep anyway.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard};

use super::refused::WaitRefusedError;
use crate::executor::ExecutorId;
use crate::sys::prim::unpoisoned;

/// The waiting threads of each executor, and the homes that they wait for.
#[derive(Default)]
pub(super) struct Record {
    pub(super) waiting: HashMap<ExecutorId, Node>,
}

pub(super) struct Node {
    name: String,
    /// Number of threads that could run its tasks, when last read.
    width: usize,
    /// Homes that its threads wait for, one entry per waiting thread.
    homes: Vec<ExecutorId>,
}

static RECORD: LazyLock<Mutex<Record>> = LazyLock::new(Mutex::default);

/// Number of width changes of any executor so far. Written under the lock.
static CHANGES: AtomicU64 = AtomicU64::new(0);

pub(super) fn lock() -> MutexGuard<'static, Record> {
    unpoisoned(RECORD.lock())
}

/// Records that a thread of `from` waits for `to`, unless that closes a cycle.
///
/// `width` is called outside the lock because it may be user code. It is called again if any width
/// changed before the lock was taken, so that a wait never counts on threads that were just given
/// up.
pub(super) fn record(
    from: ExecutorId,
    name: &str,
    width: impl Fn() -> usize,
    to: ExecutorId,
) -> Result<Edge, WaitRefusedError> {
    let (mut record, width) = loop {
        // ORDERING: Acquire pairs with the Release in `change_width`: a reader that sees the change
        // also sees the width that it applied.
        let before = CHANGES.load(Ordering::Acquire);
        let width = width();
        let record = lock();
        if CHANGES.load(Ordering::Relaxed) == before {
            break (record, width);
        }
    };
    let node = record.waiting.entry(from).or_insert_with(|| Node {
        name: name.to_owned(),
        width: 1,
        homes: Vec::new(),
    });
    node.width = width;
    node.homes.push(to);
    let edge = Edge { from, to };
    let mut path = Vec::new();
    if record.leads_back(from, to, &mut path) {
        let mut names = vec![name.to_owned()];
        record.add_names(&path, &mut names);
        drop(record);
        drop(edge);
        return Err(WaitRefusedError::deadlock(names));
    }
    drop(record);
    Ok(edge)
}

/// Changes the number of threads that can run an executor's tasks, unless current waits rely on
/// more threads than `width`. Calls `apply`, after which
/// [`Executor::width`](crate::Executor::width) must return `width`. No wait is checked between the
/// check of the current waits and `apply`.
///
/// # Errors
///
/// A [`WaitRefusedError`] that names the cycle, if a cycle would close; `apply` is not called then.
///
/// ```
/// use tidegate_core::executor::ExecutorId;
/// use tidegate_core::internal::change_width;
///
/// let mut width = 4;
/// change_width(ExecutorId::next(), 2, || width = 2).expect("no thread waits");
/// assert_eq!(width, 2);
/// ```
pub fn change_width(
    executor: ExecutorId,
    width: usize,
    apply: impl FnOnce(),
) -> Result<(), WaitRefusedError> {
    let mut record = lock();
    if let Some(node) = record.waiting.get_mut(&executor) {
        let before = std::mem::replace(&mut node.width, width);
        let homes = node.homes.clone();
        let mut path = Vec::new();
        let mut homes = homes.into_iter();
        if homes.any(|home| record.leads_back(executor, home, &mut path)) {
            let mut names = Vec::new();
            record.add_names(&[executor], &mut names);
            record.add_names(&path, &mut names);
            if let Some(node) = record.waiting.get_mut(&executor) {
                node.width = before;
            }
            return Err(WaitRefusedError::deadlock(names));
        }
    }
    apply();
    // ORDERING: Release pairs with the Acquire in `record`.
    CHANGES.fetch_add(1, Ordering::Release);
    Ok(())
}

impl Record {
    /// Returns `true` if a wait of `start` for `home` is part of a cycle: there is a path of waits
    /// from `home` to `start` on which every executor is blocked. `path` is that path without
    /// `start`.
    fn leads_back(&self, start: ExecutorId, home: ExecutorId, path: &mut Vec<ExecutorId>) -> bool {
        self.search(start, home, path, &mut HashSet::new())
    }

    /// Searches the homes that are not in `seen`. What leads back does not depend on the path that
    /// led there, so each home is searched once.
    fn search(
        &self,
        start: ExecutorId,
        home: ExecutorId,
        path: &mut Vec<ExecutorId>,
        seen: &mut HashSet<ExecutorId>,
    ) -> bool {
        let (at, is_end) = home.of_end();
        let Some(node) = self.waiting.get(&at) else {
            return false;
        };
        if !node.is_blocked(is_end) || !seen.insert(home) {
            return false;
        }
        if at == start {
            return true;
        }
        path.push(at);
        let mut homes = node.homes.iter();
        if homes.any(|&next| self.search(start, next, path, seen)) {
            return true;
        }
        path.pop();
        false
    }

    /// Adds the names of executors that have waiting threads.
    fn add_names(&self, of: &[ExecutorId], names: &mut Vec<String>) {
        for id in of {
            if let Some(node) = self.waiting.get(id) {
                names.push(node.name.clone());
            }
        }
    }
}

impl Node {
    /// Returns `true` if a wait for this executor cannot end while its waiting threads wait. A wait
    /// for a task needs one thread that is free; a wait for the end needs all of them.
    fn is_blocked(&self, is_end: bool) -> bool {
        is_end || self.homes.len() >= self.width
    }
}

/// An edge of the record. Dropping it removes it from the record.
#[derive(Debug)]
pub(super) struct Edge {
    from: ExecutorId,
    to: ExecutorId,
}

impl Drop for Edge {
    fn drop(&mut self) {
        let Self { from, to } = *self;
        let mut record = lock();
        if let Some(node) = record.waiting.get_mut(&from) {
            if let Some(at) = node.homes.iter().position(|&home| home == to) {
                node.homes.swap_remove(at);
            }
            if node.homes.is_empty() {
                record.waiting.remove(&from);
            }
        }
    }
}

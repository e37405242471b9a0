//! The wait record: a graph of which places have threads that wait, and what each wait needs. A
//! place is an executor, a task whose outcome others may wait for, or what the crate of commands
//! adds: a gate with permits, a run that callers share.
//!
//! It is behind one short lock, taken only by a thread that is about to sleep anyway, and by a task
//! that starts, or a promise that is decided, while such a thread waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use super::refused::WaitRefusedError;
use crate::executor::{ExecutorId, Need};
use crate::permits::Permits;
use crate::sys::prim::unpoisoned;

/// The waits of the threads of each place.
#[derive(Default)]
pub(super) struct Record {
    pub(super) waiting: HashMap<ExecutorId, Node>,
}

pub(super) struct Node {
    name: String,
    capacity: Capacity,
    /// The waits of its threads.
    waits: Vec<Arc<Target>>,
}

/// A place for which a thread works.
pub(super) struct Place {
    pub(super) id: ExecutorId,
    pub(super) name: String,
    pub(super) capacity: Capacity,
}

/// What a wait is for.
#[derive(Debug)]
pub(super) struct Target {
    /// The promise of the outcome.
    pub(super) promise: Option<ExecutorId>,
    /// `true` once its task has started, or it is decided: it needs no thread then but the one that
    /// runs the task.
    pub(super) begun: AtomicBool,
    /// What has to be free before the outcome can come.
    pub(super) needs: Vec<Need>,
}

/// How many threads can work for a place at the same time.
#[derive(Clone, Debug)]
pub enum Capacity {
    /// This many threads, when last read.
    Threads {
        /// The threads on which tasks can rely.
        width: usize,
        /// All threads that the place may have.
        most: usize,
    },
    /// The threads that hold these permits now.
    Permits(Permits),
    /// The place ends only when all its work has ended: each wait of its work blocks it.
    Whole,
}

static RECORD: LazyLock<Mutex<Record>> = LazyLock::new(Mutex::default);

/// Number of width changes of any executor so far. Written under the lock.
static CHANGES: AtomicU64 = AtomicU64::new(0);

pub(super) fn lock() -> MutexGuard<'static, Record> {
    unpoisoned(RECORD.lock())
}

/// Records that the calling thread, which works for `places`, waits for `target`, unless the wait
/// could never end. A wait that is not `endless` is only checked: it ends by itself, so that others
/// may wait for its thread. `is_begun` is called with the lock held.
///
/// `places` is called outside the lock because it may be user code. It is called again if any width
/// changed before the lock was taken, so that a wait never counts on threads that were just given
/// up.
pub(super) fn record(
    places: impl Fn() -> Vec<Place>,
    target: Target,
    is_begun: impl FnOnce() -> bool,
    endless: bool,
) -> Result<Vec<WaitEdge>, WaitRefusedError> {
    let (mut record, places) = loop {
        // ORDERING: Acquire pairs with the Release in `change_width`: a reader that sees the change
        // also sees the width that it applied.
        let before = CHANGES.load(Ordering::Acquire);
        let places = places();
        let record = lock();
        if CHANGES.load(Ordering::Relaxed) == before {
            break (record, places);
        }
    };
    if places.is_empty() {
        return Ok(Vec::new());
    }
    target.begun.store(is_begun(), Ordering::Relaxed);
    record.admit(&places, target, endless)
}

/// Records that the calling thread, which works for all of `places`, waits for `to`.
///
/// # Errors
///
/// A [`WaitRefusedError`] if the wait would close a cycle. Nothing is recorded then.
pub fn record_wait(
    places: impl IntoIterator<Item = (ExecutorId, Capacity)>,
    to: ExecutorId,
) -> Result<Vec<WaitEdge>, WaitRefusedError> {
    let place = |(id, capacity)| Place {
        id,
        name: String::new(),
        capacity,
    };
    let places: Vec<_> = places.into_iter().map(place).collect();
    match places.is_empty() {
        true => Ok(Vec::new()),
        false => lock().admit(&places, Target::needing(Need::thread_of(to)), true),
    }
}

/// Notes that the promise at `address` needs no thread any more but the one that decides it, for the
/// threads that wait for it: its task has started, or it is decided.
#[cold]
pub fn needs_nothing(address: usize) {
    let promise = Some(ExecutorId::of_promise(address));
    let record = lock();
    let waits = record.waiting.values().flat_map(|node| &node.waits);
    for wait in waits.filter(|wait| wait.promise == promise) {
        wait.begun.store(true, Ordering::Relaxed);
    }
}

/// Changes the number of threads that can run an executor's tasks, unless current waits rely on
/// more threads than `width`. `most` is the number of all threads that it may have. Calls `apply`,
/// after which [`Executor::width`](crate::Executor::width) must return `width`. No wait is checked
/// between the check of the current waits and `apply`.
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
/// change_width(ExecutorId::next(), 2, 2, || width = 2).expect("no thread waits");
/// assert_eq!(width, 2);
/// ```
pub fn change_width(
    executor: ExecutorId,
    width: usize,
    most: usize,
    apply: impl FnOnce(),
) -> Result<(), WaitRefusedError> {
    let mut record = lock();
    if let Some(node) = record.waiting.get_mut(&executor) {
        let now = Capacity::Threads { width, most };
        let before = std::mem::replace(&mut node.capacity, now);
        // More threads are never too few.
        let is_narrower = match before {
            Capacity::Threads { width: w, most: m } => width < w || most < m,
            Capacity::Permits(_) | Capacity::Whole => false,
        };
        if is_narrower {
            let waits = record.waiting[&executor].waits.iter();
            let needs: Vec<_> = waits.flat_map(|wait| record.needs(wait)).collect();
            let checked = record.check(&[executor], record.name(executor), &needs);
            if let (Err(refused), Some(node)) = (checked, record.waiting.get_mut(&executor)) {
                node.capacity = before;
                return Err(refused);
            }
        }
    }
    apply();
    // ORDERING: Release pairs with the Acquire in `record`.
    CHANGES.fetch_add(1, Ordering::Release);
    Ok(())
}

impl Target {
    pub(super) fn needing(need: Need) -> Self {
        Self {
            promise: None,
            begun: AtomicBool::new(false),
            needs: vec![need],
        }
    }
}

impl Record {
    /// Adds a wait to `places`, unless it could never end. A refused wait, and one that is not
    /// `endless`, is gone from the record when this returns.
    pub(super) fn admit(
        &mut self,
        places: &[Place],
        target: Target,
        endless: bool,
    ) -> Result<Vec<WaitEdge>, WaitRefusedError> {
        let target = Arc::new(target);
        for place in places {
            self.add(place, &target);
        }
        let ids: Vec<_> = places.iter().map(|place| place.id).collect();
        let start = places.first().map(|place| place.name.clone());
        let checked = self.check(&ids, start.unwrap_or_default(), &self.needs(&target));
        if checked.is_err() || !endless {
            ids.iter().for_each(|id| self.remove(*id, &target));
            return checked.map(|()| Vec::new());
        }
        let edge = |from| WaitEdge {
            from,
            target: Arc::clone(&target),
        };
        Ok(ids.into_iter().map(edge).collect())
    }

    fn add(&mut self, place: &Place, target: &Arc<Target>) {
        let node = self.waiting.entry(place.id).or_insert_with(|| Node {
            name: place.name.clone(),
            capacity: Capacity::Whole,
            waits: Vec::new(),
        });
        node.capacity = place.capacity.clone();
        node.waits.push(Arc::clone(target));
    }

    fn remove(&mut self, from: ExecutorId, target: &Arc<Target>) {
        if let Some(node) = self.waiting.get_mut(&from) {
            let mut waits = node.waits.iter();
            if let Some(at) = waits.position(|wait| Arc::ptr_eq(wait, target)) {
                node.waits.swap_remove(at);
            }
            if node.waits.is_empty() {
                self.waiting.remove(&from);
            }
        }
    }

    /// Returns what a wait needs now. One of these that is stuck makes the wait stuck.
    fn needs(&self, target: &Target) -> Vec<ExecutorId> {
        match target.promise {
            // Its task runs on a thread that waits.
            Some(promise) if self.waiting.contains_key(&promise) => vec![promise],
            _ if target.begun.load(Ordering::Relaxed) => Vec::new(),
            _ => target.needs.iter().filter_map(Need::now).collect(),
        }
    }

    /// Refuses a wait of a thread of `starts` that needs something that is stuck. `start` is the
    /// name of the innermost place.
    fn check(
        &self,
        starts: &[ExecutorId],
        start: String,
        needs: &[ExecutorId],
    ) -> Result<(), WaitRefusedError> {
        let mut stuck = self.stuck(needs);
        let Some(need) = needs.iter().find(|need| stuck.contains(need)) else {
            return Ok(());
        };
        let mut names = vec![start];
        self.find(starts, *need, &mut stuck, &mut names);
        Err(WaitRefusedError::deadlock(names))
    }

    /// Returns what of `needs`, and of all that they depend on, can never come: a pool is stuck when
    /// each of its threads waits for something that is stuck.
    fn stuck(&self, needs: &[ExecutorId]) -> Vec<ExecutorId> {
        let mut stuck = Vec::new();
        let mut unseen = needs.to_vec();
        while let Some(need) = unseen.pop() {
            if let Some(node) = self.node(need)
                && !stuck.contains(&need)
                && (is_whole(need, node) || node.is_full(need))
            {
                stuck.push(need);
                unseen.extend(node.waits.iter().flat_map(|wait| self.needs(wait)));
            }
        }
        // A place is free again when a wait of one of its threads ends, but a whole place only when
        // all end.
        loop {
            let before = stuck.clone();
            let is_stuck = |wait: &Arc<Target>| {
                let needs = self.needs(wait);
                needs.iter().any(|need| before.contains(need))
            };
            stuck.retain(|need| {
                self.node(*need)
                    .is_some_and(|node| match is_whole(*need, node) {
                        true => node.waits.iter().any(is_stuck),
                        false => node.waits.iter().all(is_stuck),
                    })
            });
            if stuck.len() == before.len() {
                return stuck;
            }
        }
    }

    /// Adds the names of the places on a path from `at` to one of `starts`. Returns `true` if there
    /// is a path. Takes what it has seen out of `stuck`.
    fn find(
        &self,
        starts: &[ExecutorId],
        at: ExecutorId,
        stuck: &mut Vec<ExecutorId>,
        names: &mut Vec<String>,
    ) -> bool {
        let name = self.name(at);
        let is_new = names.last() != Some(&name);
        if starts.contains(&at.place()) {
            // The thread may work for several places.
            if is_new && names.first() != Some(&name) {
                names.push(name);
            }
            return true;
        }
        let Some(node) = self.node(at).filter(|_| stuck.contains(&at)) else {
            return false;
        };
        stuck.retain(|seen| *seen != at);
        if is_new {
            names.push(name);
        }
        let mut needs = node.waits.iter().flat_map(|wait| self.needs(wait));
        let found = needs.any(|need| self.find(starts, need, stuck, names));
        if !found && is_new {
            names.pop();
        }
        found
    }

    /// Returns the waiting threads of a place.
    fn node(&self, need: ExecutorId) -> Option<&Node> {
        self.waiting.get(&need.place())
    }

    fn name(&self, of: ExecutorId) -> String {
        self.node(of)
            .map(|node| node.name.clone())
            .unwrap_or_default()
    }
}

/// Returns `true` if `need` is for the end of all work of `node`.
fn is_whole(need: ExecutorId, node: &Node) -> bool {
    need.is_end() || matches!(node.capacity, Capacity::Whole)
}

impl Node {
    /// Returns `true` if all threads of this place wait: those that tasks can rely on, or any.
    fn is_full(&self, need: ExecutorId) -> bool {
        match &self.capacity {
            Capacity::Threads { most, .. } if need.is_any_thread() => self.waits.len() >= *most,
            Capacity::Threads { width, .. } => self.waits.len() >= *width,
            Capacity::Permits(permits) => self.waits.len() >= permits.held(),
            Capacity::Whole => true,
        }
    }
}

/// A wait in one place of the record. Dropping it removes the wait from that place.
#[derive(Debug)]
#[must_use = "the record holds the wait only while the edge lives"]
pub struct WaitEdge {
    from: ExecutorId,
    target: Arc<Target>,
}

impl Drop for WaitEdge {
    fn drop(&mut self) {
        lock().remove(self.from, &self.target);
    }
}

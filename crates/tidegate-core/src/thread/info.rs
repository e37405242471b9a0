//! The shared record of a thread, and what other threads can see of it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::contain::contain;
use crate::executor::ExecutorId;
use crate::sys;
use crate::sys::prim::unpoisoned;

/// The default priority of a thread.
pub(super) const NORMAL_PRIORITY: u8 = 5;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// It was requested and does not run yet.
    Starting,
    /// It runs, or is ready to run.
    Running,
    /// It sleeps until there is work.
    Waiting,
    /// Its job is over.
    Ended,
}

/// A view of a thread: the eight properties that event loops on the JVM show of their threads.
///
/// ```
/// use tidegate_core::ThreadBuilder;
///
/// let thread = ThreadBuilder::new("io").spawn(|| ())?;
/// let info = thread.info();
/// assert!(info.name().starts_with("io-"));
/// assert!(!info.is_detached());
/// # drop(thread.join());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ThreadInfo {
    record: Arc<ThreadRecord>,
    state: ThreadState,
}

impl ThreadInfo {
    /// Returns the thread's name.
    pub fn name(&self) -> &str {
        self.record.name()
    }

    /// Returns the system's id of the thread; 0 until it runs.
    pub fn id(&self) -> u64 {
        self.record.id.load(Ordering::Relaxed)
    }

    /// Returns the thread's state at the time this view was created.
    pub fn state(&self) -> ThreadState {
        self.state
    }

    /// Returns `true` if the thread had started and not ended when this view was created.
    pub fn is_alive(&self) -> bool {
        matches!(self.state, ThreadState::Running | ThreadState::Waiting)
    }

    /// Returns the thread's priority: the requested priority if the system granted it, else normal.
    pub fn priority(&self) -> u8 {
        if self.record.granted.load(Ordering::Relaxed) {
            self.record.priority
        } else {
            NORMAL_PRIORITY
        }
    }

    /// Returns `true` if the thread runs on its own (elsewhere called a daemon): its handle cannot
    /// be joined.
    pub fn is_detached(&self) -> bool {
        self.record.detached
    }

    /// Returns the frames of the thread's current stack. `None` on systems other than Linux, without
    /// the feature `backtrace`, for a thread that does not run, if the system refuses, and while
    /// another backtrace is being taken.
    pub fn backtrace(&self) -> Option<Vec<String>> {
        if !self.is_alive() {
            return None;
        }
        sys::backtrace::of_thread(self.id())
    }
}

/// The shared record behind a thread's handles.
#[derive(Debug)]
pub(crate) struct ThreadRecord {
    name: String,
    /// The thread's node in the wait record while it runs for no executor.
    wait_node: ExecutorId,
    id: AtomicU64,
    priority: u8,
    granted: AtomicBool,
    detached: bool,
    state: AtomicU8,
    /// Woken when the thread ends.
    watchers: Mutex<Watchers>,
}

#[derive(Debug, Default)]
struct Watchers {
    next: u64,
    wakers: Vec<(u64, Waker)>,
}

impl ThreadRecord {
    pub(super) fn new(name: String, priority: u8, detached: bool) -> Self {
        Self {
            name,
            wait_node: ExecutorId::next(),
            id: AtomicU64::new(0),
            priority,
            granted: AtomicBool::new(false),
            detached,
            state: AtomicU8::new(ThreadState::Starting as u8),
            watchers: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn wait_node(&self) -> ExecutorId {
        self.wait_node
    }

    /// Records that the thread runs. Returns `false` if the job was revoked before.
    pub(super) fn begin(&self, granted: bool) -> bool {
        self.granted.store(granted, Ordering::Relaxed);
        self.id.store(sys::thread::thread_id(), Ordering::Relaxed);
        self.leave_start(ThreadState::Running)
    }

    /// Prevents a job that has not started from starting. Returns `false` if it has started.
    pub(super) fn revoke(&self) -> bool {
        // Ended without an id: the job was dropped and never ran.
        self.leave_start(ThreadState::Ended) || self.id.load(Ordering::Relaxed) == 0
    }

    /// Returns `true` if this call moved the thread out of the state `Starting`.
    fn leave_start(&self, to: ThreadState) -> bool {
        let (from, to) = (ThreadState::Starting as u8, to as u8);
        // ORDERING: Release publishes the id that `begin` wrote; pairs with the Acquire load in
        // `info` and with the Acquire of the failing side here, after which `revoke` reads the id.
        self.state
            .compare_exchange(from, to, Ordering::Release, Ordering::Acquire)
            .is_ok()
    }

    pub(super) fn end(&self) {
        // ORDERING: Release pairs with the Acquire loads in `has_ended` and `info`: a thread that
        // sees the end also sees what this thread did before it.
        self.state
            .store(ThreadState::Ended as u8, Ordering::Release);
        // After the state: a watcher that registers too late to be woken here sees the ended state.
        let wakers = std::mem::take(&mut self.watchers().wakers);
        for (_, waker) in wakers {
            let _ = contain(|| waker.wake());
        }
    }

    /// Returns `true` if the thread has ended. Otherwise registers `waker` to be woken at the end,
    /// in place of the waker that `key` identifies.
    pub(super) fn wake_at_end(&self, key: &mut Option<u64>, waker: &Waker) -> bool {
        if self.has_ended() {
            return true;
        }
        // Wakers are user code: clone and drop them without the lock.
        let waker = waker.clone();
        let mut watchers = self.watchers();
        if self.has_ended() {
            return true;
        }
        let place = key.and_then(|key| watchers.find(key));
        let before = match place {
            Some(at) => Some(std::mem::replace(&mut watchers.wakers[at].1, waker)),
            None => {
                let next = watchers.next;
                watchers.next += 1;
                watchers.wakers.push((next, waker));
                *key = Some(next);
                None
            }
        };
        drop(watchers);
        drop(before);
        false
    }

    /// Removes the waker that `key` identifies.
    pub(super) fn forget(&self, key: u64) {
        let mut watchers = self.watchers();
        let at = watchers.find(key);
        let waker = at.map(|at| watchers.wakers.swap_remove(at));
        drop(watchers);
        drop(waker);
    }

    pub(super) fn has_ended(&self) -> bool {
        // ORDERING: Acquire pairs with the Release store in `end`.
        self.state.load(Ordering::Acquire) == ThreadState::Ended as u8
    }

    fn watchers(&self) -> std::sync::MutexGuard<'_, Watchers> {
        unpoisoned(self.watchers.lock())
    }

    pub(super) fn set_waiting(&self, waiting: bool) {
        let state = if waiting {
            ThreadState::Waiting
        } else {
            ThreadState::Running
        };
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(super) fn info(self: &Arc<Self>) -> ThreadInfo {
        // ORDERING: Acquire pairs with the Release in `leave_start` and `end`.
        let state = match self.state.load(Ordering::Acquire) {
            state if state == ThreadState::Starting as u8 => ThreadState::Starting,
            state if state == ThreadState::Running as u8 => ThreadState::Running,
            state if state == ThreadState::Waiting as u8 => ThreadState::Waiting,
            _ => ThreadState::Ended,
        };
        ThreadInfo {
            record: Arc::clone(self),
            state,
        }
    }
}

#[cfg(all(test, not(tidegate_loom)))]
impl ThreadRecord {
    /// Returns the number of wakers that wait for the end.
    pub(super) fn watching(&self) -> usize {
        self.watchers().wakers.len()
    }
}

impl Watchers {
    fn find(&self, key: u64) -> Option<usize> {
        self.wakers.iter().position(|(one, _)| *one == key)
    }
}

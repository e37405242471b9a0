//! What is known of a thread from outside.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use crate::{ExecutorId, contain, sys};

/// The priority that a thread has when nothing is said.
pub(super) const NORMAL_PRIORITY: u8 = 5;

/// Whether somebody waits for a thread's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinPolicy {
    /// Its owner can join it.
    #[default]
    Joined,
    /// It runs on its own (a daemon, elsewhere): its handle cannot be joined.
    Detached,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// It was asked for and has not run yet.
    Starting,
    /// It runs, or would if it had a CPU.
    Running,
    /// It sleeps until there is something to do.
    Waiting,
    /// Its job is over.
    Ended,
}

/// A look at a thread: the eight properties that the JVM's loops show of theirs.
///
/// ```
/// use tidegate_core::{JoinPolicy, ThreadBuilder};
///
/// let thread = ThreadBuilder::new("io").spawn(|| ())?;
/// let info = thread.info();
/// assert!(info.name().starts_with("io-"));
/// assert_eq!(info.join_policy(), JoinPolicy::Joined);
/// # drop(thread.join());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ThreadInfo {
    life: Arc<Life>,
    state: ThreadState,
}

impl ThreadInfo {
    /// Its name.
    pub fn name(&self) -> &str {
        self.life.name()
    }

    /// The system's id of it; 0 until it runs.
    pub fn id(&self) -> u64 {
        self.life.id.load(Ordering::Relaxed)
    }

    /// What it did when this look was taken.
    pub fn state(&self) -> ThreadState {
        self.state
    }

    /// Whether it had started and not ended when this look was taken.
    pub fn is_alive(&self) -> bool {
        matches!(self.state, ThreadState::Running | ThreadState::Waiting)
    }

    /// The priority it runs with: what was asked for if the system granted it, else normal.
    pub fn priority(&self) -> u8 {
        if self.life.granted.load(Ordering::Relaxed) {
            self.life.priority
        } else {
            NORMAL_PRIORITY
        }
    }

    /// Whether it can be joined.
    pub fn join_policy(&self) -> JoinPolicy {
        self.life.policy
    }

    /// Whether it was asked to stop.
    pub fn is_cancel_requested(&self) -> bool {
        self.life.cancel.load(Ordering::Relaxed)
    }

    /// Where it is right now, frame by frame, if the system lets us look; `None` elsewhere than
    /// on Linux, for a thread that does not run, and while another look is being taken.
    pub fn backtrace(&self) -> Option<Vec<String>> {
        if !self.is_alive() {
            return None;
        }
        sys::backtrace::of_thread(self.id())
    }
}

/// The shared record behind a thread's handles.
#[derive(Debug)]
pub(crate) struct Life {
    name: String,
    /// What the thread is called in the record of waits while it runs for no executor.
    party: ExecutorId,
    id: AtomicU64,
    priority: u8,
    granted: AtomicBool,
    policy: JoinPolicy,
    cancel: AtomicBool,
    state: AtomicU8,
    /// Woken at the end.
    watchers: Mutex<Watchers>,
}

#[derive(Debug, Default)]
struct Watchers {
    next: u64,
    wakers: Vec<(u64, Waker)>,
}

impl Life {
    pub(super) fn new(name: String, priority: u8, policy: JoinPolicy) -> Self {
        Self {
            name,
            party: ExecutorId::next(),
            id: AtomicU64::new(0),
            priority,
            granted: AtomicBool::new(false),
            policy,
            cancel: AtomicBool::new(false),
            state: AtomicU8::new(ThreadState::Starting as u8),
            watchers: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn party(&self) -> ExecutorId {
        self.party
    }

    /// Notes that the thread runs. Returns `false` if the job was revoked before.
    pub(super) fn begin(&self, granted: bool) -> bool {
        self.granted.store(granted, Ordering::Relaxed);
        self.id.store(sys::thread::thread_id(), Ordering::Relaxed);
        self.leave_start(ThreadState::Running)
    }

    /// Keeps a job that has not begun from beginning. Returns `false` if it has begun.
    pub(super) fn revoke(&self) -> bool {
        // Without an id it ended because it was dropped.
        self.leave_start(ThreadState::Ended) || self.id.load(Ordering::Relaxed) == 0
    }

    /// Whether this call is the one that ends the thread's start.
    fn leave_start(&self, to: ThreadState) -> bool {
        let (from, to) = (ThreadState::Starting as u8, to as u8);
        // ORDERING: Release publishes the id that `begin` wrote; pairs with the Acquire load in
        // `info` and with the Acquire of the failing side here, after which `revoke` reads it.
        self.state
            .compare_exchange(from, to, Ordering::Release, Ordering::Acquire)
            .is_ok()
    }

    pub(super) fn end(&self) {
        // ORDERING: Release, so that who sees the end sees what the thread did before it.
        self.state
            .store(ThreadState::Ended as u8, Ordering::Release);
        // After the state: who comes too late to be woken here sees it.
        let wakers = std::mem::take(&mut self.watchers().wakers);
        for (_, waker) in wakers {
            let _ = contain(|| waker.wake());
        }
    }

    /// Returns `true` if the thread has ended; if not, `waker` is woken when it does, in place of
    /// the one that `key` names.
    pub(super) fn wake_at_end(&self, key: &mut Option<u64>, waker: &Waker) -> bool {
        if self.has_ended() {
            return true;
        }
        // Wakers are the user's: cloned and dropped without the lock.
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

    /// Forgets the waker that `key` names.
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
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_waiting(&self, waiting: bool) {
        let state = if waiting {
            ThreadState::Waiting
        } else {
            ThreadState::Running
        };
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(super) fn request_cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    pub(super) fn info(self: &Arc<Self>) -> ThreadInfo {
        // ORDERING: Acquire pairs with the Release stores in `begin` and `end`.
        let state = match self.state.load(Ordering::Acquire) {
            state if state == ThreadState::Starting as u8 => ThreadState::Starting,
            state if state == ThreadState::Running as u8 => ThreadState::Running,
            state if state == ThreadState::Waiting as u8 => ThreadState::Waiting,
            _ => ThreadState::Ended,
        };
        ThreadInfo {
            life: Arc::clone(self),
            state,
        }
    }
}

#[cfg(all(test, not(tidegate_loom)))]
impl Life {
    /// How many wakers wait for the end.
    pub(super) fn watching(&self) -> usize {
        self.watchers().wakers.len()
    }
}

impl Watchers {
    fn find(&self, key: u64) -> Option<usize> {
        self.wakers.iter().position(|(one, _)| *one == key)
    }
}

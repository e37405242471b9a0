//! What is known of a thread from outside.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{JoinPolicy, ThreadBuilder};
use crate::{Parker, sys};

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
/// use tidegate_sync::{JoinPolicy, ThreadBuilder};
///
/// let thread = ThreadBuilder::new("io").spawn(|| ())?;
/// let info = thread.info();
/// assert!(info.name().starts_with("io-"));
/// assert_eq!(info.join_policy(), JoinPolicy::Joined);
/// # thread.join();
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
            ThreadBuilder::NORMAL_PRIORITY
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
    id: AtomicU64,
    priority: u8,
    granted: AtomicBool,
    policy: JoinPolicy,
    cancel: AtomicBool,
    state: AtomicU8,
    /// Who sleeps until the end.
    watchers: Mutex<Vec<Parker>>,
}

impl Life {
    pub(super) fn new(name: String, priority: u8, policy: JoinPolicy) -> Self {
        Self {
            name,
            id: AtomicU64::new(0),
            priority,
            granted: AtomicBool::new(false),
            policy,
            cancel: AtomicBool::new(false),
            state: AtomicU8::new(ThreadState::Starting as u8),
            watchers: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn begin(&self, granted: bool) {
        self.granted.store(granted, Ordering::Relaxed);
        self.id.store(sys::thread::thread_id(), Ordering::Relaxed);
        // ORDERING: Release publishes the id; pairs with the Acquire load in `info`.
        self.state
            .store(ThreadState::Running as u8, Ordering::Release);
    }

    pub(super) fn end(&self) {
        // ORDERING: Release, so that who sees the end sees what the thread did before it.
        self.state
            .store(ThreadState::Ended as u8, Ordering::Release);
        // After the state: who comes too late to be woken here sees it.
        let watchers = std::mem::take(&mut *self.watchers());
        watchers.iter().for_each(Parker::unpark);
    }

    /// Has `parker` unparked at the end; the caller then looks whether it was over before.
    pub(super) fn watch(&self, parker: Parker) {
        self.watchers().push(parker);
    }

    pub(super) fn has_ended(&self) -> bool {
        // ORDERING: Acquire pairs with the Release store in `end`.
        self.state.load(Ordering::Acquire) == ThreadState::Ended as u8
    }

    fn watchers(&self) -> std::sync::MutexGuard<'_, Vec<Parker>> {
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

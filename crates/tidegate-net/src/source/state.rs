//! The state of one source that its handles, its task and its loop share.
//!
//! ```text
//!            selected() returns a task            the loop applies interests
//!   Idle ────────────────────────────────▶ Busy ────────────────────────────▶ Suspended
//!    ▲                                      │                                     │
//!    └───────── the task has ended ─────────┴── the task has ended: the loop ─────┘
//!                                               is asked to watch again
//! ```
//!
//! Any thread changes the interests. Only the loop calls `begin_task`, `apply` and `close`; only
//! the task calls `end_task`. All fields are under one lock, which is held for a moment and never
//! while user code runs.
//!
//! # Invariants
//!
//! * A source has at most one task. While the loop waits, a source with a task is not watched.
//! * At most one note for a source is on its way (`asked`), however often its interests change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::Dump;
use tidegate_core::internal::lock;

use crate::errors::NetError;
use crate::sys::{Interest, Token};

/// The shared state of one source.
pub(crate) struct SourceState {
    pub(super) name: Arc<str>,
    pub(super) token: Token,
    /// The loop runs a callback of the source. Only for dumps.
    in_callback: AtomicBool,
    inner: Mutex<Inner>,
}

struct Inner {
    /// What the source wants to be selected for.
    interests: Interest,
    /// How often `set_interests` was called.
    version: u64,
    phase: Phase,
    /// A note that asks the loop to apply the interests is on its way.
    asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The source has no task.
    Idle,
    /// Its task is waiting or running.
    Busy,
    /// Its task is waiting or running, and the loop has stopped watching the descriptor.
    Suspended,
    Closed,
}

impl SourceState {
    pub(super) fn new(name: Arc<str>, token: Token, interests: Interest) -> Arc<Self> {
        let inner = Inner {
            interests,
            version: 0,
            phase: Phase::Idle,
            asked: false,
        };
        Arc::new(Self {
            name,
            token,
            in_callback: AtomicBool::new(false),
            inner: Mutex::new(inner),
        })
    }

    /// Records whether the loop runs a callback of the source.
    pub(super) fn set_in_callback(&self, yes: bool) {
        self.in_callback.store(yes, Ordering::Relaxed);
    }

    pub(super) fn interests(&self) -> Interest {
        self.lock().interests
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().phase == Phase::Closed
    }

    /// Returns `true` if the task of the source has not ended.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.lock().phase, Phase::Busy | Phase::Suspended)
    }

    /// Sets the interests. Returns `true` if the caller has to ask the loop to apply them.
    ///
    /// # Errors
    ///
    /// [`NetError::SourceClosed`].
    pub(super) fn set_interests(&self, interests: Interest) -> Result<bool, NetError> {
        let mut inner = self.lock();
        if inner.phase == Phase::Closed {
            drop(inner);
            return Err(self.closed_error());
        }
        inner.interests = interests;
        inner.version += 1;
        Ok(!std::mem::replace(&mut inner.asked, true))
    }

    /// Returns the interests and their version.
    pub(super) fn versioned_interests(&self) -> (Interest, u64) {
        let inner = self.lock();
        (inner.interests, inner.version)
    }

    /// Sets the interests that the source itself wants, unless they were set after `version`: what
    /// was set later stays.
    pub(super) fn update_interests(&self, version: u64, interests: Interest) {
        let mut inner = self.lock();
        if inner.version == version && inner.phase != Phase::Closed {
            inner.interests = interests;
        }
    }

    /// Records that a note with a change of interests has arrived.
    pub(super) fn hook(&self) {
        self.lock().asked = false;
    }

    /// Records that the source has a task.
    pub(super) fn begin_task(&self) {
        let mut inner = self.lock();
        if inner.phase == Phase::Idle {
            inner.phase = Phase::Busy;
        }
    }

    /// Records that the task has ended. Returns `true` if the caller has to ask the loop to watch
    /// the descriptor again.
    pub(super) fn end_task(&self) -> bool {
        let mut inner = self.lock();
        let before = inner.phase;
        if before != Phase::Closed {
            inner.phase = Phase::Idle;
        }
        before == Phase::Suspended && !std::mem::replace(&mut inner.asked, true)
    }

    /// Returns the interests that the loop applies before it waits: none while there is a task.
    pub(super) fn apply(&self) -> Interest {
        let mut inner = self.lock();
        match inner.phase {
            Phase::Idle => inner.interests,
            Phase::Busy => {
                inner.phase = Phase::Suspended;
                Interest::NONE
            }
            Phase::Suspended | Phase::Closed => Interest::NONE,
        }
    }

    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.phase = Phase::Closed;
        inner.interests = Interest::NONE;
    }

    pub(super) fn closed_error(&self) -> NetError {
        NetError::SourceClosed {
            source_name: self.name.to_string(),
        }
    }

    /// Returns the state of the source for a dump.
    pub(super) fn dump(&self) -> Dump {
        let inner = self.lock();
        let (interests, phase) = (inner.interests, inner.phase);
        drop(inner);
        let state = match phase {
            Phase::Idle if self.in_callback.load(Ordering::Relaxed) => "in its callback",
            Phase::Idle => "idle",
            Phase::Busy | Phase::Suspended => "in its task",
            Phase::Closed => "closed",
        };
        Dump::new("source", &self.name)
            .fact("interests", interests.to_string())
            .fact("state", state)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

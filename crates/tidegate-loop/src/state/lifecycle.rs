//! The states of an event loop's life cycle.
//!
//! | from | to | when | changed by |
//! |---|---|---|---|
//! | `NotStarted`, `Suspended` | `Started` | work arrived and a thread started | `transitions.rs` |
//! | `Started` | `Suspending` | it is asked to give its thread back | `thread/suspend.rs` |
//! | `NotStarted` | `Suspended` | the same, without a thread | `thread/suspend.rs` |
//! | `Started`, `Suspending` | `Suspended` | the thread leaves, idle | `thread/suspend.rs` |
//! | `Suspending`, `Started` | `ShuttingDown` | a shutdown is requested | `transitions.rs` |
//! | `ShuttingDown` | `Shutdown` | quiet, or at the deadline: lanes close | `shutdown/steps.rs` |
//! | `NotStarted`, `Suspended` | `Shutdown` | a shutdown request, no work left | `transitions.rs` |
//! | any | `Shutdown` | it is stuck after its deadline | `shutdown/deadline.rs` |
//! | any | `Terminated` | it has ended | `Shared::terminate` |

use tidegate_core::internal::prim::{AtomicU8, Ordering};

/// The state of an event loop's life cycle. Later states are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lifecycle {
    /// The event loop has no thread and never had one.
    NotStarted,
    /// The event loop gave its thread back. New work starts another one.
    Suspended,
    /// The event loop was asked to give its thread back as soon as it is idle.
    Suspending,
    /// The event loop runs.
    Started,
    /// A shutdown was requested. The event loop still accepts tasks.
    ShuttingDown,
    /// The event loop accepts no more tasks and finishes the ones it has.
    Shutdown,
    /// The event loop has ended.
    Terminated,
}

/// An atomic [`Lifecycle`].
#[derive(Debug)]
pub(crate) struct State {
    word: AtomicU8,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU8::new(Lifecycle::NotStarted as u8),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Lifecycle {
        // ORDERING: Acquire pairs with the AcqRel of `advance`: a thread that reads a state also
        // sees the writes that led to it.
        from_word(self.word.load(Ordering::Acquire))
    }

    /// Returns `true` if a thread has to be started before work can run.
    #[inline(always)]
    pub(crate) fn needs_thread(&self) -> bool {
        self.word.load(Ordering::Relaxed) <= Lifecycle::Suspended as u8
    }

    /// Changes the state from `from` to `to`. Returns `false` if the current state is not `from`.
    pub(crate) fn advance(&self, from: Lifecycle, to: Lifecycle) -> bool {
        // ORDERING: AcqRel: a thread that changes the state sees the earlier writes and publishes
        // its own.
        self.word
            .compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Changes any earlier state to [`Lifecycle::Started`].
    pub(crate) fn begin(&self) {
        self.raise(Lifecycle::Started);
    }

    /// Changes the state to `to` if that is later than the current one. Returns the state before.
    pub(crate) fn raise(&self, to: Lifecycle) -> Lifecycle {
        // ORDERING: AcqRel, as in `advance`.
        from_word(self.word.fetch_max(to as u8, Ordering::AcqRel))
    }
}

fn from_word(word: u8) -> Lifecycle {
    const ALL: [Lifecycle; 7] = [
        Lifecycle::NotStarted,
        Lifecycle::Suspended,
        Lifecycle::Suspending,
        Lifecycle::Started,
        Lifecycle::ShuttingDown,
        Lifecycle::Shutdown,
        Lifecycle::Terminated,
    ];
    ALL[usize::from(word)]
}

//! The states of a loop's life.
//!
//! | from | to | when | changed by |
//! |---|---|---|---|
//! | `NotStarted`, `Suspended` | `Started` | work has come, and a thread | `transitions.rs` |
//! | `Started` | `Suspending` | it is asked to give its thread back | `thread/suspend.rs` |
//! | `NotStarted` | `Suspended` | the same, without a thread | `thread/suspend.rs` |
//! | `Started`, `Suspending` | `Suspended` | its thread leaves, with nothing to do | `thread/suspend.rs` |
//! | `Suspending`, `Started` | `ShuttingDown` | it is asked to end | `transitions.rs` |
//! | `ShuttingDown` | `Shutdown` | quiet, or its time is over: the lanes close | `shutdown/steps.rs` |
//! | `NotStarted`, `Suspended` | `Shutdown` | it is asked to end and has nothing to run | `transitions.rs` |
//! | any | `Shutdown` | it is stuck after its deadline | `shutdown/deadline.rs` |
//! | any | `Terminated` | it is over | `Shared::terminate` |

use tidegate_core::prim::{AtomicU8, Ordering};

/// Where a loop is in its life. Later states are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lifecycle {
    /// It has no thread and never had one.
    NotStarted,
    /// It gave its thread back and gets a new one when work comes.
    Suspended,
    /// It was asked to give its thread back as soon as it has nothing to do.
    Suspending,
    /// It runs.
    Started,
    /// It was asked to end and still takes tasks.
    ShuttingDown,
    /// It takes no more tasks and deals with those it has.
    Shutdown,
    /// It is over.
    Terminated,
}

/// A [`Lifecycle`] that threads share.
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
        // ORDERING: Acquire pairs with the AcqRel of `advance`: who sees a state sees what led
        // to it.
        from_word(self.word.load(Ordering::Acquire))
    }

    /// Whether a thread has to be started before work can run.
    #[inline(always)]
    pub(crate) fn needs_thread(&self) -> bool {
        self.word.load(Ordering::Relaxed) <= Lifecycle::Suspended as u8
    }

    /// Goes from `from` to `to`; false if the state is another.
    pub(crate) fn advance(&self, from: Lifecycle, to: Lifecycle) -> bool {
        // ORDERING: AcqRel: whoever changes the state sees, and shows, what went before.
        self.word
            .compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Goes to [`Lifecycle::Started`] from any earlier state.
    pub(crate) fn begin(&self) {
        self.raise(Lifecycle::Started);
    }

    /// Goes to `to` if that is later than now; answers the state before.
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

//! What has become of the request for a thread, which a thread factory or an executor of the user
//! answers.
//!
//! ```text
//!              answered: yes              begin
//!   Requested ───────────────▶ Accepted ─────────▶ Begun
//!     │  │ │                       │
//!     │  │ └── begin ──────────────┼───────────────▶ Begun     (before the answer)
//!     │  └──── begin on the requesting thread ────▶ Refused
//!     └── answered: no, dropped ──▶ Refused        dropped: the start is lost
//! ```
//!
//! The user's code may answer, run the work, drop it, or keep it, in any order and on any thread.
//! The lock makes each step whole; it is held for no call.

use std::thread::{self, ThreadId};

use tidegate_core::internal::prim::{Mutex, lock};

/// The message for work that was dropped.
pub(super) const DROPPED: &str =
    "it dropped the work of a thread; run it once, on a thread of its own";
/// The message for work that ran on the thread that requested it.
const INLINE: &str =
    "it ran the work on the thread that requested it; use a thread of its own, or permits";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The user's code is being asked, by this thread.
    Requested(ThreadId),
    /// The user's code has accepted the work, and has not run it yet.
    Accepted,
    /// The thread runs.
    Begun,
    /// There will be no thread.
    Refused(&'static str),
}

/// The state of one request.
#[derive(Debug)]
pub(crate) struct StartState(Mutex<Step>);

impl Default for StartState {
    fn default() -> Self {
        Self(Mutex::new(Step::Requested(thread::current().id())))
    }
}

impl StartState {
    /// Records that the calling thread is about to request the thread.
    pub(super) fn request(&self) {
        self.change(|_| (Step::Requested(thread::current().id()), ()));
    }

    /// Begins the work on the calling thread. Returns `false` if it must not run.
    pub(super) fn begin(&self) -> bool {
        self.change(|step| match step {
            Step::Requested(by) if by == thread::current().id() => (Step::Refused(INLINE), false),
            Step::Requested(_) | Step::Accepted => (Step::Begun, true),
            other => (other, false),
        })
    }

    /// Records the answer of the user's code. Work that has begun counts as accepted, and work that
    /// was dropped as refused.
    ///
    /// # Errors
    ///
    /// Returns why there is no thread.
    pub(super) fn answered(&self, answer: Result<(), String>) -> Result<(), String> {
        self.change(|step| match (step, answer) {
            (Step::Requested(_), Ok(())) => (Step::Accepted, Ok(())),
            (Step::Requested(_), Err(why)) => (Step::Refused(DROPPED), Err(why)),
            (Step::Refused(why), Ok(())) => (step, Err(why.to_owned())),
            (Step::Refused(_), Err(why)) => (step, Err(why)),
            (Step::Accepted | Step::Begun, _) => (step, Ok(())),
        })
    }

    /// Records that the work was dropped. Returns `true` if it had been accepted and did not begin:
    /// the start is lost, and nobody else takes it back.
    pub(super) fn dropped(&self) -> bool {
        self.change(|step| match step {
            Step::Requested(_) => (Step::Refused(DROPPED), false),
            Step::Accepted => (Step::Refused(DROPPED), true),
            other => (other, false),
        })
    }

    fn change<R>(&self, next: impl FnOnce(Step) -> (Step, R)) -> R {
        let mut step = lock(&self.0);
        let (to, answer) = next(*step);
        *step = to;
        answer
    }
}

#[cfg(test)]
mod tests {
    //! Each order of answer, begin and drop has one meaning.

    use super::*;

    fn elsewhere<R: Send>(run: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| scope.spawn(run).join().expect("it does not panic"))
    }

    #[test]
    fn work_begins_once_before_or_after_the_answer() {
        let start = StartState::default();
        assert_eq!(start.answered(Ok(())), Ok(()));
        assert!(elsewhere(|| start.begin()) && !elsewhere(|| start.begin()));
        assert!(!start.dropped(), "it has begun");
        let early = StartState::default();
        assert!(elsewhere(|| early.begin()));
        let answer = early.answered(Err("no".to_owned()));
        assert_eq!(answer, Ok(()), "it runs, whatever the answer says");
    }

    #[test]
    fn refused_or_dropped_work_never_begins() {
        let refused = StartState::default();
        assert_eq!(refused.answered(Err("no".to_owned())), Err("no".to_owned()));
        assert!(!elsewhere(|| refused.begin()) && !refused.dropped());
        let dropped = StartState::default();
        assert!(!dropped.dropped(), "the answer tells");
        assert_eq!(dropped.answered(Ok(())), Err(DROPPED.to_owned()));
        let lost = StartState::default();
        assert_eq!(lost.answered(Ok(())), Ok(()));
        assert!(lost.dropped() && !lost.dropped());
    }

    #[test]
    fn work_does_not_begin_on_the_requesting_thread() {
        let inline = StartState::default();
        assert!(!inline.begin());
        assert_eq!(inline.answered(Ok(())), Err(INLINE.to_owned()));
    }
}

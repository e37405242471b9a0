//! The error for a refused wait.

use std::error::Error;
use std::fmt;

/// A refused blocking wait: the reason, and the names of the waiter and of what it waited for.
///
/// ```
/// use tidegate_core::Blocking;
/// use tidegate_core::internal::check_wait;
///
/// let refused = Blocking::forbid(|| check_wait(None)).unwrap_err();
/// assert!(refused.to_string().contains("must not block"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct WaitRefusedError {
    pub(super) why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The thread must not block at all.
    WaitPolicy {
        waiting: String,
        home: Option<String>,
        /// `true` for a wait for the end of a thread, `false` for a wait for a promise.
        end: bool,
        tagged: bool,
    },
    /// Names of the executors on the cycle, starting with the waiting executor.
    Deadlock { names: Vec<String> },
    /// A listener would wait for the promise that is notifying it.
    OwnListener { name: String },
}

impl WaitRefusedError {
    /// Creates the refusal of a wait, inside a listener, for the promise that is notifying this
    /// listener.
    #[doc(hidden)]
    pub fn own_listener() -> Self {
        Self {
            why: Why::OwnListener {
                name: thread_name(),
            },
        }
    }

    /// Creates the refusal of a wait that would close a cycle of these executors; the first one
    /// waits.
    #[doc(hidden)]
    pub fn deadlock(names: Vec<String>) -> Self {
        Self {
            why: Why::Deadlock { names },
        }
    }

    /// Returns `true` if the wait would have closed a cycle of waiting executors.
    pub fn is_deadlock(&self) -> bool {
        matches!(self.why, Why::Deadlock { .. })
    }

    /// Returns the names of the executors involved: the waiting executor first, then those it waits
    /// for.
    pub fn names(&self) -> Vec<&str> {
        match &self.why {
            Why::WaitPolicy { waiting, home, .. } => match home {
                Some(home) => vec![waiting.as_str(), home.as_str()],
                None => vec![waiting.as_str()],
            },
            Why::Deadlock { names } => names.iter().map(String::as_str).collect(),
            Why::OwnListener { name } => vec![name],
        }
    }
}

impl fmt::Display for WaitRefusedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::WaitPolicy {
                waiting,
                home,
                end,
                tagged,
            } => {
                let what = if *tagged {
                    "a thread tagged non-blocking"
                } else {
                    "an event loop"
                };
                write!(f, "{waiting}, {what}, must not block")?;
                match home {
                    Some(home) if *end => {
                        return write!(
                            f,
                            " to wait for the end of thread {home}; await the end instead"
                        );
                    }
                    Some(home) => write!(f, " to wait for a promise of {home}")?,
                    None => {}
                }
                write!(f, "; listen to the completion or await it instead")
            }
            Why::Deadlock { names } => {
                let next = names.iter().skip(1).chain(names.first());
                for (at, (waiting, home)) in names.iter().zip(next).enumerate() {
                    let before = match at {
                        0 => "this wait would be a deadlock:",
                        _ => ",",
                    };
                    write!(f, "{before} {waiting} waits for {home}")?;
                }
                write!(f, "; await or listen instead")
            }
            Why::OwnListener { name } => write!(
                f,
                "{name} would wait in a listener for the promise that is calling this listener; use \
                 the outcome that the listener was given"
            ),
        }
    }
}

crate::debug_as_display!(WaitRefusedError);

impl Error for WaitRefusedError {}

pub(super) fn thread_name() -> String {
    let thread = std::thread::current();
    thread
        .name()
        .unwrap_or("a thread without a name")
        .to_owned()
}

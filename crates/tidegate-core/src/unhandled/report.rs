//! The report: an error that no other code handles.

use std::fmt;

/// An error for which no caller is waiting.
///
/// ```
/// use tidegate_core::Unhandled;
///
/// let what = Unhandled::TaskPanic { task: "compact", message: "out of ink" };
/// assert_eq!(what.to_string(), "task `compact` panicked: out of ink");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unhandled<'a> {
    /// A task given to `execute` panicked.
    TaskPanic {
        /// The task's name.
        task: &'a str,
        /// The panic's message.
        message: &'a str,
    },
    /// A scheduled task was due, and its executor refused it.
    TaskRefused {
        /// The task's name.
        task: &'a str,
        /// Why, and what to do.
        message: &'a str,
    },
    /// A listener of a promise panicked.
    ListenerPanic {
        /// The panic's message.
        message: &'a str,
    },
    /// A hook panicked: a shutdown hook, a start, stop or exit hook of a thread, a hook of a cancel
    /// token, or the hook for unhandled errors.
    HookPanic {
        /// The panic's message.
        message: &'a str,
    },
    /// A producer of a strategy panicked.
    ProducerPanic {
        /// The panic's message.
        message: &'a str,
    },
    /// A strategy broke its contract: it dropped a task or its producer.
    Strategy {
        /// Which strategy, of which executor, and what happened.
        message: &'a str,
    },
    /// An error occurred on a channel, and none of its handlers handled it.
    ChannelError {
        /// What went wrong.
        message: &'a str,
    },
    /// A server has stopped accepting connections for a while, usually because the process has no
    /// descriptors left.
    AcceptPaused {
        /// Which server, for how long, and why.
        message: &'a str,
        /// `true` if a subscriber of `tracing` has received it as the event `accept_failed`. The
        /// default hook then does not report it again.
        is_traced: bool,
    },
    /// A setting that was accepted has no effect, or not the effect that its name suggests.
    Setting {
        /// Which setting, why, and what to do.
        message: &'a str,
    },
    /// A part that the program has supplied broke its contract or failed: a queue, a thread factory,
    /// an executor. Everything else goes on.
    PartFailed {
        /// The part, such as ``the queue of pool `prices` ``.
        part: &'a str,
        /// What it did, and what happens instead.
        message: &'a str,
    },
    /// Listeners ran on the completing thread because their executor has terminated.
    ListenerFellBack,
    /// Reports that a hook did not receive because there were too many; see
    /// [`OnUnhandled`](crate::OnUnhandled).
    LeftOut {
        /// The number of reports.
        count: u64,
    },
}

impl<'a> Unhandled<'a> {
    /// Returns the kind of the error as one word, for events.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::TaskPanic { .. } => "task_panic",
            Self::TaskRefused { .. } => "task_refused",
            Self::ListenerPanic { .. } => "listener_panic",
            Self::HookPanic { .. } => "hook_panic",
            Self::ProducerPanic { .. } => "producer_panic",
            Self::Strategy { .. } => "strategy",
            Self::ChannelError { .. } => "channel_error",
            Self::AcceptPaused { .. } => "accept_paused",
            Self::Setting { .. } => "setting",
            Self::PartFailed { .. } => "part_failed",
            Self::ListenerFellBack => "listener_fell_back",
            Self::LeftOut { .. } => "left_out",
        }
    }

    /// Returns `true` if a subscriber of `tracing` has already received an event about it.
    pub(crate) fn is_traced(&self) -> bool {
        matches!(*self, Self::AcceptPaused { is_traced, .. } if is_traced)
    }

    /// Returns the name of the task, for events.
    pub(crate) fn task(&self) -> Option<&'a str> {
        match *self {
            Self::TaskPanic { task, .. } | Self::TaskRefused { task, .. } => Some(task),
            _ => None,
        }
    }

    /// Returns the name of the task or the part, and the message.
    pub(super) fn texts(&self) -> (&'a str, &'a str) {
        match *self {
            Self::TaskPanic { task, message } | Self::TaskRefused { task, message } => {
                (task, message)
            }
            Self::PartFailed { part, message } => (part, message),
            Self::ListenerPanic { message }
            | Self::HookPanic { message }
            | Self::ProducerPanic { message }
            | Self::Strategy { message }
            | Self::ChannelError { message }
            | Self::AcceptPaused { message, .. }
            | Self::Setting { message } => ("", message),
            Self::ListenerFellBack | Self::LeftOut { .. } => ("", ""),
        }
    }

    /// Returns the same error with other texts.
    pub(super) fn with_texts<'b>(self, name: &'b str, message: &'b str) -> Unhandled<'b> {
        let task = name;
        match self {
            Self::TaskPanic { .. } => Unhandled::TaskPanic { task, message },
            Self::TaskRefused { .. } => Unhandled::TaskRefused { task, message },
            Self::ListenerPanic { .. } => Unhandled::ListenerPanic { message },
            Self::HookPanic { .. } => Unhandled::HookPanic { message },
            Self::ProducerPanic { .. } => Unhandled::ProducerPanic { message },
            Self::Strategy { .. } => Unhandled::Strategy { message },
            Self::ChannelError { .. } => Unhandled::ChannelError { message },
            Self::AcceptPaused { is_traced, .. } => Unhandled::AcceptPaused { message, is_traced },
            Self::Setting { .. } => Unhandled::Setting { message },
            Self::PartFailed { .. } => Unhandled::PartFailed {
                part: name,
                message,
            },
            Self::ListenerFellBack => Unhandled::ListenerFellBack,
            Self::LeftOut { count } => Unhandled::LeftOut { count },
        }
    }
}

impl fmt::Display for Unhandled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TaskPanic { task, message } => write!(f, "task `{task}` panicked: {message}"),
            Self::TaskRefused { task, message } => {
                write!(
                    f,
                    "scheduled task `{task}` was refused when it was due: {message}"
                )
            }
            Self::ListenerPanic { message } => write!(f, "a listener panicked: {message}"),
            Self::HookPanic { message } => write!(f, "a hook panicked: {message}"),
            Self::ProducerPanic { message } => write!(f, "a producer panicked: {message}"),
            Self::Strategy { message } => write!(f, "a strategy broke its contract: {message}"),
            Self::ChannelError { message } => write!(f, "an error on a channel: {message}"),
            Self::AcceptPaused { message, .. } => f.write_str(message),
            Self::Setting { message } => write!(f, "a setting has no effect: {message}"),
            Self::PartFailed { part, message } => write!(f, "{part} failed: {message}"),
            Self::ListenerFellBack => {
                write!(f, "listeners ran elsewhere: their executor has terminated")
            }
            Self::LeftOut { count: 1 } => write!(f, "1 more error was left out"),
            Self::LeftOut { count } => write!(f, "{count} more errors were left out"),
        }
    }
}

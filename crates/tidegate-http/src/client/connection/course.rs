//! What a connection is doing, and what it does next, as plain data: no socket, no clock, no receiver.
//!
//! ```text
//!   Idle ── begin ──▶ Head ── final head ──▶ Body ── end ──▶ Idle, or Over
//!     │                 │ 1xx: stays           │
//!     │                 │                      ├─ its receiver wants nothing more ──▶ Left ─┐
//!     ▼ bytes, time     ▼ failure              ▼ failure                                   ▼ closed
//!    Over              Over                   Over                                        Over
//! ```
//!
//! The connection asks it about each event, and carries out what it says. A connection in `Head`, `Body`
//! or `Left` has an exchange, in `Idle` and `Over` it has none. The cancel of a request leads from `Head`
//! to `Left`, too.

use std::time::Duration;

use crate::client::exchange_handler::Flow;
use crate::client::limits::ConnectionLimits;

/// How many interim responses a server may send to one request within [`INTERIM_PERIOD`]: a long
/// operation may report every few seconds that it goes on.
const MOST_INTERIM: u8 = 16;
/// The time in which interim responses are counted, in nanoseconds.
const INTERIM_PERIOD: u64 = 1_000_000_000;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Course {
    /// No request is outstanding. The connection ends at this time, in nanoseconds.
    Idle { until: u64 },
    /// A request is outstanding. `answered`: a part of the response has come.
    Head { answered: bool, interim: Interim },
    /// The final head has come.
    Body { reading: Reading, after: After },
    /// The receiver wants nothing more, and is dropped when the connection is closed: what it holds,
    /// such as a permit, lasts as long as the server may work for it.
    Left,
    /// The connection has ended or is about to.
    Over,
}

/// How the body of a response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Reading {
    On,
    /// The receiver takes no more for now.
    Paused,
    /// Nothing more is received, so a receiver that pauses gets the rest at once.
    Rest,
}

/// What becomes of the connection after the response, if nothing else is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum After {
    Close,
    /// The server keeps it as long as this.
    Keep(Duration),
}

/// Counts the interim responses to one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::client) struct Interim {
    /// When the period began, in nanoseconds.
    since: u64,
    /// How many came in it.
    count: u8,
}

/// What becomes of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum OnBytes {
    /// They are a part of the response.
    Read,
    /// The connection is ending.
    Ignore,
    /// Nothing was asked for: whatever they are, they belong to no call.
    Close,
    /// Nothing of the request was sent, so they are no response to it.
    Fail,
}

/// What comes after a part of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum OnData {
    Read,
    Pause,
    Leave,
}

/// What an exchange looks like when its deadline passes.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct Look {
    pub(in crate::client) now: u64,
    /// Bytes of the request are waiting to be sent.
    pub(in crate::client) has_unsent: bool,
    /// Some were sent since the last look.
    pub(in crate::client) has_sent: bool,
    /// The whole request was written.
    pub(in crate::client) complete: bool,
    /// When the request began or was complete.
    pub(in crate::client) since: u64,
}

/// What becomes of a connection whose deadline passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum OnDeadline {
    Nothing,
    /// The next look is after this time.
    Wait(Duration),
    Close,
    /// The server has exceeded this time.
    Fail(Duration),
}

impl Course {
    /// A request that begins.
    pub(in crate::client) const BEGUN: Self = Self::Head {
        answered: false,
        interim: Interim { since: 0, count: 0 },
    };

    /// Returns `true` if a response is outstanding that has a receiver.
    #[inline]
    pub(in crate::client) fn is_receiving(&self) -> bool {
        matches!(self, Self::Head { .. } | Self::Body { .. })
    }

    /// Returns whether a part of the response of an exchange has come, and its final head.
    pub(in crate::client) fn progress(&self) -> (bool, bool) {
        match self {
            Self::Head { answered, .. } => (*answered, false),
            Self::Body { .. } => (true, true),
            Self::Idle { .. } | Self::Left | Self::Over => (false, false),
        }
    }

    /// Returns what becomes of received bytes. `sent`: something of the request was sent.
    #[inline]
    pub(in crate::client) fn on_bytes(&self, sent: bool) -> OnBytes {
        match self {
            Self::Idle { .. } => OnBytes::Close,
            Self::Head { .. } | Self::Body { .. } if !sent => OnBytes::Fail,
            Self::Head { .. } | Self::Body { .. } => OnBytes::Read,
            Self::Left | Self::Over => OnBytes::Ignore,
        }
    }

    /// Notes that a part of a head has come.
    #[inline]
    pub(in crate::client) fn on_part(&mut self) {
        if let Self::Head { answered, .. } = self {
            *answered = true;
        }
    }

    /// Notes an interim head that came at `now`. Returns `false` if there are too many.
    pub(in crate::client) fn on_interim(&mut self, now: u64) -> bool {
        let Self::Head { interim, .. } = self else {
            return false;
        };
        if now.saturating_sub(interim.since) >= INTERIM_PERIOD {
            *interim = Interim {
                since: now,
                count: 0,
            };
        }
        interim.count += 1;
        interim.count <= MOST_INTERIM
    }

    /// Notes the final head.
    #[inline]
    pub(in crate::client) fn on_head(&mut self, after: After) {
        *self = Self::Body {
            reading: Reading::On,
            after,
        };
    }

    /// Returns what comes after a part of the body of which its receiver has said this.
    #[inline]
    pub(in crate::client) fn on_data(&mut self, flow: Flow) -> OnData {
        match (flow, self) {
            (Flow::Gone, _) => OnData::Leave,
            (Flow::Pause, Self::Body { reading, .. }) if *reading == Reading::On => {
                *reading = Reading::Paused;
                OnData::Pause
            }
            (Flow::Pause | Flow::More, _) => OnData::Read,
        }
    }

    /// Goes on after a pause. Returns `false` if there was none.
    pub(in crate::client) fn on_resume(&mut self) -> bool {
        match self {
            Self::Body { reading, .. } if *reading == Reading::Paused => {
                *reading = Reading::On;
                true
            }
            _ => false,
        }
    }

    /// Notes that nothing more is received.
    pub(in crate::client) fn on_end_of_input(&mut self) {
        if let Self::Body { reading, .. } = self {
            *reading = Reading::Rest;
        }
    }

    /// Returns how long the server keeps the connection, whose response has ended. `None` if it cannot
    /// be used again. `usable`: nothing else is in the way.
    #[inline]
    pub(in crate::client) fn on_end(&self, usable: bool) -> Option<Duration> {
        match self {
            Self::Body {
                reading: Reading::On,
                after: After::Keep(idle),
            } if usable => Some(*idle),
            _ => None,
        }
    }

    /// Returns what becomes of the connection, whose deadline has passed.
    pub(in crate::client) fn on_deadline(
        &self,
        look: Look,
        limits: &ConnectionLimits,
    ) -> OnDeadline {
        let head = limits.head_timeout;
        match self {
            Self::Idle { until } => match until.saturating_sub(look.now) {
                0 => OnDeadline::Close,
                left => OnDeadline::Wait(Duration::from_nanos(left).min(head)),
            },
            // Now the receiver is slow, not the server.
            Self::Body {
                reading: Reading::Paused,
                ..
            } => OnDeadline::Nothing,
            // The request is still being sent, and the server takes it.
            Self::Head { .. } | Self::Body { .. } if look.has_sent && look.has_unsent => {
                OnDeadline::Wait(head)
            }
            Self::Body { .. } => OnDeadline::Fail(limits.body_timeout),
            // The rest of the request has not been written yet: the server is not slow.
            Self::Head { .. } if !look.complete && !look.has_unsent => OnDeadline::Wait(head),
            // The request may have begun, or become complete, after the deadline was set.
            Self::Head { .. } => match after(look.since, head).saturating_sub(look.now) {
                0 => OnDeadline::Fail(head),
                left => OnDeadline::Wait(Duration::from_nanos(left)),
            },
            Self::Left | Self::Over => OnDeadline::Nothing,
        }
    }

    /// Notes that the connection is ending. A receiver that wants nothing more stays until it is closed.
    pub(in crate::client) fn end(&mut self) {
        if *self != Self::Left {
            *self = Self::Over;
        }
    }
}

/// Returns the time `wait` after `now`, in nanoseconds.
pub(super) fn after(now: u64, wait: Duration) -> u64 {
    now.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
}

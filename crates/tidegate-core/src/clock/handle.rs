//! The clock type that all components take: the system's clock, or a manual one.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::manual::{ClockMember, ManualClock};
use super::moment::{as_nanos, origin, system_now};
use super::sleeper::Sleeper;
use crate::Parker;

/// A clock: it returns the time and can put a thread to sleep until a deadline.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Clock, ManualClock};
///
/// let manual = ManualClock::new();
/// let clock = Clock::from(&manual);
/// let before = clock.now();
/// manual.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now() - before, Duration::from_secs(3600));
/// ```
#[derive(Clone, Default)]
pub struct Clock {
    source: Source,
}

#[derive(Clone, Default)]
enum Source {
    #[default]
    System,
    Manual(ManualClock),
}

impl Clock {
    /// Returns the system's monotonic clock.
    pub const fn system() -> Self {
        Self {
            source: Source::System,
        }
    }

    /// Returns the present time.
    pub fn now(&self) -> Instant {
        match &self.source {
            Source::System => system_now(),
            Source::Manual(clock) => clock.now(),
        }
    }

    /// Returns the present time in nanoseconds since this clock's origin.
    pub fn nanos(&self) -> u64 {
        match &self.source {
            Source::System => as_nanos(system_now().saturating_duration_since(origin())),
            Source::Manual(clock) => clock.nanos(),
        }
    }

    /// Returns the time `after` from now, in nanoseconds since this clock's origin; `u64::MAX` if
    /// that overflows.
    pub fn deadline(&self, after: Duration) -> u64 {
        self.nanos().saturating_add(as_nanos(after))
    }

    /// Converts nanoseconds of this clock to an `Instant`. Returns `None` for `u64::MAX`, which
    /// means "never", and for a time that an `Instant` cannot represent.
    pub fn instant_at(&self, nanos: u64) -> Option<Instant> {
        let origin = match &self.source {
            Source::System => origin(),
            Source::Manual(clock) => clock.origin(),
        };
        let is_moment = nanos != u64::MAX;
        is_moment.then(|| origin.checked_add(Duration::from_nanos(nanos)))?
    }

    /// Returns `true` if this is a manual clock.
    pub fn is_manual(&self) -> bool {
        matches!(self.source, Source::Manual(_))
    }

    /// Sleeps in `parker` until it is unparked or until nanosecond `deadline`. Returns `true` if it
    /// was unparked. On a manual clock, returns `false` if the deadline was reached during the
    /// sleep, even if the parker was unparked too. After a spurious wake-up, returns `false` before
    /// the deadline.
    #[doc(hidden)]
    pub fn park_until(&self, parker: &Parker, deadline: Option<u64>) -> bool {
        match &self.source {
            Source::System => match self.left_until(deadline) {
                Some(Duration::ZERO) => parker.park(Some(Duration::ZERO)),
                left => parker.park(left),
            },
            Source::Manual(clock) => {
                let sleeper: Arc<dyn Sleeper> = Arc::new(parker.clone());
                let mut woken = false;
                if !clock.sleep(&sleeper, deadline, || woken = parker.park(None)) {
                    // The deadline has passed. As on the system's clock, a pending wakeup is
                    // consumed.
                    return parker.take_wakeup();
                }
                // The clock also unparks a sleeper at its deadline.
                woken && deadline.is_none_or(|deadline| clock.nanos() < deadline)
            }
        }
    }

    /// Calls `wait` to sleep until `deadline` on this clock. For waits outside a parker, such as a
    /// poller's. `wait` must return when `sleeper` is woken.
    ///
    /// On the system's clock, `wait` gets the time left until the deadline; `None` means no limit.
    /// On a manual clock, `wait` always gets `None`, because the clock wakes `sleeper` at the
    /// deadline. If the deadline of a manual clock has passed, `wait` is not called.
    #[doc(hidden)]
    pub fn sleep_until(
        &self,
        sleeper: &Arc<dyn Sleeper>,
        deadline: Option<u64>,
        wait: impl FnOnce(Option<Duration>),
    ) {
        match &self.source {
            Source::System => wait(self.left_until(deadline)),
            Source::Manual(clock) => {
                clock.sleep(sleeper, deadline, || wait(None));
            }
        }
    }

    /// Announces a thread that [`ManualClock::settle`] of this clock has to wait for. Called before
    /// the thread starts; the thread then calls [`ClockMember::enter`].
    #[doc(hidden)]
    pub fn join(&self) -> ClockMember {
        match &self.source {
            Source::System => ClockMember::none(),
            Source::Manual(clock) => clock.join(),
        }
    }

    /// Makes the calling thread a member of this clock until the returned value is dropped, on the
    /// same thread. Does nothing if it is a member already: a second membership of one thread
    /// would never sleep together with the first one.
    #[doc(hidden)]
    pub fn join_here(&self) -> ClockMember {
        match &self.source {
            Source::Manual(clock) if !clock.is_member_here() => {
                let mut member = clock.join();
                member.enter();
                member
            }
            Source::System | Source::Manual(_) => ClockMember::none(),
        }
    }

    /// Waits until every member of a manual clock is asleep; returns at once on the system's clock.
    pub fn settle(&self) {
        if let Source::Manual(clock) = &self.source {
            clock.settle();
        }
    }

    fn left_until(&self, deadline: Option<u64>) -> Option<Duration> {
        match deadline {
            None | Some(u64::MAX) => None,
            Some(deadline) => Some(Duration::from_nanos(deadline.saturating_sub(self.nanos()))),
        }
    }
}

impl From<&Clock> for Clock {
    fn from(clock: &Clock) -> Self {
        clock.clone()
    }
}

impl From<&ManualClock> for Clock {
    fn from(clock: &ManualClock) -> Self {
        clock.clone().into()
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Self {
        Self {
            source: Source::Manual(clock),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::System => f.write_str("Clock::system()"),
            Source::Manual(clock) => clock.fmt(f),
        }
    }
}

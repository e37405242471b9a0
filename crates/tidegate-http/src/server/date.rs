//! The `Date` field: computed once a second on each thread.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::Clock;
use tidegate_core::internal::FastClock;

use crate::codec::HttpDate;

thread_local! {
    /// The last date of this thread. A date is a function of its second, so that servers with
    /// different clocks can share the cell.
    static LAST: Cell<(u64, HttpDate)> =
        Cell::new((0, HttpDate::from_unix_seconds(0)));
}

/// The date of all responses to one read, found out when the first of them needs it.
#[derive(Debug)]
pub(crate) struct ReadDate {
    /// The time of the read.
    at: u64,
    date: Option<HttpDate>,
}

impl ReadDate {
    pub(crate) fn new(at: u64) -> Self {
        Self { at, date: None }
    }

    #[inline]
    pub(crate) fn get(&mut self, wall: &WallClock) -> &HttpDate {
        self.date.get_or_insert_with(|| wall.date_at(self.at))
    }
}

/// The time of day, derived from the clock of the event loops, so that a test controls it.
#[derive(Clone, Debug)]
pub(crate) struct WallClock {
    clock: FastClock,
    /// The time of day, in nanoseconds since 1970, when the clock showed `since`.
    epoch: u64,
    since: u64,
}

impl WallClock {
    /// Creates the time of day that the system's clock shows now.
    pub(crate) fn new(clock: &Clock) -> Self {
        let clock = FastClock::new(clock);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let epoch = now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        let since = clock.nanos();
        Self {
            clock,
            epoch,
            since,
        }
    }

    /// Returns the time of the event loops' clock, in nanoseconds: a reading of the cycle counter,
    /// which costs a fraction of one of the system's clock.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.clock.nanos()
    }

    /// Returns the date at `nanos` of the clock.
    pub(crate) fn date_at(&self, nanos: u64) -> HttpDate {
        let passed = nanos.saturating_sub(self.since);
        let second = self.epoch.saturating_add(passed) / 1_000_000_000;
        LAST.with(|last| {
            let (of, date) = last.get();
            if of == second {
                return date;
            }
            let date = HttpDate::from_unix_seconds(second);
            last.set((second, date));
            date
        })
    }

    /// Returns the current date.
    pub(crate) fn date(&self) -> HttpDate {
        self.date_at(self.nanos())
    }
}

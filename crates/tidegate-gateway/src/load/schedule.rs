//! When each request is due. Pure data: times are nanoseconds, and the caller says what time it is.
//!
//! The planned times of an open loop do not depend on responses. A request that is due while all
//! connections are busy keeps its planned time, so that its wait counts. It is given up when it has
//! waited for the time limit.

use std::time::Duration;

/// By how much the rate grows from stage to stage.
const GROWTH: f64 = 1.25;

/// How requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Each connection sends the next request after the response.
    Closed,
    /// Requests per second.
    Rate(f64),
    /// A rate that grows in stages.
    Ramp {
        /// Requests per second in the first stage.
        from: f64,
        /// The length of a stage.
        stage: Duration,
    },
}

impl Shape {
    /// Returns the rate of all loops at a time since the start, if there is one.
    pub(crate) fn rate_at(&self, since: Duration) -> Option<f64> {
        match *self {
            Self::Closed => None,
            Self::Rate(rate) => Some(rate),
            Self::Ramp { from, stage } => {
                let stages = since.as_nanos() / stage.as_nanos().max(1);
                Some(from * GROWTH.powi(i32::try_from(stages).unwrap_or(i32::MAX)))
            }
        }
    }
}

/// The planned times of one of several loops.
#[derive(Clone, Debug)]
struct Plan {
    /// When the current stage began.
    start: u64,
    /// The length of a stage.
    stage: Option<u64>,
    /// Requests per second of this loop.
    rate: f64,
    /// How far this loop is behind the first one, in parts of its own interval.
    phase: f64,
    /// How many requests of the stage were planned.
    count: u64,
}

impl Plan {
    /// Returns the time of the next request.
    fn next(&mut self) -> u64 {
        loop {
            let offset = (self.count as f64 + self.phase) * 1e9 / self.rate;
            let at = self.start.saturating_add(offset as u64);
            match self.stage {
                Some(stage) if at >= self.start + stage => {
                    self.start += stage;
                    self.rate *= GROWTH;
                    self.count = 0;
                }
                _ => {
                    self.count += 1;
                    return at;
                }
            }
        }
    }
}

/// A request that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Its planned time.
    pub(crate) planned: u64,
    /// How many requests of the loop were taken before it.
    pub(crate) number: u64,
}

/// The requests that are due on one loop.
#[derive(Clone, Debug)]
pub struct Dispatch {
    plan: Option<Plan>,
    taken: u64,
    /// The planned time of the next request, if there is a plan.
    next: u64,
    /// When the last request is planned.
    end: u64,
    /// How long a request waits for a connection.
    patience: u64,
}

impl Dispatch {
    /// Plans the requests of loop `share.0` of `share.1` from `start` until `end`.
    pub fn new(
        shape: Shape,
        share: (usize, usize),
        start: u64,
        end: u64,
        patience: Duration,
    ) -> Self {
        let loops = share.1 as f64;
        let plan = |rate: f64, stage: Option<Duration>| Plan {
            start,
            stage: stage.map(nanos),
            rate: rate / loops,
            phase: share.0 as f64 / loops,
            count: 0,
        };
        let mut plan = match shape {
            Shape::Closed => None,
            Shape::Rate(rate) => Some(plan(rate, None)),
            Shape::Ramp { from, stage } => Some(plan(from, Some(stage))),
        };
        Self {
            next: plan.as_mut().map_or(start, Plan::next),
            plan,
            taken: 0,
            end,
            patience: nanos(patience),
        }
    }

    /// Takes a request that is due.
    pub(crate) fn take(&mut self, now: u64) -> Option<Due> {
        let planned = match &mut self.plan {
            None => (now < self.end).then_some(now),
            Some(plan) => (self.next <= now && self.next < self.end)
                .then(|| std::mem::replace(&mut self.next, plan.next())),
        };
        let number = self.taken;
        self.taken += u64::from(planned.is_some());
        planned.map(|planned| Due { planned, number })
    }

    /// Takes a request that has waited for too long.
    pub(crate) fn expire(&mut self, now: u64) -> Option<Due> {
        let is_over = self.plan.is_some() && self.next.saturating_add(self.patience) <= now;
        is_over.then(|| self.take(now)).flatten()
    }

    /// Returns how many requests are due, at most `most`.
    pub(crate) fn due(&self, now: u64, most: usize) -> usize {
        let mut ahead = self.clone();
        (0..most).take_while(|_| ahead.take(now).is_some()).count()
    }

    /// Returns the planned time of the next request, if there is one.
    pub(crate) fn next_at(&self) -> Option<u64> {
        (self.plan.is_some() && self.next < self.end).then_some(self.next)
    }

    /// Returns `true` if no request is left.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        match self.plan {
            None => now >= self.end,
            Some(_) => self.next >= self.end,
        }
    }

    /// Returns `true` if a request of a closed loop that ends `now` is after its end. As many as there
    /// are connections are in flight then, and would make the rate too high.
    pub(crate) fn is_after(&self, now: u64) -> bool {
        self.plan.is_none() && now > self.end
    }

    /// Plans no request from `now` on. What is due stays.
    pub(crate) fn stop(&mut self, now: u64) {
        self.end = self.end.min(now);
    }
}

/// Returns a duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

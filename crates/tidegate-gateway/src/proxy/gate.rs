//! What all requests of the gateway share: its loops, their timers, ids, reports.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::Executor;
use tidegate::loops::{CoarseTimer, EventLoop};
use tidegate::net::NetGroup;
use tidegate_core::internal::{FastClock, as_nanos};

use crate::fields::Ids;
use crate::reports::Reports;

/// The loops of the gateway.
pub(crate) struct Gate {
    group: NetGroup,
    executors: Vec<Arc<dyn Executor>>,
    /// The clock of each loop, which a request reads several times.
    clocks: Vec<FastClock>,
    pub(crate) ids: Ids,
    pub(crate) reports: Reports,
    /// When the gateway cuts what is left, in nanoseconds.
    cut_at: AtomicU64,
    /// The number of connections with fields that only a trusted peer may set.
    claims: AtomicU64,
}

impl Gate {
    pub(crate) fn new(group: &NetGroup, reports: &Reports) -> Arc<Self> {
        let loops = group.loops().iter();
        Arc::new(Self {
            clocks: loops
                .clone()
                .map(|one| FastClock::new(one.clock()))
                .collect(),
            executors: loops.map(EventLoop::executor).collect(),
            group: group.clone(),
            ids: Ids::new(),
            reports: reports.clone(),
            cut_at: AtomicU64::new(u64::MAX),
            claims: AtomicU64::new(0),
        })
    }

    /// Returns the number of loops.
    pub(crate) fn loops(&self) -> usize {
        self.executors.len()
    }

    /// Returns the number of the current loop. On any other thread it is 0.
    pub(crate) fn home(&self) -> usize {
        let mut loops = self.group.loops().iter();
        loops.position(EventLoop::is_current).unwrap_or(0)
    }

    /// Returns the executor of a loop.
    pub(crate) fn executor(&self, home: usize) -> &Arc<dyn Executor> {
        &self.executors[home]
    }

    /// Returns the time of a loop's clock, in nanoseconds.
    pub(crate) fn now(&self, home: usize) -> u64 {
        self.clocks.get(home).map_or(0, FastClock::nanos)
    }

    /// From this time on, the gateway itself ends connections.
    pub(crate) fn cut_after(&self, time: Duration) {
        // The clock of another loop may be a little behind.
        let at = match time.is_zero() {
            true => 0,
            false => self.now(0).saturating_add(as_nanos(time)),
        };
        self.cut_at.fetch_min(at, Ordering::Relaxed);
    }

    /// Returns `true` if the gateway itself ends connections now.
    pub(crate) fn cuts(&self, home: usize) -> bool {
        self.now(home) >= self.cut_at.load(Ordering::Relaxed)
    }

    /// Reports a connection whose client sends fields that only a trusted peer may set. Some clients
    /// always do, so fewer and fewer are reported: the first, the second, the fourth, and so on. The
    /// fields are not shown.
    #[cold]
    pub(crate) fn report_claims(&self, client: Option<IpAddr>) {
        let count = self.claims.fetch_add(1, Ordering::Relaxed) + 1;
        if !count.is_power_of_two() {
            return;
        }
        let client = client.map_or("a local client".to_owned(), |ip| ip.to_string());
        let text = format!(
            "removed fields of {client} that only a peer in `trust` of the listener may set, such as \
             `X-Forwarded-For`; connections with them so far: {count}"
        );
        self.reports.problems.report("untrusted_fields", text);
    }

    /// Runs `run` on a loop after this time. A loop that is ending takes no timers.
    pub(crate) fn after(
        &self,
        home: usize,
        time: Duration,
        run: impl FnOnce() + Send + 'static,
    ) -> Option<CoarseTimer> {
        self.event_loop(home)?.schedule_coarse(time, run).ok()
    }

    /// Runs `step` on a loop: now, if this is its thread. A loop that is ending runs nothing.
    pub(crate) fn on_loop(&self, home: usize, step: impl FnOnce() + Send + 'static) {
        match self.event_loop(home) {
            Some(own) if !own.is_current() => drop(own.execute(step)),
            _ => step(),
        }
    }

    /// Runs something on each loop. A loop that is ending runs nothing.
    pub(crate) fn on_each_loop<R>(&self, make: impl Fn(usize) -> R)
    where
        R: FnOnce() + Send + 'static,
    {
        for (home, one) in self.group.loops().iter().enumerate() {
            drop(one.execute(make(home)));
        }
    }

    /// Returns the loops.
    pub(crate) fn group(&self) -> &NetGroup {
        &self.group
    }

    /// Returns a loop.
    pub(crate) fn event_loop(&self, home: usize) -> Option<&EventLoop> {
        self.group.loops().iter().nth(home)
    }
}

#[cfg(test)]
mod tests {
    //! Reports on a manual clock.

    use tidegate::ManualClock;
    use tidegate_testkit::Recorder;

    use super::*;

    #[test]
    fn claims_are_reported_less_and_less_often() {
        let clock = ManualClock::new();
        let group = NetGroup::builder("claims").loops(1).clock(&clock);
        let group = group.build().unwrap();
        let gate = Gate::new(&group, &Reports::new((&clock).into()));
        let recorder = Recorder::new();
        tracing::subscriber::with_default(recorder.clone(), || {
            for _ in 0..9 {
                gate.report_claims(Some(IpAddr::from([192, 0, 2, 1])));
                clock.advance(Duration::from_secs(1));
            }
            gate.report_claims(None);
        });
        let told = recorder.events("problem");
        let told = told.iter().filter_map(|event| event.field("message"));
        let told: Vec<_> = told.map(str::to_owned).collect();
        assert_eq!(told.len(), 4, "1, 2, 4 and 8: {told:?}");
        assert!(
            told[0].starts_with("removed fields of 192.0.2.1 "),
            "{told:?}"
        );
        assert!(told[3].ends_with("so far: 8"), "{told:?}");
    }
}

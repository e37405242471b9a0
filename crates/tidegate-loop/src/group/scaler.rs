//! The monitor of a scaling group: a thread that samples the loops once per window and applies the
//! decision.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::internal::{TickerStop, as_nanos};
use tidegate_core::{ThreadBuilder, Ticker};

use super::active::ActiveLoops;
use super::scaling::{Decide, Sample, Scaling};
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;

/// The monitor of a scaling group.
pub(crate) struct Scaler {
    stop: TickerStop,
    utilisation: Arc<Mutex<Vec<f64>>>,
}

impl Scaler {
    pub(crate) fn start(
        mut scaling: Scaling,
        loops: Vec<Weak<Shared>>,
        active: ActiveLoops,
    ) -> io::Result<Self> {
        let ticker = scaling.ticker.take();
        let mut ticker = ticker.unwrap_or_else(|| Ticker::every(scaling.window));
        let stop = ticker.stop_handle();
        let utilisation = Arc::new(Mutex::new(vec![0.0; scaling.max]));
        let shown = Arc::clone(&utilisation);
        let mut monitor = Monitor {
            decide: Decide::new(&scaling),
            busy: vec![0; scaling.max],
            loops,
            active,
            shown,
        };
        ThreadBuilder::new("tidegate-scale").spawn(move || {
            while let Some(passed) = ticker.wait() {
                if !monitor.check(passed) {
                    return;
                }
            }
        })?;
        Ok(Self { stop, utilisation })
    }

    pub(crate) fn shutdown(&self) {
        self.stop.stop();
    }

    pub(crate) fn utilisation(&self) -> Vec<f64> {
        lock(&self.utilisation).clone()
    }
}

impl Drop for Scaler {
    fn drop(&mut self) {
        self.shutdown();
    }
}

struct Monitor {
    decide: Decide,
    /// The busy nanoseconds of each event loop at the last sample.
    busy: Vec<u64>,
    loops: Vec<Weak<Shared>>,
    active: ActiveLoops,
    shown: Arc<Mutex<Vec<f64>>>,
}

impl Monitor {
    /// Handles one window. Returns `false` if the group is gone or all its event loops shut down.
    fn check(&mut self, passed: Duration) -> bool {
        let loops: Option<Vec<_>> = self.loops.iter().map(Weak::upgrade).collect();
        let Some(loops) = loops.filter(|loops| !loops.iter().all(|one| has_ended(one))) else {
            return false;
        };
        let (mut samples, mut shown) = (Vec::new(), Vec::new());
        for (at, one) in loops.iter().enumerate() {
            let sample = sample(one, &mut self.busy[at], passed);
            shown.push(sample.busy);
            samples.push(sample);
        }
        *lock(&self.shown) = shown;
        for (at, one) in loops.iter().enumerate() {
            if !self.decide.active[at] && one.state.get() == Lifecycle::Started {
                self.decide.revive(at);
            }
        }
        let change = self.decide.window(&samples);
        self.active.set(&self.decide.snapshot());
        for at in change.give_up {
            loops[at].try_suspend();
        }
        true
    }
}

/// Returns `true` if the event loop shuts down or has ended.
fn has_ended(one: &Shared) -> bool {
    one.state.get() >= Lifecycle::ShuttingDown
}

fn sample(one: &Shared, before: &mut u64, passed: Duration) -> Sample {
    let busy = one.meter.busy_nanos(&one.clock);
    let spent = busy.saturating_sub(std::mem::replace(before, busy));
    let window = as_nanos(passed).max(1);
    Sample {
        busy: (spent as f64 / window as f64).min(1.0),
        idle: one.mailbox.lane.is_empty()
            && one.meter.counters.timers.get() == 0
            && one.meter.counters.futures.get() == 0,
        ended: has_ended(one),
    }
}

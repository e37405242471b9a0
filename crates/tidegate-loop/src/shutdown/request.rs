//! Requesting a shutdown, and waiting for it.

use std::time::Duration;

use tidegate_core::Parker;
use tidegate_core::executor::Work;
use tidegate_core::internal::{Awaited, as_nanos, check_wait_for};
use tidegate_pool::{Quiet, ShutdownError};
use tidegate_promise::{SharedCompletion, WaitError};

use super::plan::Plan;
use super::report::ShutdownReport;
use super::termination::failed;
use crate::state::shared::Shared;

impl Shared {
    /// Requests a shutdown as `quiet` says; a second call can only make it stricter.
    pub(crate) fn shut_down(
        &self,
        quiet: Quiet,
    ) -> SharedCompletion<ShutdownReport, ShutdownError> {
        if self.plan.is_endless() {
            return self.termination.completion();
        }
        if quiet.period > quiet.timeout {
            return failed(ShutdownError::BadQuiet(quiet));
        }
        let requested = Plan {
            quiet: as_nanos(quiet.period),
            deadline: self.clock.deadline(quiet.timeout),
            started: self.meter.running.started(),
        };
        self.plan.tighten(requested);
        self.begin_end();
        self.termination.completion()
    }

    /// Waits for the end of the event loop, for at most `timeout` on its clock.
    pub(crate) fn await_termination(
        &self,
        timeout: Duration,
    ) -> Result<bool, WaitError<ShutdownError>> {
        let done = self.termination.completion();
        if done.is_done() {
            return Ok(!self.plan.is_endless());
        }
        let deadline = self.clock.deadline(timeout);
        let awaited = Awaited {
            promise: None,
            work: Work::Own,
            endless: deadline == u64::MAX,
        };
        let recorded = check_wait_for(Some(self), awaited, || false);
        let _recorded = recorded.map_err(WaitError::Refused)?;
        let parker = Parker::new();
        let woken = parker.clone();
        let _listening = done.listen(move |_| woken.unpark());
        while !done.is_done() && self.clock.nanos() < deadline {
            self.clock.park_until(&parker, Some(deadline));
        }
        Ok(done.is_done())
    }
}

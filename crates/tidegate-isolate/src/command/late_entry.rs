//! The report of an entry: what its listeners receive, on the thread that ends the call, and what the
//! timer does at the deadline.
//!
//! At the deadline of an entry the timer's thread counts the timeout, feeds the breaker and the
//! adaptive limit, writes the log of the request, and counts the call as overstaying. Then it wakes
//! the holder. So a holder that learns of the timeout finds it counted. User code runs on the
//! callback threads of the command: hooks, listeners, the observer, subscribers of `tracing`, and the wakers of calls for which
//! a new limit has room.

use std::sync::Arc;

use tidegate_core::Task;
use tidegate_core::internal::PlainTask;

use super::ending::{Ended, Times};
use super::report::CallRecord;
use crate::event::{Event, EventSet};
use crate::in_flight::{EntryTimeouts, EntryWatch, ExpiredEntry};
use crate::isolation::state::State;
use crate::plugin::CallStage;

impl EntryTimeouts for State {
    fn entry_expired(self: Arc<Self>, entry: ExpiredEntry) -> Task {
        let ExpiredEntry {
            slot,
            start,
            began,
            deadline,
            ticket,
            watch,
        } = entry;
        let now = self.now();
        let (times, ended) = (Times { start, began, now }, Ended::late(deadline));
        self.gate.overstaying.begin(slot, now.min(deadline));
        self.record(times, ended);
        self.metrics.count(now, ended.event());
        let woken = self.gate.sample_quietly(now, times.run(), true);
        let changes = self
            .breaker
            .settle_quietly(ticket, ended.settlement(), now, times.run());
        let mut record = CallRecord::until(start, now);
        record.events.add(ended.event());
        if let Some(context) = watch.as_ref().and_then(|watch| watch.context.as_ref()) {
            self.log_into(context, &record);
        }
        // Also drops the handles of the command and of the observer.
        PlainTask::named("end of an entry", move || {
            self.breaker.call_listeners(&changes);
            if let Some(woken) = woken {
                woken.wake();
            }
            self.notify_late(watch.as_deref(), ended);
        })
    }
}

impl State {
    /// Calls the hooks and listeners of an entry that the timer has reported.
    fn notify_late(&self, watch: Option<&EntryWatch>, ended: Ended) {
        let observer = watch.and_then(|watch| watch.observer.as_ref());
        if let Some(watch) = watch {
            watch.record_end(ended.event());
        }
        let (before, after) = stages(ended);
        self.hooks(before);
        self.notify(observer, ended.event());
        self.hooks(after);
    }

    /// Calls the hooks of stages at which they cannot reject the call.
    fn hooks(&self, stages: &[CallStage]) {
        for stage in stages {
            drop(self.hook(*stage));
        }
    }

    /// Passes the timeout of an entry to its own observer and log, if the timer was so early that it
    /// did not find them.
    #[cold]
    pub(super) fn tell_watch_late(&self, watch: &EntryWatch, mut record: CallRecord, ended: Ended) {
        record.events.add(ended.event());
        watch.record_end(ended.event());
        self.notify_observer(watch.observer.as_ref(), ended.event());
        if let Some(context) = &watch.context {
            self.log_into(context, &record);
        }
    }

    /// Counts the events of an entry that were not counted yet, and calls hooks and listeners.
    /// `is_thrown` is `true` if the caller receives an error. Returns all events of the call.
    #[cold]
    pub(super) fn end_entry(
        &self,
        watch: Option<&EntryWatch>,
        mut record: CallRecord,
        ended: Ended,
        is_thrown: bool,
    ) -> EventSet {
        let observer = watch.and_then(|watch| watch.observer.as_ref());
        if let Some(watch) = watch {
            watch.record_end(ended.event());
        }
        let (before, after) = stages(ended);
        self.hooks(before);
        if ended == Ended::Success {
            // `State::report` has already counted the success.
            record.events.add(Event::Success);
            self.notify(observer, Event::Success);
        } else {
            self.emit(&mut record, observer, ended.event());
        }
        // For `Ignored`, this adds the event to the record and counts nothing: a bad request is
        // already counted as one.
        if is_thrown || ended == Ended::Ignored {
            self.thrown(&mut record, observer);
        }
        self.hooks(after);
        if let Some(context) = watch.and_then(|watch| watch.context.as_ref()) {
            self.log_into(context, &record);
        }
        record.events
    }
}

/// Returns the stages at the end of an entry, before and after its event.
fn stages(ended: Ended) -> (&'static [CallStage], &'static [CallStage]) {
    match ended {
        Ended::Success => (
            &[
                CallStage::ExecutionEmit,
                CallStage::Emit,
                CallStage::ExecutionSuccess,
            ],
            &[CallStage::Success],
        ),
        Ended::Failure | Ended::Ignored | Ended::Unserved => {
            (&[CallStage::ExecutionError], &[CallStage::Error])
        }
        Ended::TimedOut => (&[], &[CallStage::Error]),
        Ended::Cancelled | Ended::Abandoned => (&[CallStage::Cancelled], &[]),
    }
}

//! The reports of a call: its events go to the metrics and the listeners, and its end to the log of
//! its request.

use std::time::Duration;

use super::options::{CallOptions, Observer};
use super::shared::Shared;
use crate::error::contain;
use crate::event::{Event, EventSet};
use crate::isolation::state::{LOGS, State, WATCHED};
use crate::request::{LogEntry, RequestContext};

/// The times and events of a call in progress.
pub(super) struct CallRecord {
    pub(super) start: u64,
    /// The last reading of the clock, used again because a reading costs more than a count.
    pub(super) now: u64,
    pub(super) events: EventSet,
    /// Those of `events` that are in the log of the request already, because an attempt of the call
    /// wrote them.
    pub(super) logged: EventSet,
}

impl CallRecord {
    pub(super) fn new(start: u64) -> Self {
        Self::until(start, start)
    }

    /// Creates the record of a call that began at `start`, with the clock reading `now`.
    pub(super) fn until(start: u64, now: u64) -> Self {
        Self {
            start,
            now,
            events: EventSet::none(),
            logged: EventSet::none(),
        }
    }

    /// Creates the record of a call whose last attempt ended at `now` with these events.
    pub(super) fn after_attempt(now: u64, events: EventSet) -> Self {
        Self {
            events,
            logged: events,
            ..Self::new(now)
        }
    }
}

impl State {
    /// Counts an event, and notifies the listeners and the observer.
    pub(super) fn emit(&self, record: &mut CallRecord, observer: Option<&Observer>, event: Event) {
        record.events.add(event);
        self.metrics.count(record.now, event);
        self.notify(observer, event);
    }

    /// Records that the caller receives an error. Counts it only if no other event of the call
    /// implies it.
    pub(super) fn thrown(&self, record: &mut CallRecord, observer: Option<&Observer>) {
        let counted = [
            Event::BadRequest,
            Event::FallbackFailure,
            Event::FallbackRejection,
            Event::FallbackDisabled,
            Event::FallbackMissing,
        ];
        if counted.iter().any(|event| record.events.contains(*event)) {
            record.events.add(Event::ExceptionThrown);
            self.notify(observer, Event::ExceptionThrown);
        } else {
            self.emit(record, observer, Event::ExceptionThrown);
        }
    }

    /// Notifies the listeners of all calls, and the observer of this call.
    pub(super) fn notify(&self, observer: Option<&Observer>, event: Event) {
        if self.flags() & WATCHED != 0 {
            self.plugins.event(&self.key, event);
        }
        self.notify_observer(observer, event);
    }

    pub(super) fn notify_observer(&self, observer: Option<&Observer>, event: Event) {
        if let Some(observer) = observer
            && let Err(message) = contain(|| observer(event))
        {
            self.plugins.panicked(&self.key, &message);
        }
    }

    /// Writes a call that has ended into the log of its request, without the events that its
    /// attempts have written.
    pub(super) fn log_into(&self, context: &RequestContext, record: &CallRecord) {
        let events = record.events.without(record.logged);
        if events.is_empty() && !record.logged.is_empty() {
            return;
        }
        context.note(LogEntry {
            command: self.key.clone(),
            events,
            took: Duration::from_nanos(record.now.saturating_sub(record.start)),
        });
    }
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    pub(super) fn emit(&self, record: &mut CallRecord, options: &CallOptions<T, E>, event: Event) {
        self.state.emit(record, options.observer(), event);
    }

    pub(super) fn thrown(&self, record: &mut CallRecord, options: &CallOptions<T, E>) {
        self.state.thrown(record, options.observer());
    }

    pub(super) fn notify(&self, options: &CallOptions<T, E>, event: Event) {
        self.state.notify(options.observer(), event);
    }

    pub(super) fn log(&self, record: &CallRecord, options: &CallOptions<T, E>) {
        if self.state.flags() & LOGS == 0 {
            return;
        }
        let context = options.context.clone().or_else(RequestContext::current);
        if let Some(context) = context {
            self.state.log_into(&context, record);
        }
    }
}

//! What a call reports: its events to the metrics and to listeners, and its end to the log of its
//! request.

use std::time::Duration;

use super::options::Options;
use super::shared::Shared;
use crate::event::{Event, Events};
use crate::isolation::state::{LOGS, WATCHED};
use crate::request::{LogEntry, RequestContext};

/// What is known of a call that is being made.
pub(super) struct Story {
    pub(super) start: u64,
    /// The last reading of the clock: a clock costs more than a count.
    pub(super) now: u64,
    pub(super) events: Events,
}

impl Story {
    pub(super) fn new(start: u64) -> Self {
        Self::until(start, start)
    }

    /// A call that began at `start` and has come to `now`.
    pub(super) fn until(start: u64, now: u64) -> Self {
        Self {
            start,
            now,
            events: Events::none(),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Counts an event and tells whoever listens.
    pub(super) fn emit(&self, story: &mut Story, options: &mut Options<T, E>, event: Event) {
        story.events.add(event);
        let state = &*self.state;
        state.metrics.count(story.now, event);
        self.tell(options, event);
    }

    /// An error is about to reach the caller. It is counted only where no other count says so.
    pub(super) fn thrown(&self, story: &mut Story, options: &mut Options<T, E>) {
        let said = [
            Event::BadRequest,
            Event::FallbackFailure,
            Event::FallbackRejection,
            Event::FallbackDisabled,
            Event::FallbackMissing,
        ];
        if said.iter().any(|event| story.events.contains(*event)) {
            story.events.add(Event::ExceptionThrown);
            self.tell(options, Event::ExceptionThrown);
        } else {
            self.emit(story, options, Event::ExceptionThrown);
        }
    }

    pub(super) fn tell(&self, options: &mut Options<T, E>, event: Event) {
        if self.state.flags() & WATCHED != 0 {
            self.state.plugins.event(&self.state.key, event);
        }
        options.tell(&self.state, event);
    }

    pub(super) fn log(&self, story: &Story, options: &Options<T, E>) {
        let state = &*self.state;
        if state.flags() & LOGS == 0 {
            return;
        }
        let context = options.context.clone().or_else(RequestContext::current);
        if let Some(context) = context {
            context.note(LogEntry {
                command: state.key.clone(),
                events: story.events,
                took: Duration::from_nanos(story.now.saturating_sub(story.start)),
            });
        }
    }
}

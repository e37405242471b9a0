//! How a call ends: counting, the fallback, hooks, the log.

use super::call::{Asked, Options};
use super::{CommandError, Shared};
use crate::error::contain;
use crate::isolation::state::{FALLS_BACK, LOGS, WATCHED};
use crate::metrics::Plain;
use crate::request::{Logged, RequestContext};
use crate::{Cause, Event, Events, FallbackError, Refused, Stage};
use std::time::Duration;

/// What is known of a call that is being made.
pub(super) struct Story {
    pub(super) start: u64,
    /// The last reading of the clock: a clock costs more than a count.
    now: u64,
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
    fn thrown(&self, story: &mut Story, options: &mut Options<T, E>) {
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

    fn tell(&self, options: &mut Options<T, E>, event: Event) {
        if self.state.flags() & WATCHED != 0 {
            self.state.plugins.event(&self.state.key, event);
        }
        options.tell(&self.state, event);
    }

    /// Whether anybody wants to know about a call that went well.
    #[inline]
    pub(super) fn is_watched(&self, flags: u32, asked: &Asked<'_, T, E>) -> bool {
        flags & WATCHED != 0
            || asked.has_observer()
            || (flags & LOGS != 0 && (asked.context().is_some() || RequestContext::is_entered()))
    }

    /// Whether a refusal ends with its error: no fallback could answer, and nobody else hears.
    #[inline(always)]
    pub(super) fn is_plain(&self, flags: u32, asked: &Asked<'_, T, E>) -> bool {
        flags & (FALLS_BACK | WATCHED) == FALLS_BACK
            && self.fallback.is_none()
            && asked.is_plain()
            && (flags & LOGS == 0 || !RequestContext::is_entered())
    }

    /// Counts a refusal for which [`Shared::is_plain`] holds. The same as [`Shared::failed`], in
    /// one count.
    #[inline(always)]
    pub(super) fn refused_plainly(
        &self,
        now: u64,
        plain: Plain,
        cause: Cause<E>,
    ) -> Result<T, CommandError<E>> {
        self.state.metrics.count_plain(now, plain);
        let error = CommandError::plain(&self.state.key, cause, plain.events());
        Err(error)
    }

    /// Calls the hooks of work that has answered, where it did.
    pub(super) fn emitted(&self) {
        for stage in [Stage::ExecutionEmit, Stage::Emit, Stage::ExecutionSuccess] {
            let _ = self.state.hook(stage);
        }
    }

    /// Tells about a call that went well, whose success was counted already and whose work has
    /// [`Shared::emitted`].
    #[cold]
    pub(super) fn succeeded(&self, mut story: Story, options: &mut Options<T, E>) {
        story.events.add(Event::Success);
        self.tell(options, Event::Success);
        let _ = self.state.hook(Stage::Success);
        self.log(&story, options);
    }

    /// Ends a call that has no answer of its own: the fallback may have one.
    #[cold]
    pub(super) fn failed(
        &self,
        mut story: Story,
        options: &mut Options<T, E>,
        cause: Cause<E>,
    ) -> Result<T, CommandError<E>> {
        self.emit(&mut story, options, cause.event());
        if let Cause::Rejected(Refused::Threshold) = cause {
            self.emit(&mut story, options, Event::ThresholdReached);
        }
        let error = CommandError::new(&self.state.key, cause).with_events(story.events);
        if options.is_attempt {
            self.log(&story, options);
            return Err(error);
        }
        let answer = if error.cause().allows_fallback() {
            self.fall_back(&mut story, options, error)
        } else {
            Err(error)
        };
        self.finish(story, options, answer)
    }

    /// Ends a call that was made wrongly, before anything was asked: it is counted, and no fallback
    /// is tried.
    #[cold]
    pub(super) fn misused(&self, options: &mut Options<T, E>, cause: Cause<E>) -> CommandError<E> {
        let mut story = Story::new(self.state.now());
        self.emit(&mut story, options, cause.event());
        self.thrown(&mut story, options);
        let _ = self.state.hook(Stage::Error);
        self.log(&story, options);
        CommandError::new(&self.state.key, cause).with_events(story.events)
    }

    /// Tries the fallback for an attempt that was the last.
    pub(super) fn fall_back_from(
        &self,
        options: &mut Options<T, E>,
        error: CommandError<E>,
    ) -> Result<T, CommandError<E>> {
        let mut story = Story::new(self.state.now());
        story.events = error.events();
        if !error.cause().allows_fallback() {
            return Err(error);
        }
        let answer = self.fall_back(&mut story, options, error);
        self.finish(story, options, answer)
    }

    fn finish(
        &self,
        mut story: Story,
        options: &mut Options<T, E>,
        answer: Result<T, CommandError<E>>,
    ) -> Result<T, CommandError<E>> {
        if answer.is_err() {
            let cancelled = story.events.contains(Event::Cancelled);
            if !cancelled {
                self.thrown(&mut story, options);
                let _ = self.state.hook(Stage::Error);
            }
        } else {
            let _ = self.state.hook(Stage::Success);
        }
        self.log(&story, options);
        answer.map_err(|error| error.with_events(story.events))
    }

    fn fall_back(
        &self,
        story: &mut Story,
        options: &mut Options<T, E>,
        error: CommandError<E>,
    ) -> Result<T, CommandError<E>> {
        let answer = self.try_fallback(options, &error);
        let event = match &answer {
            Ok(_) => Event::FallbackSuccess,
            Err(FallbackError::Disabled) => Event::FallbackDisabled,
            Err(FallbackError::Missing) => Event::FallbackMissing,
            Err(FallbackError::Rejected) => Event::FallbackRejection,
            Err(_) => Event::FallbackFailure,
        };
        let stages: &[Stage] = match event {
            Event::FallbackSuccess => &[Stage::FallbackEmit, Stage::Emit, Stage::FallbackSuccess],
            Event::FallbackFailure => &[Stage::FallbackError],
            _ => &[],
        };
        if event == Event::FallbackSuccess || event == Event::FallbackFailure {
            // The fallback ran, and may have taken its time.
            story.now = self.state.now();
        }
        self.emit(story, options, event);
        for stage in stages {
            let _ = self.state.hook(*stage);
        }
        answer.map_err(|fallback| error.with_fallback(fallback))
    }

    fn try_fallback(
        &self,
        options: &mut Options<T, E>,
        error: &CommandError<E>,
    ) -> Result<T, FallbackError<E>> {
        let state = &*self.state;
        if state.flags() & FALLS_BACK == 0 {
            return Err(FallbackError::Disabled);
        }
        let own = options.take_fallback();
        if own.is_none() && self.fallback.is_none() {
            return Err(FallbackError::Missing);
        }
        let Some(_permit) = state.fallback_permits.try_borrow() else {
            return Err(FallbackError::Rejected);
        };
        state
            .hook(Stage::FallbackStart)
            .map_err(FallbackError::Panicked)?;
        let _entered = options.context.as_ref().map(RequestContext::enter);
        let ran = contain(|| match (own, &self.fallback) {
            (Some(own), _) => Some(own(error)),
            (None, Some(fallback)) => Some(fallback(error)),
            (None, None) => None,
        });
        match ran {
            Ok(Some(Ok(value))) => Ok(value),
            Ok(Some(Err(error))) => Err(FallbackError::Failed(error)),
            Ok(None) => Err(FallbackError::Missing),
            Err(message) => Err(FallbackError::Panicked(message)),
        }
    }

    fn log(&self, story: &Story, options: &Options<T, E>) {
        let state = &*self.state;
        if state.flags() & LOGS == 0 {
            return;
        }
        let context = options.context.clone().or_else(RequestContext::current);
        if let Some(context) = context {
            context.note(Logged {
                command: state.key.clone(),
                events: story.events,
                took: Duration::from_nanos(story.now.saturating_sub(story.start)),
            });
        }
    }
}

//! The options of one call. They override the settings of its command.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::trace::Span;

use super::fallback_fn::OwnFallback;
use super::report::CallRecord;
use crate::bulkhead::Criticality;
use crate::cancel::HandleOfCall;
use crate::error::Cause;
use crate::event::Event;
use crate::isolation::state::{LOGS, State};
use crate::plugin::Install;
use crate::request::wait_graph::{self, RunId, Within};
use crate::request::{Answer, CacheKey, Entered, RequestContext, RunOwner};

/// The criticality and the timeout with which a call is admitted.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub(super) criticality: Criticality,
    /// In nanoseconds; `u64::MAX` if there is no timeout.
    pub(super) timeout: u64,
}

/// A closure that receives the events of one call.
pub(super) type Observer = Arc<dyn Fn(Event) + Send + Sync>;

/// The options of one call.
pub(super) struct CallOptions<T, E> {
    /// Replaces the timeout of the command. In nanoseconds.
    pub(super) timeout: Option<u64>,
    pub(super) criticality: Criticality,
    pub(super) context: Option<RequestContext>,
    /// Options that few calls have. They are boxed to keep this struct small.
    pub(super) rare: Option<Box<RareOptions<T, E>>>,
    /// `true` if the call is an attempt of a wrapper, such as a retry. An attempt tries no fallback.
    pub(super) is_attempt: bool,
    /// `true` if the call is a future. It then awaits an asynchronous fallback; see `fallback`.
    pub(super) defers: bool,
}

pub(super) struct RareOptions<T, E> {
    pub(super) cache: Option<CacheKey<T, E>>,
    pub(super) fallback: Option<OwnFallback<T, E>>,
    /// Replaces the fallback timeout of the command.
    pub(super) fallback_timeout: Option<Duration>,
    /// The record of a call that has failed and whose future still has to await the fallback.
    pub(super) deferred: Option<CallRecord>,
    pub(super) observer: Option<Observer>,
    /// The handle by which the caller cancels this call.
    pub(super) handle: Option<HandleOfCall>,
    /// The captured context for a fallback that runs on a callback thread.
    pub(super) captured: Vec<Install>,
    /// The shared run that this call executes.
    pub(super) run: Option<RunId>,
    /// The guard that notifies the calls that share this call's run, if the run is a future.
    pub(super) owner: Option<SharedRunGuard<T, E>>,
    /// The span of a queued call or of a future.
    pub(super) span: Span,
}

/// The owner of a shared run. [`SharedRunGuard::complete_copies`] passes the result to the calls
/// that share the run. If the guard is dropped before, or the run was cancelled, these calls fail as
/// cancelled, and the next call runs again.
pub(super) struct SharedRunGuard<T, E>(Option<Box<dyn RunOwner<T, E>>>);

impl<T, E> SharedRunGuard<T, E> {
    pub(super) fn new(first: Box<dyn RunOwner<T, E>>) -> Self {
        Self(Some(first))
    }

    pub(super) fn complete_copies(mut self, answer: &Answer<T, E>) {
        let is_cancelled =
            matches!(answer, Err(error) if matches!(error.cause(), Cause::Cancelled));
        if !is_cancelled && let Some(owner) = self.0.take() {
            owner.complete_copies(answer);
        }
    }
}

impl<T, E> Drop for SharedRunGuard<T, E> {
    fn drop(&mut self) {
        if let Some(owner) = self.0.take() {
            owner.forget();
        }
    }
}

impl<T, E> CallOptions<T, E> {
    pub(super) fn rare(&mut self) -> &mut RareOptions<T, E> {
        self.rare.get_or_insert_with(|| {
            Box::new(RareOptions {
                cache: None,
                fallback: None,
                fallback_timeout: None,
                deferred: None,
                observer: None,
                handle: None,
                captured: Vec::new(),
                run: None,
                owner: None,
                span: Span::none(),
            })
        })
    }

    pub(super) fn take_cache(&mut self) -> Option<CacheKey<T, E>> {
        self.rare.as_mut()?.cache.take()
    }

    pub(super) fn has_cache(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.cache.is_some())
    }

    pub(super) fn handle(&self) -> Option<&HandleOfCall> {
        self.rare.as_ref()?.handle.as_ref()
    }

    pub(super) fn take_handle(&mut self) -> Option<HandleOfCall> {
        self.rare.as_mut()?.handle.take()
    }

    pub(super) fn take_captured(&mut self) -> Vec<Install> {
        let rare = self.rare.as_mut();
        rare.map(|rare| std::mem::take(&mut rare.captured))
            .unwrap_or_default()
    }

    /// Records that the calling thread executes the shared run of this call, if any, until the
    /// guard is dropped.
    #[inline]
    pub(super) fn enter_run(&self) -> Option<Within> {
        self.run().map(wait_graph::enter)
    }

    /// Makes the call own the run `first`, which is a future. The handle tells when it begins.
    #[cold]
    pub(super) fn own_run(&mut self, first: Box<dyn RunOwner<T, E>>) {
        let is_attempt = self.is_attempt;
        let rare = self.rare();
        let handle = rare.handle.get_or_insert_with(HandleOfCall::new);
        first.callers().begun_by(handle);
        handle.share_async(is_attempt);
        rare.owner = Some(SharedRunGuard::new(first));
    }

    /// Returns `true` if this future executes a run that others may share.
    pub(super) fn owns_run(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.owner.is_some())
    }

    pub(super) fn take_owner(&mut self) -> Option<SharedRunGuard<T, E>> {
        self.rare.as_mut()?.owner.take()
    }

    /// Returns the shared run that this call executes, if any.
    #[inline]
    pub(super) fn run(&self) -> Option<RunId> {
        self.rare.as_ref().and_then(|rare| rare.run)
    }

    /// Returns the criticality and the timeout of the call, with the command's timeout as default.
    pub(super) fn terms(&self, state: &State) -> Terms {
        Terms {
            criticality: self.criticality,
            timeout: self.timeout.unwrap_or(state.timeout()),
        }
    }

    /// Returns `true` if the call has failed and its future still has to await the fallback.
    #[inline]
    pub(super) fn is_deferred(&self) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| rare.deferred.is_some())
    }

    #[inline]
    pub(super) fn observer(&self) -> Option<&Observer> {
        self.rare.as_ref().and_then(|rare| rare.observer.as_ref())
    }
}

/// Drops the options that few calls have. A plain drop would be a call, also if there are none.
#[inline(always)]
pub(super) fn discard<T, E>(rare: Option<Box<RareOptions<T, E>>>) {
    #[cold]
    #[inline(never)]
    fn end<R>(_rare: R) {}

    if let Some(rare) = rare {
        end(rare);
    }
}

/// The options of a call, or `None`. Most calls have no options, and nothing is created for them.
pub(super) struct MaybeOptions<'a, T, E>(pub(super) Option<&'a mut CallOptions<T, E>>);

impl<T, E> MaybeOptions<'_, T, E> {
    pub(super) const NOTHING: Self = Self(None);

    /// Returns the criticality and the timeout of the call, with the command's timeout as default.
    #[inline]
    pub(super) fn terms(&self, state: &State) -> Terms {
        let timeout = self.0.as_ref().and_then(|options| options.timeout);
        Terms {
            criticality: self.criticality(),
            timeout: timeout.unwrap_or(state.timeout()),
        }
    }

    #[inline]
    pub(super) fn criticality(&self) -> Criticality {
        let options = self.0.as_ref();
        options.map_or(Criticality::Normal, |options| options.criticality)
    }

    #[inline]
    pub(super) fn context(&self) -> Option<&RequestContext> {
        self.0.as_ref()?.context.as_ref()
    }

    /// Returns the request whose log the call is written into, if calls are logged.
    #[inline]
    pub(super) fn context_to_log(&self, flags: u32) -> Option<RequestContext> {
        if flags & LOGS == 0 {
            return None;
        }
        self.context().cloned().or_else(RequestContext::current)
    }

    /// Enters the request that the options name, if any.
    #[inline]
    pub(super) fn enter_context(&self) -> Option<Entered> {
        self.context().map(RequestContext::enter)
    }

    /// Returns `true` if no option is set except the timeout and the criticality.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.0.as_ref().is_none_or(|options| {
            options.context.is_none() && options.rare.is_none() && !options.is_attempt
        })
    }

    #[inline]
    pub(super) fn observer(&self) -> Option<&Observer> {
        self.0.as_ref().and_then(|options| options.observer())
    }

    pub(super) fn handle(&self) -> Option<&HandleOfCall> {
        self.0.as_ref().and_then(|options| options.handle())
    }

    /// Calls `then` with the options, or with default options if there are none.
    #[cold]
    pub(super) fn with<R>(self, then: impl FnOnce(&mut CallOptions<T, E>) -> R) -> R {
        match self.0 {
            Some(options) => then(options),
            None => then(&mut CallOptions::default()),
        }
    }
}

impl<T, E> Default for CallOptions<T, E> {
    #[inline]
    fn default() -> Self {
        Self {
            timeout: None,
            criticality: Criticality::Normal,
            context: None,
            rare: None,
            is_attempt: false,
            defers: false,
        }
    }
}

//! A call with permits, whose work runs on the calling thread.
//!
//! The steps of a call that succeeds at once: one clock reading, two loads for the breaker, one
//! compare-and-swap for the permit, a store and a compare-and-swap for the deadline, the work, one
//! clock reading, one subtraction for the permit, and three additions: the outcome, the breaker's
//! count and the latency. Nothing is allocated and no lock is waited for.
//!
//! The steps of a call that finds all permits held, if nothing else can reject or observe it: one
//! load of the count, a coarse clock reading, one addition, the error.

use tidegate_core::CancelToken;
use tidegate_core::internal::trace;

use super::options::MaybeOptions;
use super::outcome::WorkEnd;
use super::shared::Shared;
use crate::error::CommandError;
use crate::isolation::state::WATCHED;
use crate::plugin::CallStage;

/// Lets the work of a call without a handle begin.
#[inline(always)]
pub(super) fn at_once(_: &CancelToken) -> Option<()> {
    Some(())
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Runs `work` if `begin` returns a guard, which is held until the work has ended. Otherwise the
    /// caller has cancelled the call.
    #[inline]
    pub(super) fn run_in_place<F, G>(
        &self,
        maybe_options: MaybeOptions<'_, T, E>,
        begin: impl FnOnce(&CancelToken) -> Option<G>,
        work: F,
    ) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        if trace::wants_spans() {
            return self.in_span(|| self.run_untraced(maybe_options, begin, work));
        }
        self.run_untraced(maybe_options, begin, work)
    }

    /// Always inlined, although it appears twice: as a call it takes a third of the time of a refusal.
    #[inline(always)]
    fn run_untraced<F, G>(
        &self,
        maybe_options: MaybeOptions<'_, T, E>,
        begin: impl FnOnce(&CancelToken) -> Option<G>,
        work: F,
    ) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        let state = &*self.state;
        let flags = state.flags();
        if self.is_shut(flags, &maybe_options) {
            return self.refused_at_once(flags, maybe_options);
        }
        let (start, terms) = (state.now(), maybe_options.terms(state));
        let call = match state.admit(flags, start, terms) {
            Ok(call) => call,
            Err(denied) if !state.gate.may_wait() => {
                return self.denied((start, start), flags, maybe_options, denied);
            }
            Err(denied) => {
                let handle = maybe_options.handle();
                match state.wait_if_full(denied, flags, (start, terms), handle) {
                    Ok(call) => call,
                    Err(denied) => {
                        return self.denied((start, state.now()), flags, maybe_options, denied);
                    }
                }
            }
        };
        let Some(begun) = begin(call.flight.token()) else {
            let (denied, now) = state.withdraw(call);
            return self.denied((start, now), flags, maybe_options, denied);
        };
        let around = (maybe_options.enter_context(), state.gate.hold(), begun);
        let result = WorkEnd::of(|| {
            if flags & WATCHED != 0 {
                state.hook(CallStage::ExecutionStart)?;
            }
            Ok(work(call.flight.token()))
        });
        drop(around);
        self.end(maybe_options, call, result)
    }
}

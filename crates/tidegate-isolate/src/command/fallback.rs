//! The fallback of a call that has no answer of its own: whether it is tried, what it sees, and what
//! it is counted as.
//!
//! It sees the error with its cause, in the request of the call. It runs only if it is enabled and
//! has a permit, and a panic in it is its own failure.

use super::options::CallOptions;
use super::report::CallRecord;
use super::shared::Shared;
use crate::error::{CommandError, FallbackError, contain};
use crate::event::Event;
use crate::isolation::state::FALLS_BACK;
use crate::plugin::CallStage;
use crate::request::RequestContext;

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    pub(super) fn fall_back(
        &self,
        record: &mut CallRecord,
        options: &mut CallOptions<T, E>,
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
        let stages: &[CallStage] = match event {
            Event::FallbackSuccess => &[
                CallStage::FallbackEmit,
                CallStage::Emit,
                CallStage::FallbackSuccess,
            ],
            Event::FallbackFailure => &[CallStage::FallbackError],
            _ => &[],
        };
        if event == Event::FallbackSuccess || event == Event::FallbackFailure {
            // The fallback ran, and may have taken its time.
            record.now = self.state.now();
        }
        self.emit(record, options, event);
        for stage in stages {
            let _ = self.state.hook(*stage);
        }
        answer.map_err(|fallback| error.with_fallback(fallback))
    }

    fn try_fallback(
        &self,
        options: &mut CallOptions<T, E>,
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
            .hook(CallStage::FallbackStart)
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
}

//! A handle to a command without its types, for adapters whose result types are those of the service
//! that they wrap.
//!
//! The types of a command only matter to its closures: the fallback and the check for a bad request.
//! An adapter has neither. So a handle of other types shares the state of the key, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::as_nanos;

use super::entry::Entry;
use super::handle::Command;
use super::options::{CallOptions, MaybeOptions};
use super::report::CallRecord;
use super::shared::Shared;
use crate::bulkhead::Criticality;
use crate::error::{Cause, CommandError, Rejection};
use crate::isolation::state::{State, THREADS};
use crate::key::Key;
use crate::request::RequestContext;

/// A command whose result types are not known yet.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::internal::{CallTerms, UntypedCommand};
/// use tidegate_isolate::{Command, Isolation};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
/// let untyped = UntypedCommand::of(&prices);
/// let entry = untyped.admit::<std::io::Error>(CallTerms::default()).unwrap();
/// assert_eq!(prices.snapshot().active, 1);
/// # drop(entry);
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct UntypedCommand {
    state: Arc<State>,
}

/// What an adapter knows about a call before it is admitted.
#[derive(Clone, Debug, Default)]
pub struct CallTerms {
    /// How long the call may take. The timeout of the command applies if it is shorter.
    pub at_most: Option<Duration>,
    /// The criticality of the call.
    pub criticality: Criticality,
    /// The request that the call belongs to.
    pub context: Option<RequestContext>,
}

impl UntypedCommand {
    /// Returns a handle to `command`.
    pub fn of<T: Send + 'static, E: Send + 'static>(command: &Command<T, E>) -> Self {
        Self {
            state: Arc::clone(&command.shared.state),
        }
    }

    /// Returns a handle with these types and without a fallback.
    pub fn typed<T: Send + 'static, E: Send + 'static>(&self) -> Command<T, E> {
        Command {
            shared: Arc::new(self.shared()),
        }
    }

    fn shared<T, E>(&self) -> Shared<T, E> {
        Shared {
            state: Arc::clone(&self.state),
            fallback: None,
            is_bad_request: None,
        }
    }

    /// Returns the key of the command.
    pub fn key(&self) -> &Key {
        &self.state.key
    }

    /// Reports, once for each key, if no call can be admitted because the command has threads of its
    /// own. Adapters call it when they are set up. The settings are live: [`UntypedCommand::admit`]
    /// checks each call, and reports it too.
    pub fn check_set_up(&self) {
        if self.state.flags() & THREADS != 0 {
            self.state.report_threads();
        }
    }

    /// Admits a call as an entry; see [`Command::admit`]. After the isolation was stopped or shut
    /// down, no call is admitted, because no call would time out.
    ///
    /// # Errors
    ///
    /// Returns why the call was not admitted.
    pub fn admit<E: Send + 'static>(&self, terms: CallTerms) -> Result<Entry, CommandError<E>> {
        let mut options = CallOptions::<(), E> {
            timeout: terms
                .at_most
                .map(|limit| as_nanos(limit).min(self.state.timeout())),
            criticality: terms.criticality,
            context: terms.context,
            ..CallOptions::default()
        };
        let shared = self.shared();
        if self.is_shut_down() {
            let record = CallRecord::new(self.state.now());
            let cause = Cause::Rejected(Rejection::Closed);
            return Err(shared.failed_at_once(record, &options, cause));
        }
        let entry = shared.enter(MaybeOptions(Some(&mut options)));
        let entry = entry.inspect_err(|error| {
            if let Cause::Rejected(Rejection::InPlace) = error.cause() {
                self.state.report_threads();
            }
        })?;
        if self.is_shut_down() {
            // The stop may have missed this call.
            drop(entry);
            let cause = Cause::Rejected(Rejection::Closed);
            return Err(CommandError::new(self.key(), cause));
        }
        Ok(entry)
    }

    /// Returns `true` if the isolation was stopped or shut down.
    pub fn is_shut_down(&self) -> bool {
        self.state.is_shut_down()
    }

    /// Reports a panic of user code that no caller sees.
    pub fn panicked(&self, message: &str) {
        self.state.plugins.panicked(&self.state.key, message);
    }
}

debug_fields!(UntypedCommand, this => key: this.state.key);

//! The retries of one call whose attempts an adapter makes by itself: the decisions of a [`Retry`]
//! policy, without its loop.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::budget::Paid;
use super::retry::{Retry, pause_of};
use crate::alarm::Pause;
use crate::command::Command;
use crate::error::CommandError;
use crate::event::Event;

/// The retries of one call.
///
/// ```
/// use tidegate_isolate::internal::{Retries, UntypedCommand};
/// use tidegate_isolate::{Cause, Command, CommandError, Isolation, Retry};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
/// let mut retries = Retries::new(&Retry::attempts(2), &prices);
/// let error = CommandError::new("prices", Cause::Failed("busy".to_owned()));
/// assert!(retries.after_error(&error).is_some());
/// assert!(retries.after_error(&error).is_none(), "two attempts were made");
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Retries<T, E> {
    retry: Retry<E>,
    command: Command<T, E>,
    made: u32,
}

impl<T: Send + 'static, E: Send + 'static> Retries<T, E> {
    /// Begins a call, whose share is added to the budget.
    pub fn new(retry: &Retry<E>, command: &Command<T, E>) -> Self {
        retry.earn();
        Self {
            retry: retry.clone(),
            command: command.clone(),
            made: 0,
        }
    }

    /// Decides whether there is a retry after an attempt that failed with `error`, and takes it from
    /// the budget. Returns the pause before it.
    pub fn after_error(&mut self, error: &CommandError<E>) -> Option<RetryPause<T, E>> {
        self.made += 1;
        let limits = (true, Duration::MAX);
        let next = (self.retry).next_pause(&self.command, self.made, error, limits);
        next.map(|next| self.pause(next))
    }

    /// Decides whether there is a retry after an attempt whose result, which is not an error, counts
    /// as a failure. `hint` is the shortest pause that the result asks for.
    pub fn after_failure(&mut self, hint: Option<Duration>) -> Option<RetryPause<T, E>> {
        self.made += 1;
        if !self.retry.may_retry(&self.command, self.made) {
            return None;
        }
        let next = self.retry.take_pause(self.made, hint, Duration::MAX);
        next.map(|next| self.pause(next))
    }

    fn pause(&self, (pause, paid): (Duration, Paid)) -> RetryPause<T, E> {
        RetryPause {
            command: self.command.clone(),
            paid: Some(paid),
            pause: (!pause.is_zero()).then(|| pause_of(&self.command, pause)),
        }
    }
}

/// The pause before a retry. Its output is `true` if the retry may begin, and `false` if the
/// isolation was stopped or shut down in the meantime. Dropping it cancels the pause, and gives the
/// retry back to the budget.
pub struct RetryPause<T, E> {
    command: Command<T, E>,
    /// Taken when the retry begins.
    paid: Option<Paid>,
    pause: Option<Pause>,
}

impl<T: Send + 'static, E: Send + 'static> Future for RetryPause<T, E> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        if let Some(pause) = &mut self.pause
            && Pin::new(pause).poll(context).is_pending()
        {
            return Poll::Pending;
        }
        let may_begin = !self.command.is_shut_down();
        if may_begin {
            self.paid.take().into_iter().for_each(Paid::use_up);
            self.command.count(Event::Retried);
        }
        Poll::Ready(may_begin)
    }
}

debug_fields!([T, E] RetryPause<T, E>, this => command: this.command);

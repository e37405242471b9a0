//! The end of a channel, as its handles see it.

use std::sync::Arc;

use tidegate_core::Executor;
use tidegate_promise::{
    Completion, Failure, Promise, SharedCompletion, promise_on, promise_with_error,
};

/// The promise of the end, and its completion.
type Asked = (Promise<()>, SharedCompletion<()>);

#[derive(Default)]
pub(super) enum End {
    /// Open, and no completion was requested yet.
    #[default]
    Unasked,
    Asked(Asked),
    /// Closed. The handlers are notified now.
    Closing(Option<Failure>, Option<Box<Asked>>),
    /// Closed, and no handler is left.
    Over(Option<Failure>, Option<SharedCompletion<()>>),
}

impl End {
    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closing(..) | Self::Over(..))
    }

    /// Returns the cause of the close, if there was one.
    pub(super) fn cause(&self) -> Option<Failure> {
        match self {
            Self::Closing(cause, _) | Self::Over(cause, _) => cause.clone(),
            Self::Unasked | Self::Asked(_) => None,
        }
    }

    /// Returns the completion of the end. `home` returns its home, if it has one.
    pub(super) fn completion(
        &mut self,
        home: impl FnOnce() -> Option<Arc<dyn Executor>>,
    ) -> SharedCompletion<()> {
        match self {
            Self::Asked((_, closed)) | Self::Over(_, Some(closed)) => closed.clone(),
            Self::Closing(_, asked) => asked.get_or_insert_with(|| Box::new(ask(home()))).1.clone(),
            Self::Over(_, none) => {
                let (promise, closed) = ask(home());
                let _ = promise.succeed(());
                none.insert(closed).clone()
            }
            Self::Unasked => {
                let asked = ask(home());
                let closed = asked.1.clone();
                *self = Self::Asked(asked);
                closed
            }
        }
    }

    /// Records that the channel is closed. Returns `false` if it was before.
    pub(super) fn close(&mut self, cause: Option<Failure>) -> bool {
        let asked = match std::mem::take(self) {
            Self::Unasked => None,
            Self::Asked(asked) => Some(Box::new(asked)),
            closed => {
                *self = closed;
                return false;
            }
        };
        *self = Self::Closing(cause, asked);
        true
    }

    /// Records that no handler of the closed channel is left. Returns the promise to complete, if there
    /// is one.
    pub(super) fn end(&mut self) -> Option<Promise<()>> {
        let Self::Closing(cause, asked) = self else {
            return None;
        };
        let (promise, closed) = asked.take().map(|asked| *asked).unzip();
        *self = Self::Over(cause.take(), closed);
        promise
    }
}

fn ask(home: Option<Arc<dyn Executor>>) -> Asked {
    let (promise, completion): (Promise<()>, Completion<()>) = match home {
        Some(home) => promise_on(home),
        None => promise_with_error(),
    };
    promise.set_uncancellable();
    let Ok(closed) = completion.share() else {
        unreachable!("a new completion was not taken");
    };
    (promise, closed)
}

//! A scripted poller, for tests.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::Parker;
use tidegate_core::internal::{Sleeper, lock};

use super::descriptor::BorrowedFd;
use super::poller::{Change, Poller, Ready, Token};
use super::source::Source;

/// A [`Poller`] that returns what its [`FakeScript`] says.
#[derive(Debug)]
pub(crate) struct FakePoller {
    script: FakeScript,
}

/// The script of a [`FakePoller`], and the record of its calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeScript {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    parker: Parker,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<io::Result<Vec<Ready>>>,
    polls: Vec<Option<Duration>>,
    refusal: Option<io::ErrorKind>,
    selected: Vec<Ready>,
    changes: Vec<(Token, Change)>,
}

impl FakePoller {
    /// Creates a poller and its script.
    pub(crate) fn new() -> (Self, FakeScript) {
        let script = FakeScript::default();
        let poller = Self {
            script: script.clone(),
        };
        (poller, script)
    }
}

#[cfg(test)]
impl FakeScript {
    /// Makes one poll return `events`. If a poll is waiting, it returns them now.
    pub(crate) fn ready(&self, events: impl IntoIterator<Item = Ready>) {
        let batch = events.into_iter().collect();
        self.lock().batches.push_back(Ok(batch));
        self.inner.parker.unpark();
    }

    /// Makes one poll fail with `why`.
    pub(crate) fn fail(&self, why: io::ErrorKind) {
        self.lock().batches.push_back(Err(why.into()));
        self.inner.parker.unpark();
    }

    /// Makes the next registration fail with `why`.
    pub(crate) fn refuse(&self, why: io::ErrorKind) {
        self.lock().refusal = Some(why);
    }

    /// Returns the changes at descriptors of user-defined sources since the last call, oldest
    /// first.
    pub(crate) fn changes(&self) -> Vec<(Token, Change)> {
        std::mem::take(&mut self.lock().changes)
    }

    /// Returns the timeouts of the polls since the last call, oldest first.
    pub(crate) fn polls(&self) -> Vec<Option<Duration>> {
        std::mem::take(&mut self.lock().polls)
    }
}

impl FakeScript {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }
}

impl Poller for FakePoller {
    fn register(&mut self, _source: &mut dyn Source, _token: Token) -> io::Result<()> {
        let refusal = self.script.lock().refusal.take();
        refusal.map_or(Ok(()), |why| Err(why.into()))
    }

    fn deregister(&mut self, _source: &mut dyn Source) -> io::Result<()> {
        Ok(())
    }

    fn poll(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<usize> {
        self.script.lock().polls.push(timeout);
        if self.script.lock().batches.is_empty() && timeout != Some(Duration::ZERO) {
            self.script.inner.parker.park(timeout);
        }
        let batch = self.script.lock().batches.pop_front();
        match batch {
            Some(Ok(batch)) => {
                let (selected, others): (Vec<_>, Vec<_>) =
                    batch.into_iter().partition(|one| one.token.is_of_user());
                ready.extend(others);
                let count = selected.len();
                self.script.lock().selected.extend(selected);
                Ok(count)
            }
            Some(Err(why)) => Err(why),
            None => Ok(0),
        }
    }

    fn control(
        &mut self,
        _descriptor: BorrowedFd<'_>,
        token: Token,
        change: Change,
    ) -> io::Result<()> {
        let mut state = self.script.lock();
        if let Some(why) = state.refusal.take() {
            return Err(why.into());
        }
        state.changes.push((token, change));
        Ok(())
    }

    fn take_selected(&mut self) -> Vec<Ready> {
        std::mem::take(&mut self.script.lock().selected)
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::new(self.script.inner.parker.clone())
    }
}

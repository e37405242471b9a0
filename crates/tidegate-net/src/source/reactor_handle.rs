//! The reactor of a loop, for other threads.

use std::fmt;
use std::sync::Arc;

use tidegate_core::internal::{contain, discard};
use tidegate_promise::Completion;

use super::event_source::{EventSource, NewSource};
use super::handle::{SourceHandle, SourceInfo};
use super::inbox::{Inbox, Note, SharedInbox};
use super::view::ReactorView;
use crate::errors::NetError;
use crate::sys::{AsFd, Interest};

/// The reactor of one event loop with I/O, for any thread: registers sources and submits updates.
///
/// [`NetGroup::next_reactor`](crate::NetGroup::next_reactor) and
/// [`NetGroup::reactors`](crate::NetGroup::reactors) return it. It does not keep the loop running.
///
/// ```
/// let group = tidegate_net::pinned("io", 1)?;
/// let reactor = group.next_reactor();
/// let sources = reactor.update(|view| view.sources().len()).wait()?;
/// assert_eq!((sources, reactor.name()), (0, "io-0"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ReactorHandle {
    inbox: SharedInbox,
}

impl ReactorHandle {
    pub(crate) fn new(inbox: &SharedInbox) -> Self {
        Self {
            inbox: Arc::clone(inbox),
        }
    }

    /// Registers `source`: it is selected when `descriptor` is ready for one of `interests`. `name`
    /// is for lists, errors and reports. The completion succeeds with the handle of the source.
    ///
    /// The loop owns the descriptor until the source is closed. It watches a copy of it
    /// (`try_clone_to_owned`), which is closed with the source: if other code closes `descriptor`
    /// too early, neither this loop nor another source is harmed. `as_fd` is called once. Set the
    /// descriptor to non-blocking if the source reads or writes more than once when it is selected.
    ///
    /// The completion fails with [`NetError::SourceRefused`] and the error of the operating system
    /// if the descriptor cannot be watched: `EBADF` if it is closed, `EPERM` if it is a file on a
    /// disk, `EMFILE` if the process has too many open. It fails with [`NetError::LoopEnded`] if the
    /// loop has ended, with [`NetError::TooManyUpdates`] if too many updates wait, and with
    /// [`NetError::NotOpened`] if the loop needs a thread and none can be started. The source and its
    /// descriptor are then dropped.
    ///
    /// # Cancellation
    ///
    /// A completion that is cancelled before the loop registers the source drops the source.
    ///
    /// # Threads
    ///
    /// Any thread may call this; it does not block. See [`EventSource`] for the callbacks.
    pub fn register<D, S>(
        &self,
        name: &str,
        descriptor: D,
        interests: Interest,
        source: S,
    ) -> Completion<SourceHandle>
    where
        D: AsFd + Send + Sync + 'static,
        S: EventSource<D>,
    {
        match NewSource::new(name.into(), descriptor, interests, source) {
            Ok(new) => {
                let (promise, registered) = self.inbox.promise();
                Inbox::push(&self.inbox, Note::Register(new, promise));
                registered
            }
            Err(why) => Completion::failed(why),
        }
    }

    /// Submits an update: `update` runs on the loop between two waits, after the sources that are
    /// ready were selected and before the loop applies interests. Updates and registrations of one
    /// thread keep their order. The loop is woken once for all updates that wait for it.
    ///
    /// The completion succeeds with the result. It fails with [`NetError::UpdatePanicked`] if the
    /// update panics; the panic is also reported to the hook for unhandled errors, and the other
    /// updates run. If the loop has ended, or too many updates wait, the update is dropped without
    /// having run, and the completion fails with [`NetError::LoopEnded`] or
    /// [`NetError::TooManyUpdates`]. If the loop needs a thread and none can be started, the completion
    /// fails with [`NetError::NotOpened`].
    ///
    /// # Cancellation
    ///
    /// A completion that is cancelled before the update begins drops the update.
    ///
    /// # Threads
    ///
    /// Any thread may call this; it does not block. `update` must not block: its loop does nothing
    /// else meanwhile, and a `Watchdog` of `tidegate-loop` reports it. Waiting for a
    /// completion in it is refused. So is a wait of a task for an update of the loop that it holds.
    pub fn update<T, F>(&self, update: F) -> Completion<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut ReactorView<'_>) -> T + Send + 'static,
    {
        let (promise, done) = self.inbox.promise();
        let inbox = Arc::downgrade(&self.inbox);
        let run = move |view: Result<&mut ReactorView<'_>, NetError>| {
            let view = match view {
                Ok(view) if promise.set_uncancellable() => view,
                Ok(_) => {
                    discard(update);
                    return None;
                }
                Err(why) => {
                    discard(update);
                    let _ = promise.fail(why);
                    return None;
                }
            };
            match contain(|| update(view)) {
                Ok(value) => {
                    // Not cancelled, so the value is taken.
                    drop(promise.succeed(value));
                    None
                }
                Err(panic) => {
                    let event_loop = inbox.upgrade();
                    let event_loop =
                        event_loop.map_or_else(String::new, |one| one.name().to_owned());
                    let message = panic.message().to_owned();
                    let _ = promise.fail(NetError::UpdatePanicked {
                        event_loop,
                        message,
                    });
                    Some(panic)
                }
            }
        };
        Inbox::push(&self.inbox, Note::Update(Box::new(run)));
        done
    }

    /// Returns the sources of the loop, also while the loop is stuck in a task.
    pub fn sources(&self) -> Vec<SourceInfo> {
        let sources = self.inbox.sources();
        sources.iter().map(|state| SourceInfo::of(state)).collect()
    }

    /// Returns the name of the loop.
    pub fn name(&self) -> &str {
        self.inbox.name()
    }
}

impl fmt::Debug for ReactorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReactorHandle")
            .field("name", &self.name())
            .field("sources", &self.sources())
            .finish()
    }
}

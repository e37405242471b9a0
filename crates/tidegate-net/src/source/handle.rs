//! The handles for other threads: of a source, and of the reactor of a loop.

use std::fmt;
use std::sync::Arc;

use tidegate_core::internal::{contain, discard};
use tidegate_promise::Completion;

use super::event_source::{EventSource, NewSource};
use super::inbox::{Inbox, Note, SharedInbox};
use super::selector::ReactorView;
use super::state::SourceState;
use crate::errors::NetError;
use crate::sys::{AsFd, Interest};

/// The handle of a registered source, for any thread. Clones are handles of the same source.
///
/// Dropping the handles does not close the source. It is closed by [`close`](SourceHandle::close),
/// by an update, by a panic of its own, or with its loop.
///
/// ```
/// use tidegate_core::Task;
/// use tidegate_net::source::{Interest, SourceContext};
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let (reader, _writer) = std::io::pipe()?;
/// let nothing = |_: &SourceContext<'_, std::io::PipeReader>| -> Option<Task> { None };
/// let source = group.next_reactor().register("pipe", reader, Interest::NONE, nothing).wait()?;
/// source.set_interests(Interest::READ)?;
/// assert_eq!((source.name(), source.interests()), ("pipe", Interest::READ));
/// source.close().wait()?;
/// assert!(source.is_closed() && source.set_interests(Interest::READ).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SourceHandle {
    pub(super) state: Arc<SourceState>,
    pub(super) inbox: SharedInbox,
}

impl SourceHandle {
    /// Sets the interests of the source. Its loop applies them before it waits again. If they
    /// change several times until then, only the last change is applied.
    ///
    /// A source that has to pause until some later moment calls this with [`Interest::NONE`] when
    /// it is selected.
    ///
    /// # Errors
    ///
    /// [`NetError::SourceClosed`].
    pub fn set_interests(&self, interests: Interest) -> Result<(), NetError> {
        if self.state.set_interests(interests)? {
            Inbox::push(&self.inbox, Note::Apply(Arc::clone(&self.state)));
        }
        Ok(())
    }

    /// Closes the source. The completion succeeds when the loop has dropped the source and its
    /// descriptor, also if that happened before.
    pub fn close(&self) -> Completion<()> {
        let (promise, closed) = self.inbox.promise();
        promise.set_uncancellable();
        Inbox::push(&self.inbox, Note::Close(Arc::clone(&self.state), promise));
        closed
    }

    /// Returns the name of the source.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns the interests of the source; none if it is closed.
    pub fn interests(&self) -> Interest {
        self.state.interests()
    }

    /// Returns `true` if the source is closed.
    pub fn is_closed(&self) -> bool {
        self.state.is_closed()
    }
}

impl fmt::Debug for SourceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SourceInfo::of(&self.state).fmt(f)
    }
}

/// A source in the list of its loop: see [`ReactorHandle::sources`](super::ReactorHandle::sources).
///
/// ```
/// use tidegate_core::Task;
/// use tidegate_net::source::{Interest, SourceContext};
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let (reader, _writer) = std::io::pipe()?;
/// let nothing = |_: &SourceContext<'_, std::io::PipeReader>| -> Option<Task> { None };
/// group.next_reactor().register("pipe", reader, Interest::READ, nothing).wait()?;
/// let list = group.reactors()[0].sources();
/// assert_eq!((&*list[0].name, list[0].interests, list[0].busy), ("pipe", Interest::READ, false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceInfo {
    /// The name of the source.
    pub name: Arc<str>,
    /// Its interests.
    pub interests: Interest,
    /// `true` if its task waits for a thread or runs.
    pub busy: bool,
}

impl SourceInfo {
    pub(super) fn of(state: &SourceState) -> Self {
        Self {
            name: Arc::clone(&state.name),
            interests: state.interests(),
            busy: state.is_busy(),
        }
    }
}

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
        let run = move |view: Result<&mut ReactorView<'_>, NetError>| match view {
            Ok(view) if promise.set_uncancellable() => match contain(|| update(view)) {
                // Not cancelled, so the value is taken.
                Ok(value) => drop(promise.succeed(value)),
                Err(panic) => {
                    let inbox = &view.selector.inbox;
                    let _ = promise.fail(NetError::UpdatePanicked {
                        event_loop: inbox.name().to_owned(),
                        message: panic.message().to_owned(),
                    });
                    inbox.report("an update of the selector", &panic);
                }
            },
            Ok(_) => discard(update),
            Err(why) => {
                discard(update);
                let _ = promise.fail(why);
            }
        };
        Inbox::push(&self.inbox, Note::Update(Box::new(run)));
        done
    }

    /// Returns the sources of the loop, also while the loop is stuck in a task.
    pub fn sources(&self) -> Vec<SourceInfo> {
        self.inbox.list()
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
            .finish_non_exhaustive()
    }
}

//! The handle of a source.

use std::fmt;
use std::sync::Arc;

use tidegate_promise::Completion;

use super::inbox::{Inbox, Note, SharedInbox};
use super::state::SourceState;
use crate::errors::NetError;
use crate::sys::Interest;

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

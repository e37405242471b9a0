//! The selector as an update sees it.

use std::fmt;
use std::sync::Arc;

use super::event_source::{EventSource, NewSource};
use super::handle::{SourceHandle, SourceInfo};
use super::state::SourceState;
use crate::errors::NetError;
use crate::sys::{AsFd, Interest};

/// The selector of a loop, as an update sees it: what it does takes effect at once. See
/// [`ReactorHandle::update`](super::ReactorHandle::update).
///
/// ```
/// use tidegate_core::Task;
/// use tidegate_net::source::{Interest, SourceContext};
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let (reader, _writer) = std::io::pipe()?;
/// let nothing = |_: &SourceContext<'_, std::io::PipeReader>| -> Option<Task> { None };
/// let names = group.next_reactor().update(move |view| {
///     let source = view.register("pipe", reader, Interest::READ, nothing)?;
///     let names: Vec<_> = view.sources().iter().map(|one| one.name.to_string()).collect();
///     view.close(&source);
///     assert!(view.sources().is_empty());
///     Ok::<_, tidegate_net::NetError>(names)
/// });
/// assert_eq!(names.wait()??, ["pipe"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReactorView<'a> {
    pub(super) selection: &'a mut dyn Selection,
}

/// What a view needs of its selector.
pub(super) trait Selection {
    fn register(&mut self, new: NewSource) -> Result<SourceHandle, NetError>;

    fn close(&mut self, state: &Arc<SourceState>) -> bool;

    fn sources(&self) -> Vec<Arc<SourceState>>;
}

impl ReactorView<'_> {
    /// Registers a source. See [`ReactorHandle::register`](super::ReactorHandle::register).
    ///
    /// # Errors
    ///
    /// [`NetError::SourceRefused`] with the error of the poller, or [`NetError::LoopEnded`]. The
    /// source and its descriptor are dropped.
    pub fn register<D, S>(
        &mut self,
        name: &str,
        descriptor: D,
        interests: Interest,
        source: S,
    ) -> Result<SourceHandle, NetError>
    where
        D: AsFd + Send + Sync + 'static,
        S: EventSource<D>,
    {
        let new = NewSource::new(name.into(), descriptor, interests, source)?;
        self.selection.register(new)
    }

    /// Closes a source: its descriptor is not watched any more, and the source is told and dropped.
    /// Returns `false` if it was closed before, or belongs to another loop.
    pub fn close(&mut self, source: &SourceHandle) -> bool {
        self.selection.close(&source.state)
    }

    /// Returns the sources of the loop, in the order of their slots.
    pub fn sources(&self) -> Vec<SourceInfo> {
        let sources = self.selection.sources();
        sources.iter().map(|state| SourceInfo::of(state)).collect()
    }
}

impl fmt::Debug for ReactorView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReactorView")
            .field("sources", &self.sources())
            .finish()
    }
}

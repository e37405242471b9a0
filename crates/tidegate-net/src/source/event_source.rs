//! The trait of user-defined sources, and a source as the selector stores it.

use std::fmt;
use std::io;
use std::sync::Arc;

use tidegate_core::Task;
use tidegate_core::internal::{PlainTask, contain, discard};
use tidegate_promise::Failure;

use super::handle::SourceHandle;
use crate::errors::NetError;
use crate::sys::{AsFd, Interest, OwnedFd, Readiness, copy_of};

/// A source of events on an event loop: what happens when a descriptor of type `D` is ready.
///
/// A closure of type `FnMut(&SourceContext<'_, D>) -> Option<Task>` is a source too.
///
/// # Threads
///
/// All methods are called on the loop, one at a time, and must not block: the loop does nothing
/// else meanwhile. Work that may block belongs into the task that
/// [`selected`](EventSource::selected) returns. A panic closes the source and is reported to the
/// hook for unhandled errors.
///
/// # Examples
///
/// ```
/// use std::io::{PipeReader, Read};
/// use std::sync::mpsc::Sender;
/// use tidegate_core::Task;
/// use tidegate_net::NetError;
/// use tidegate_net::source::{EventSource, SourceContext};
///
/// struct Lines(Sender<Vec<u8>>);
///
/// impl EventSource<PipeReader> for Lines {
///     fn selected(&mut self, at: &SourceContext<'_, PipeReader>) -> Option<Task> {
///         let mut bytes = vec![0; 4096];
///         match at.descriptor().as_ref().read(&mut bytes) {
///             Ok(0) | Err(_) => drop(at.handle().close()), // the other side has closed the pipe
///             Ok(length) => {
///                 bytes.truncate(length);
///                 let _ = self.0.send(bytes);
///             }
///         }
///         None // all is done
///     }
///
///     fn closed(&mut self, why: Option<&NetError>) {
///         println!("closed: {why:?}");
///     }
/// }
/// ```
pub trait EventSource<D>: Send + 'static {
    /// Handles the readiness of the descriptor. Returns the task that does the work, if there is
    /// any.
    ///
    /// The task says whether it may block ([`Task::new`]) or not ([`Task::non_blocking`]). A pinned
    /// loop runs it at once. On a roaming loop the strategy decides which thread runs it. The
    /// source is not selected again before its task has ended.
    ///
    /// The readiness is a level: a descriptor that is still ready afterwards is selected again. A
    /// hang-up lasts, so a source that finds the end of its input closes itself, or gives up its
    /// interests.
    fn selected(&mut self, at: &SourceContext<'_, D>) -> Option<Task>;

    /// Returns the interests with which the source goes on. Called once after each time that it was
    /// selected, before the loop waits again; `interests` are the present ones. By default they
    /// stay as they are.
    fn update_interests(&mut self, interests: Interest) -> Interest {
        interests
    }

    /// Called once, when the source is closed, just before it is dropped. `why` is `None` if its
    /// handle or an update closed it. Otherwise it is [`NetError::LoopEnded`],
    /// [`NetError::SourcePanicked`], or [`NetError::SourceRefused`] if the poller does not watch
    /// its descriptor any more.
    fn closed(&mut self, why: Option<&NetError>) {
        let _ = why;
    }
}

impl<D, F> EventSource<D> for F
where
    F: FnMut(&SourceContext<'_, D>) -> Option<Task> + Send + 'static,
{
    fn selected(&mut self, at: &SourceContext<'_, D>) -> Option<Task> {
        self(at)
    }
}

/// What a source sees when it is selected.
///
/// ```
/// use tidegate_core::Task;
/// use tidegate_net::source::SourceContext;
///
/// /// Reads in a task that may block.
/// fn selected(at: &SourceContext<'_, std::fs::File>) -> Option<Task> {
///     let (file, source) = (at.descriptor().clone(), at.handle().clone());
///     at.readiness().is_readable().then(|| {
///         Task::new(move || println!("{}: {:?} can be read", source.name(), file))
///     })
/// }
/// ```
pub struct SourceContext<'a, D> {
    descriptor: &'a Arc<D>,
    readiness: Readiness,
    handle: &'a SourceHandle,
}

impl<D> SourceContext<'_, D> {
    /// Returns the descriptor. A task that uses it holds a clone; the descriptor is then closed
    /// with the task, if that ends after the source.
    pub fn descriptor(&self) -> &Arc<D> {
        self.descriptor
    }

    /// Returns what the descriptor is ready for.
    pub fn readiness(&self) -> Readiness {
        self.readiness
    }

    /// Returns the handle of the source.
    pub fn handle(&self) -> &SourceHandle {
        self.handle
    }
}

impl<D> fmt::Debug for SourceContext<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceContext")
            .field("source", &self.handle.name())
            .field("readiness", &self.readiness)
            .finish()
    }
}

/// A source and its descriptor, without their types.
pub(super) trait AnySource: Send {
    fn selected(&mut self, readiness: Readiness, handle: &SourceHandle) -> Option<Task>;

    fn update_interests(&mut self, interests: Interest) -> Interest;

    fn closed(&mut self, why: Option<&NetError>);

    /// Drops the source and its descriptor, each in containment.
    fn discard(self: Box<Self>);

    /// Returns a task that stands for a callback of the source in the record of what its loop runs.
    fn label(&self) -> Task;
}

struct Typed<D, S> {
    descriptor: Arc<D>,
    source: S,
}

impl<D, S> AnySource for Typed<D, S>
where
    D: Send + Sync + 'static,
    S: EventSource<D>,
{
    fn selected(&mut self, readiness: Readiness, handle: &SourceHandle) -> Option<Task> {
        self.source.selected(&SourceContext {
            descriptor: &self.descriptor,
            readiness,
            handle,
        })
    }

    fn update_interests(&mut self, interests: Interest) -> Interest {
        self.source.update_interests(interests)
    }

    fn closed(&mut self, why: Option<&NetError>) {
        self.source.closed(why);
    }

    fn discard(self: Box<Self>) {
        let Self { descriptor, source } = *self;
        discard(source);
        discard(descriptor);
    }

    fn label(&self) -> Task {
        PlainTask::labelled::<S, _>(|| ())
    }
}

/// A source that is about to be registered.
pub(super) struct NewSource {
    pub(super) name: Arc<str>,
    /// What the poller watches: a copy of the descriptor, which no other code can close.
    pub(super) descriptor: OwnedFd,
    pub(super) interests: Interest,
    pub(super) source: Box<dyn AnySource>,
}

impl NewSource {
    /// Prepares a registration. `as_fd` of the descriptor is user code and may panic.
    pub(super) fn new<D, S>(
        name: Arc<str>,
        descriptor: D,
        interests: Interest,
        source: S,
    ) -> Result<Self, NetError>
    where
        D: AsFd + Send + Sync + 'static,
        S: EventSource<D>,
    {
        let refused = match contain(|| copy_of(&descriptor)) {
            Ok(Ok(copy)) => {
                let descriptor = Arc::new(descriptor);
                let source = Box::new(Typed { descriptor, source });
                return Ok(Self {
                    name,
                    descriptor: copy,
                    interests,
                    source,
                });
            }
            Ok(Err(why)) => refused(&name, why),
            Err(panic) => NetError::SourcePanicked {
                source_name: name.to_string(),
                message: panic.message().to_owned(),
            },
        };
        discard(source);
        discard(descriptor);
        Err(refused)
    }

    /// Drops the source and its descriptors.
    pub(super) fn discard(self) {
        drop(self.descriptor);
        self.source.discard();
    }
}

/// Returns the error of a source that the poller does not watch.
pub(super) fn refused(name: &str, why: io::Error) -> NetError {
    NetError::SourceRefused {
        source_name: name.to_owned(),
        why: Failure::new(why),
    }
}

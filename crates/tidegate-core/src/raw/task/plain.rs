//! Tasks of the library itself, which carry no span.

use std::marker::PhantomData;

use super::{Adapts, Internal, Labelled, Long, May, Named, Never, Task};
use crate::raw::vtable::Blocking;

/// Makes tasks that carry no span, with the constructors of [`Task`].
///
/// For tasks that work for several callers or for none: in the span of one of them, the others
/// would seem to be part of it. Also for tasks that are made with a lock held, or on a thread that
/// must not run user code: asking for the current span calls the subscriber.
///
/// ```
/// use tidegate_core::internal::PlainTask;
///
/// let task = PlainTask::named("helper", || ());
/// assert_eq!(task.name(), "helper");
/// ```
#[derive(Debug)]
pub struct PlainTask;

impl PlainTask {
    /// See [`Task::new`].
    #[inline]
    #[expect(
        clippy::new_ret_no_self,
        reason = "named like the constructor that it replaces"
    )]
    pub fn new<F>(run: F) -> Task
    where
        F: FnOnce() + Send + 'static,
    {
        Task::erase_plain::<F, May>(run)
    }

    /// See [`Task::non_blocking`].
    #[inline]
    pub fn non_blocking<F>(run: F) -> Task
    where
        F: FnOnce() + Send + 'static,
    {
        Task::erase_plain::<F, Never>(run)
    }

    /// See [`Task::long`].
    #[inline]
    pub fn long<F>(run: F) -> Task
    where
        F: FnOnce() + Send + 'static,
    {
        Task::erase_plain::<F, Long>(run)
    }

    /// See [`Task::of`].
    #[inline]
    pub fn of<F>(kind: Blocking, run: F) -> Task
    where
        F: FnOnce() + Send + 'static,
    {
        match kind {
            Blocking::Never => Self::non_blocking(run),
            Blocking::Adapts => Task::erase_plain::<F, Adapts>(run),
            Blocking::May => Self::new(run),
        }
    }

    /// See [`Task::named`].
    #[inline]
    pub fn named<F>(name: &'static str, run: F) -> Task
    where
        F: FnOnce() + Send + 'static,
    {
        Task::erase_plain::<Named<F>, May>(Named { name, run })
    }

    /// Creates a task of the runtime itself with a `name`. See [`Task::is_internal`].
    #[inline]
    pub fn internal_named<F>(name: &'static str, run: F) -> Task
    where
        F: FnOnce() + Send + 'static,
    {
        Task::erase_plain::<Named<F>, Internal>(Named { name, run })
    }

    /// Creates a task of the runtime itself, such as the helper of a strategy, that is identified
    /// by the type `L`. See [`Task::is_internal`].
    #[inline]
    pub fn internal<L: 'static, F>(run: F) -> Task
    where
        F: FnOnce() + Send + 'static,
    {
        Task::erase_plain::<Labelled<L, F>, Internal>(Labelled {
            run,
            label: PhantomData,
        })
    }

    /// See [`Task::labelled`].
    #[inline]
    pub fn labelled<L: 'static, F>(run: F) -> Task
    where
        F: FnOnce() + Send + 'static,
    {
        Task::erase_plain::<Labelled<L, F>, May>(Labelled {
            run,
            label: PhantomData,
        })
    }
}

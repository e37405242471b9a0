//! The builder of an ordered view, and the errors of an invalid view.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tidegate_core::Executor;

use crate::executor::{DEFAULT_BOUND, default_bound};

use super::turn::{Place, Shared};
use super::view::OrderedView;
use super::views::SharedWithViews;

/// A builder for an [`OrderedView`].
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::OrderedView;
/// use tidegate_core::ThreadBuilder;
/// use tidegate_core::thread::ThreadPerTask;
///
/// let threads = Arc::new(ThreadPerTask::new(ThreadBuilder::new("job")));
/// let view = OrderedView::builder(threads).name("orders").max_tasks_per_turn(64).build()?;
/// assert_eq!(view.name(), "orders");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct OrderedViewBuilder {
    over: Arc<dyn Executor>,
    name: Option<String>,
    bound: usize,
    tasks_per_turn: usize,
}

impl OrderedView {
    /// The default for how many tasks a view runs before it yields the thread.
    pub const DEFAULT_TASKS_PER_TURN: usize = 1024;
    /// The default for the maximum number of tasks that may wait. The environment variable
    /// `TIDEGATE_MAX_PENDING_TASKS` overrides it.
    pub const DEFAULT_BOUND: usize = DEFAULT_BOUND;

    /// Creates a view over `executor` with [`OrderedView::DEFAULT_TASKS_PER_TURN`] and
    /// [`OrderedView::DEFAULT_BOUND`].
    ///
    /// # Errors
    ///
    /// [`OrderedViewError::Ordered`] if the executor already runs one task at a time.
    pub fn over(executor: Arc<dyn Executor>) -> Result<Self, OrderedViewError> {
        Self::builder(executor).build()
    }

    /// Creates a builder for a view over `executor`.
    pub fn builder(executor: Arc<dyn Executor>) -> OrderedViewBuilder {
        OrderedViewBuilder {
            over: executor,
            name: None,
            bound: default_bound(),
            tasks_per_turn: OrderedView::DEFAULT_TASKS_PER_TURN,
        }
    }
}

impl OrderedViewBuilder {
    /// Sets the view's name for errors and reports. The default is the name of the underlying
    /// executor.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the maximum number of tasks that may wait; at least 16.
    pub fn bound(mut self, tasks: usize) -> Self {
        self.bound = tasks;
        self
    }

    /// Sets how many tasks run before the view yields the thread; at least 1.
    pub fn max_tasks_per_turn(mut self, tasks: usize) -> Self {
        self.tasks_per_turn = tasks;
        self
    }

    /// Builds the view.
    ///
    /// # Errors
    ///
    /// [`OrderedViewError`] if the executor is ordered already, or if a turn would run no task.
    pub fn build(self) -> Result<OrderedView, OrderedViewError> {
        if self.tasks_per_turn == 0 {
            return Err(OrderedViewError::EmptyTurn);
        }
        let with_views = SharedWithViews::of(&*self.over);
        let overlaps = match &with_views {
            Some(with_views) => with_views.overlaps,
            None => self.over.width() > 1,
        };
        if !overlaps {
            return Err(OrderedViewError::Ordered {
                executor: self.over.name().to_owned(),
            });
        }
        let name = self.name.unwrap_or_else(|| self.over.name().to_owned());
        let place = match &with_views {
            Some(with_views) => Place {
                over: Arc::clone(&with_views.executor),
                handle: Some(self.over),
                timer: Some(Arc::clone(&with_views.timer)),
                handed_back: Some(with_views.handed_back.clone()),
            },
            None => Place {
                over: self.over,
                handle: None,
                timer: None,
                handed_back: None,
            },
        };
        let shared = Shared::new(place, name, self.bound, self.tasks_per_turn);
        if let Some(with_views) = with_views {
            with_views.views.add(&shared);
        }
        Ok(OrderedView::from_shared(shared))
    }
}

impl fmt::Debug for OrderedViewBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedViewBuilder")
            .field("over", &self.over.name())
            .field("name", &self.name)
            .field("bound", &self.bound)
            .field("tasks_per_turn", &self.tasks_per_turn)
            .finish()
    }
}

/// The error of a view that cannot be built.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderedViewError {
    /// The executor already runs one task at a time.
    Ordered {
        /// The executor's name.
        executor: String,
    },
    /// A turn of zero tasks would never run anything.
    EmptyTurn,
}

impl fmt::Display for OrderedViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordered { executor } => write!(
                f,
                "{executor} already runs its tasks in order; use it without a view"
            ),
            Self::EmptyTurn => f.write_str("a turn of 0 tasks runs nothing; allow at least 1"),
        }
    }
}

impl Error for OrderedViewError {}

tidegate_core::debug_as_display!(OrderedViewError);

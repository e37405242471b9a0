//! The builder of the strategies that have no settings of their own.

use std::fmt;

use tidegate_core::{Rejected, Task};

use super::engine::OnRefused;

/// A builder for a strategy `S`. Each strategy has a function `builder` that returns one.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::ImmediateExecutor;
/// use tidegate_pool::strategy::{ProduceExecuteConsume, Strategy};
///
/// let here = Arc::new(ImmediateExecutor::new());
/// let strategy = ProduceExecuteConsume::builder(|| None, here)
///     .on_refused(|refused| {
///         let why = refused.why();
///         eprintln!("{}: {why}", refused.into_inner().name());
///     })
///     .build();
/// strategy.produce();
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct StrategyBuilder<S> {
    on_refused: Option<OnRefused>,
    build: Box<dyn FnOnce(Option<OnRefused>) -> S + Send>,
}

impl<S> StrategyBuilder<S> {
    pub(super) fn new(build: impl FnOnce(Option<OnRefused>) -> S + Send + 'static) -> Self {
        Self {
            on_refused: None,
            build: Box::new(build),
        }
    }

    /// Sets a hook that receives each task that the executor refused. It runs on the thread that
    /// produced the task, which produces nothing meanwhile. A panic in the hook is caught. Without
    /// a hook, a refused task is dropped, which closes what it holds.
    pub fn on_refused(mut self, hook: impl Fn(Rejected<Task>) + Send + Sync + 'static) -> Self {
        self.on_refused = Some(Box::new(hook));
        self
    }

    /// Builds the strategy.
    pub fn build(self) -> S {
        (self.build)(self.on_refused)
    }
}

impl<S> fmt::Debug for StrategyBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StrategyBuilder")
            .field("on_refused", &self.on_refused.is_some())
            .finish_non_exhaustive()
    }
}

//! What a pool knows of its views if there are none.

use std::sync::Arc;

use tidegate_core::Executor;

use crate::executor::WeakHandedBack;
use crate::schedule::TaskTimer;

/// What an executor shares with the views over it.
pub(crate) struct SharedWithViews {
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) timer: Arc<TaskTimer>,
    pub(crate) views: Arc<Views>,
    /// `true` if tasks of the executor can run at the same time.
    pub(crate) overlaps: bool,
    /// What the executor hands back when it ends. It keeps the tasks of the views, too.
    pub(crate) handed_back: WeakHandedBack,
}

/// The live views over one executor: none.
#[derive(Default)]
pub(crate) struct Views;

impl Views {
    pub(crate) fn close(&self) {}

    pub(crate) fn end(&self) {}

    pub(crate) fn leave(&self) {}
}

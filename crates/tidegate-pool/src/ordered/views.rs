//! The ordered views over one executor. They close and end with it.

use std::any::Any;
use std::sync::{Arc, Weak};

use tidegate_core::Executor;
use tidegate_core::internal::prim::{Mutex, lock};

use super::turn::Shared;
use crate::executor::WeakHandedBack;
use crate::schedule::TaskTimer;

/// The number of views from which the first look for dropped ones is made.
const FIRST_PURGE: usize = 16;

/// What an executor shares with the views over it.
pub(crate) struct SharedWithViews {
    /// The executor, as a reference that does not keep it running.
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) timer: Arc<TaskTimer>,
    pub(crate) views: Arc<Views>,
    /// `true` if tasks of the executor can run at the same time.
    pub(crate) overlaps: bool,
    /// What the executor hands back when it ends. It keeps the tasks of the views, too.
    pub(crate) handed_back: WeakHandedBack,
}

impl SharedWithViews {
    /// Returns what `executor` shares with its views, if it does.
    pub(super) fn of(executor: &dyn Executor) -> Option<Arc<Self>> {
        let any: Arc<dyn Any + Send + Sync> = executor.shared_with_views()?;
        any.downcast().ok()
    }
}

/// The live views over one executor.
#[derive(Default)]
pub(crate) struct Views(Mutex<ViewList>);

#[derive(Default)]
struct ViewList {
    /// Some of the views may have been dropped.
    views: Vec<Weak<Shared>>,
    /// The length at which dropped views are removed.
    purge_at: usize,
    closed: bool,
    ended: bool,
}

impl Views {
    /// Adds a view that was just created.
    pub(super) fn add(&self, view: &Arc<Shared>) {
        let mut list = lock(&self.0);
        if list.views.len() >= list.purge_at {
            list.views.retain(|view| view.strong_count() > 0);
            list.purge_at = (list.views.len() * 2).max(FIRST_PURGE);
        }
        list.views.push(Arc::downgrade(view));
        if list.closed {
            view.close_lane();
        }
        let handle = if list.ended {
            view.end();
            view.leave_unstarted()
        } else {
            None
        };
        drop(list);
        drop(handle);
    }

    /// Closes the views for new tasks: the executor takes no more. What they have accepted runs
    /// as before.
    pub(crate) fn close(&self) {
        let mut list = lock(&self.0);
        list.closed = true;
        let views = list.live();
        views.iter().for_each(|view| view.close_lane());
        drop(list);
        // Without the lock: the last reference to a view drops its handle of the executor.
        drop(views);
    }

    /// Ends the views: turns that run begin no further task. Called before a turn is handed back.
    pub(crate) fn end(&self) {
        let mut list = lock(&self.0);
        (list.closed, list.ended) = (true, true);
        let views = list.live();
        views.iter().for_each(|view| view.end());
        drop(list);
        drop(views);
    }

    /// Wakes the waiters of the tasks that will not start, and releases the handles that the views
    /// have of the executor. Called after [`Views::end`], when the executor says that it has
    /// abandoned its tasks.
    pub(crate) fn leave(&self) {
        let views = lock(&self.0).live();
        let handles: Vec<_> = views.iter().map(|view| view.leave_unstarted()).collect();
        // Last, because the drop of the last handle drops tasks of the user.
        drop(handles);
    }
}

impl ViewList {
    fn live(&self) -> Vec<Arc<Shared>> {
        self.views.iter().filter_map(Weak::upgrade).collect()
    }
}

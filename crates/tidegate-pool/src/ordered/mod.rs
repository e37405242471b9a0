//! An ordered view over an unordered executor: runs one task at a time, in order, on any thread.
//!
//! * `turn`: the view's queue of tasks, and the state machine of the turns that run them.
//! * `ending`: how a view ends with its executor.
//! * `view`: [`OrderedView`], the handle. `schedule`: its methods that schedule tasks.
//! * `views`: the views over one executor, which end with it.
//! * `builder`: [`OrderedViewBuilder`] and [`OrderedViewError`].
//!
//! `builder` uses `views`. `builder` and `schedule` use `view`. `view`, `views` and `ending` use
//! `turn`. A view runs on any `Executor`; this module does not depend on the worker pool, which
//! keeps a list of its views.

mod builder;
mod ending;
mod schedule;
mod turn;
mod view;
mod views;

pub use self::builder::{OrderedViewBuilder, OrderedViewError};
pub use self::view::OrderedView;
pub(crate) use self::views::{SharedWithViews, Views};

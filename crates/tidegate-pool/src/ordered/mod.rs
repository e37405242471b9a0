//! An ordered view over an unordered executor: runs one task at a time, in order, on any thread.
//!
//! * `turn`: the view's queue of tasks, and the state machine of the turns that run them.
//! * `ending`: how a view ends with its executor.
//! * `view`: [`OrderedView`], the handle. `schedule`: its methods that schedule tasks.
//! * `views`: the views over one executor, which end with it.
//! * `builder`: [`OrderedViewBuilder`] and [`OrderedViewError`].
//! * `off`: what a pool knows of views, without the feature `ordered`: nothing.
//!
//! `builder` uses `views`. `builder` and `schedule` use `view`. `view`, `views` and `ending` use
//! `turn`. A view runs on any `Executor`; this module does not depend on the worker pool, which
//! keeps a list of its views.

#[cfg(feature = "ordered")]
mod builder;
#[cfg(feature = "ordered")]
mod ending;
#[cfg(not(feature = "ordered"))]
mod off;
#[cfg(feature = "ordered")]
mod schedule;
#[cfg(feature = "ordered")]
mod turn;
#[cfg(feature = "ordered")]
mod view;
#[cfg(feature = "ordered")]
mod views;

#[cfg(not(feature = "ordered"))]
pub(crate) use self::off::{SharedWithViews, Views};
#[cfg(feature = "ordered")]
pub(crate) use self::views::{SharedWithViews, Views};
#[cfg(feature = "ordered")]
pub use self::{
    builder::{OrderedViewBuilder, OrderedViewError},
    view::OrderedView,
};

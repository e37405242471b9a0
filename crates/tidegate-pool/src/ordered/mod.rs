//! An ordered view over an unordered executor: runs one task at a time, in order, on any thread.
//!
//! * `turn`: the view's queue of tasks, and the state machine of the turns that run them.
//! * `view`: [`OrderedView`], the handle. `schedule`: its methods that schedule tasks.
//! * `builder`: [`OrderedViewBuilder`] and [`OrderedViewError`].
//!
//! `builder` and `schedule` use `view`, which uses `turn`. A view runs on any `Executor`; this module does not
//! depend on the worker pool.

mod builder;
mod schedule;
mod turn;
mod view;

pub use self::builder::{OrderedViewBuilder, OrderedViewError};
pub use self::view::OrderedView;

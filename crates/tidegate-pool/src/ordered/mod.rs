//! An ordered view over an unordered executor: one task at a time, in order, on any thread.
//!
//! * `turn`: the view's lane of tasks, and the state machine of the turns that run them.
//! * `view`: [`OrderedView`], the handle.
//! * `builder`: [`OrderedViewBuilder`] and [`BadView`].
//!
//! `builder` knows `view`, which knows `turn`. A view runs on any `Executor`; nothing here knows the
//! worker pool.

mod builder;
mod turn;
mod view;

pub use self::builder::{BadView, DEFAULT_TASKS_PER_TURN, OrderedViewBuilder};
pub use self::view::OrderedView;

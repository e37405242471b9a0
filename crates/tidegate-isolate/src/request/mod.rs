//! A request: what belongs to it follows it across loops and pools.
//!
//! `context` is the request itself, entered on a thread for a while; `variable` a value that each
//! request has of its own; `log` the calls that it made. Its cache holds runs that calls share:
//! `shared_run` is one of them, `shared_run_home` checks a wait for its answer, and `wait_graph`
//! refuses a wait that could never end. Knows errors, and homes of bulkheads; no command.

mod context;
mod log;
mod shared_run;
mod shared_run_home;
mod variable;
pub(crate) mod wait_graph;

pub use self::context::{Entered, InContext, RequestContext};
pub use self::log::{Logged, MOST_LOGGED};
pub use self::variable::{NoContext, RequestVariable};

pub(crate) use self::context::CacheOwner;
pub(crate) use self::shared_run::{
    Answer, CacheUse, Copies, Looked, SharedFuture, Tells, Whose, take,
};

#[cfg(test)]
mod tests;

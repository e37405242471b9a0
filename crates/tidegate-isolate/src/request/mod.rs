//! Requests: data that follows a request across loops and pools.
//!
//! `context` is the request itself, which is entered on a thread for a limited time. `variable` is
//! a value that each request has its own copy of. `log` lists the calls of the request. Its cache
//! holds runs that calls share: `cache_key` finds or creates one, `first_caller` executes it,
//! `shared_run` is the run as the others read it, `subscribers` are its callers, `shared_run_home`
//! checks a wait for its result, and `wait_graph` rejects a wait that would deadlock. This
//! module uses errors and the homes of bulkheads, and no command.

mod cache_key;
mod context;
mod first_caller;
mod log;
mod shared_run;
mod shared_run_home;
mod subscribers;
mod variable;
pub(crate) mod wait_graph;

pub use self::context::{Entered, InContext, RequestContext};
pub use self::log::{LogEntry, MOST_LOGGED};
pub use self::variable::{NoContextError, RequestVariable};

pub(crate) use self::cache_key::{CacheKey, CacheLookup, CacheScope};
pub(crate) use self::context::CacheOwner;
pub(crate) use self::first_caller::RunOwner;
pub(crate) use self::shared_run::{Answer, SharedAnswer, SharedFuture, take};

#[cfg(test)]
mod tests;

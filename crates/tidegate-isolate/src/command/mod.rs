//! Commands: a dependency with everything that protects the program from it.
//!
//! A command is a handle to the state that the isolation registers for its key (`builder`,
//! `handle`, `shared`). The files of a call, in the order of its life:
//!
//! 1. `call`: how it is made, with `options` of its own; `cache` and `cache_hit`, where it shares the
//!    run of another.
//! 2. `admission`: the one way in, what may refuse it; `permit_wait` for a future that waits for a permit.
//! 3. `run_in_place`, `run_async`, `run_on_threads`: the three ways of its work; or `entry`, where the
//!    caller does it by itself. On threads, `thread_call` is the call between its submission and its
//!    end, and `installed_context` what the working thread takes over from the caller.
//! 4. `ending`: the one way out, in a fixed order; `outcome`: what the caller gets; `fallback`, which may
//!    answer instead (`fallback_fn`: its function; `running_fallback`: its future); `report`, what is
//!    counted and told.
//!
//! `call` knows the ways, the ways know admission and ending, and these know outcome, fallback and report.
//! `attempt` has what the wrappers need of a call. Knows the isolation; wrappers and collapsers are
//! above.

mod admission;
mod attempt;
mod builder;
mod cache;
mod cache_hit;
mod call;
mod ending;
mod entry;
mod fallback;
mod fallback_fn;
mod handle;
mod installed_context;
mod options;
mod outcome;
mod permit_wait;
mod report;
mod run_async;
mod run_in_place;
mod run_on_threads;
mod running_fallback;
mod shared;
mod thread_call;

pub use self::builder::CommandBuilder;
pub use self::call::Call;
pub use self::entry::{Entry, Verdict};
pub use self::handle::Command;

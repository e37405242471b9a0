//! Commands: a dependency with everything that protects the program from it.
//!
//! A command is a handle to the state that the isolation registers for its key (`builder`,
//! `handle`, `shared`). A call passes through these files in this order:
//!
//! 1. `call`: how a call is made. `options`: its own settings. `cache` and `cache_hit`: a call that
//!    shares the run of another call.
//! 2. `admission`: what may reject a call, in a fixed order. `permit_wait`: a future that waits for
//!    a permit.
//! 3. `run_in_place`, `run_async`, `run_on_threads`: the three ways to run the work. `entry`: the
//!    caller does the work itself (`entry_wait`: after a wait for a permit; `late_entry`:
//!    what the timer reports). For calls on threads, `thread_call` is the call from its
//!    submission to its end, and `installed_context` is the caller's context on the worker thread.
//! 4. `ending`: the steps at the end of the work, in a fixed order. `outcome`: the result for the
//!    caller. `fallback`: a value in place of an error (`fallback_fn`: the function,
//!    `running_fallback`: its future). `report`: events, listeners and logs. `traced`: spans and
//!    events of `tracing`.
//!
//! Each step uses only later ones: `call` uses the ways to run, these use `admission` and `ending`,
//! and these use `outcome`, `fallback` and `report`. `attempt` has the operations that wrappers
//! need, `untyped` those that adapters need. `collect` describes the metrics. The module uses the
//! isolation. Wrappers and collapsers use this module.

mod admission;
mod attempt;
mod builder;
mod cache;
mod cache_hit;
mod call;
mod collect;
mod ending;
mod entry;
mod entry_wait;
mod fallback;
mod fallback_fn;
mod handle;
mod installed_context;
mod late_entry;
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
mod traced;
mod untyped;
mod verdict;

pub use self::builder::CommandBuilder;
pub use self::call::Call;
pub use self::entry::Entry;
pub use self::entry_wait::PendingEntry;
pub use self::handle::Command;
pub use self::untyped::{CallTerms, UntypedCommand};
pub use self::verdict::Verdict;

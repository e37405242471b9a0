//! The state of an event loop as a tree.
//!
//! | file | what |
//! |---|---|
//! | `requests.rs` | the requests for a dump that wait for the event loop |
//! | `describe.rs` | the tree: what any thread can read, and what only the event loop's thread can |
//! | `ask.rs` | asking the event loop to describe itself between two tasks |
//! | `handle.rs` | `dump`, `dump_async` and `dump_within` of event loops and groups |
//!
//! Counters, the running task and the lengths of queues are published by the event loop anyway, so
//! `dump` reads them from any thread, also while the event loop is stuck in a task. The lists that
//! only the event loop's thread can read (its connections) need a request. The request is a signal:
//! it overtakes the tasks that wait, is never refused, and costs an event loop that gets none
//! nothing.
//! `core/dump.rs` answers it.

pub(crate) mod ask;
pub(crate) mod describe;
pub(crate) mod handle;
pub(crate) mod requests;

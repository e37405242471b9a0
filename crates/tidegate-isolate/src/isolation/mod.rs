//! The isolation: the registry of all keys, and the state that the commands of a key share.
//!
//! `state` is one key with its breaker, its bulkhead and its metrics. `settings` changes it while
//! calls run, `snapshot` reports its figures, and `collect` describes them
//! for an exporter. `pools` holds the thread bulkheads by their key.
//! `names` counts the names of groups and pools.
//! `registry` finds or creates a key's state, `changes` passes on changed properties, `shutdown`
//! collects the reports of the pools, `dump` shows the state as a tree, and `builder` builds the
//! whole. This module uses everything that a command is made of. It does not use commands, which
//! are handles to a state.

mod builder;
mod changes;
mod collect;
mod dump;
mod names;
mod pools;
mod registry;
mod settings;
mod shutdown;
mod snapshot;
pub(crate) mod state;

pub use self::builder::IsolationBuilder;
pub use self::registry::Isolation;
pub use self::shutdown::ShutdownReport;
pub use self::snapshot::CommandSnapshot;

pub(crate) use self::pools::RegisteredPool;
pub(crate) use self::registry::CommandKeys;

//! The isolation: the registry of every key, and what the commands of a key share.
//!
//! `state` is one key with its breaker, its bulkhead and its metrics; `settings` changes it while
//! calls go on; `snapshot` says how it is doing. `pools` holds the thread bulkheads by their key.
//! `registry` finds or makes a key's state, `changes` passes changed properties on, `builder` makes
//! the whole. Knows everything that a command is made of; commands are handles to a state, and
//! unknown here.

mod builder;
mod changes;
mod pools;
mod registry;
mod settings;
mod snapshot;
pub(crate) mod state;

pub use self::builder::IsolationBuilder;
pub use self::registry::Isolation;
pub use self::snapshot::CommandSnapshot;

pub(crate) use self::pools::RegisteredPool;

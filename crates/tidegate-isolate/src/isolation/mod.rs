//! The registry.

mod pools;
mod registry;

pub use self::registry::{Isolation, IsolationBuilder};

pub(crate) use self::pools::{Pools, RegisteredPool};

//! Dumps: the state of a loop, a pool or another part as a tree, for people and for programs.
//!
//! * `value`: [`DumpValue`], the value of one fact.
//! * `node`: [`Dump`], a node of the tree, and the limits of its size.
//! * `text`: the tree as text.
//! * `patience`: a limited attempt to take a lock.
//!
//! Each file uses only those before it. Every part of the workspace describes itself with the same
//! two types, so that a program can walk a dump without knowing the parts.

mod node;
mod patience;
#[cfg(test)]
mod tests;
mod text;
mod value;

pub use self::node::Dump;
pub use self::patience::try_briefly;
pub use self::value::DumpValue;

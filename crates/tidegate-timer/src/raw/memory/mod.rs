//! Memory for large arrays with random access.
//!
//! * `pages`: the size of huge pages, and the request for them.
//! * `arena`: [`HugePageArena`], an arena that allocates arrays of one size ([`ArenaArray`]) from
//!   blocks the size of a huge page.

mod arena;
mod pages;
#[cfg(test)]
mod tests;

pub use self::arena::{ArenaArray, HugePageArena};

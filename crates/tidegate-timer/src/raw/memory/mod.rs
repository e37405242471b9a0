//! Memory for large arrays with random access.
//!
//! * `pages`: the size of huge pages, and the request for them.
//! * `yard`: [`Yard`], an arena that allocates arrays of one size ([`Plot`]) from blocks the size
//!   of a huge page.

mod pages;
#[cfg(test)]
mod tests;
mod yard;

pub use self::yard::{Plot, Yard};

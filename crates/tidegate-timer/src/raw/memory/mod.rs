//! Memory for arrays that are large and used at random.
//!
//! * `pages`: how large the system's large pages are, and how to ask for them.
//! * `yard`: [`Yard`], which hands out arrays of one size ([`Plot`]) from blocks of that size.

mod pages;
#[cfg(test)]
mod tests;
mod yard;

pub use self::yard::{Plot, Yard};

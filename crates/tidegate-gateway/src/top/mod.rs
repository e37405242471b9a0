//! The command `top`: the snapshot of a running gateway in a terminal.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `table` | a snapshot as lines of text; pure data | |
//! | `run` | asks the listener for operators and draws | `table` |

mod run;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use run::{TopArguments, top};

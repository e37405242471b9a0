//! The command `top`: the snapshot of a running gateway in a terminal.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `value` | reads JSON | |
//! | `table` | a snapshot as lines of text; pure data | `value` |
//! | `run` | asks the listener for operators and draws | `table` |

mod run;
mod table;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use run::{TopArguments, top};

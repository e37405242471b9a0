//! Health checks: whether a server takes requests.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `thresholds` | after how many results a server changes its state; pure data | |
//! | `checker` | the checks of one server, on one loop | `thresholds` |

mod checker;
mod thresholds;

pub(crate) use checker::{Checked, Checker};

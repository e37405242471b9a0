//! A running gateway: listeners, reload, drain, signals.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `error` | why a gateway cannot start or take over a configuration | |
//! | `certificates` | checks the certificates that a configuration names | |
//! | `listener` | a listener with its limits | `error` |
//! | `retired` | listeners that a reload has replaced or removed | `listener` |
//! | `changes` | which listeners a reload keeps, changes and opens | `listener` |
//! | `held` | drains that wait until a reload is in force | |
//! | `gateway` | [`Gateway`]: starts, shows what it has, drains | `changes`, `retired`, `held` |
//! | `turn` | a change of what is in force: prepared whole, then applied | `gateway` |
//! | `metrics` | the metrics of listeners and servers | `gateway` |
//! | `admin_address` | which listeners the one for operators blocks | `error` |
//! | `parts` | [`OperationParts`]: what a gateway in operation runs on | |
//! | `settings` | the settings that operators change | `operator` |
//! | `operator` | what operators see and change | `turn`, `certificates`, `admin_address`, `parts` |
//! | `admin_start` | the start of the listener for operators | `operator` |
//! | `stalls` | how often loops did not respond | |
//! | `expiry` | reports certificates that expire | `operator` |
//! | `operation` | [`Operation`]: a gateway with its file, its listener for operators and its log | `operator`, `certificates`, `admin_start` |
//! | `reloads` | asks for reloads on a thread of their own | |
//! | `run` | the command `run`: signals, reload, drain, the summary | `operation`, `reloads` |

mod admin_address;
mod admin_start;
mod certificates;
mod changes;
mod error;
mod expiry;
mod gateway;
mod held;
mod listener;
mod metrics;
mod operation;
mod operator;
mod parts;
mod reloads;
mod retired;
mod run;
mod settings;
mod stalls;
#[cfg(test)]
mod start_tests;
mod turn;

pub(crate) use certificates::add_start_mistakes;
pub use error::StartError;
pub use gateway::{Gateway, Summary};
pub use operation::Operation;
pub(crate) use operator::Knobs;
pub use parts::OperationParts;
pub(crate) use run::run;

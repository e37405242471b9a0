//! Calls on a thread bulkhead: its limits, the settings of the pool, its queue and its counters.
//!
//! Most of them run a second and a third time: over a queue, and over an executor, that a program
//! supplies.

mod bounds;
mod figures;
mod places;
mod producers;
mod queue;
mod settings;
mod users_executor;
mod users_queue;

use crate::kit;

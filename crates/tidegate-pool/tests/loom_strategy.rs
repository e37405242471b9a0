//! Models of a strategy's words: the right to produce, the monitor's watch, and stand-ins
//! (`cargo xtask loom`).
//!
//! Bounds: at most three threads, at most `LOOM_MAX_PREEMPTIONS` preemptions per execution.
//!
//! # The models bite
//!
//! Each of these changes to the sources, made one at a time, failed at least one model with two
//! preemptions (*Fails when* at a model names the typical ones):
//!
//! * Producer cell: `lend` without its fence, or relaxed; `step` only Acquire or only Release; `rest`
//!   not looking for demand; `claim` leaving none; `lend` leaving the cell idle; `take_loan` not
//!   comparing the number; `ask` not noting the helper; `close` leaving `HOME` set while it reads
//!   the box, or telling the end relaxed; `give_up` relaxed.
//! * Lookout: `came` not comparing, `send` not looking; a pool that stays brisk; of the cell under it,
//!   `glance` or `lend` relaxed, `arrive` leaving `PENDING`, `take_loan` not comparing.
//! * Vigil: `end` or `sleep` without its fence; `ring` taking the end down. Standby: a stand-in that
//!   comes back and does not look whether the monitor has stopped, or looks before it puts itself
//!   back; a monitor that sends it away after its last look, or a producer that does not look again.
#![cfg(tidegate_loom)]

use std::sync::Arc as StdArc;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use tidegate_core::{Doorbell, Parker};
use tidegate_pool::internal::{Closing, Held, ProducerCell, Rest};

#[path = "../../tidegate-testkit/shared/loom_log.rs"]
mod loom_log;

use loom_log::Log;

#[path = "models/producer.rs"]
mod producer;

#[path = "models/lookout.rs"]
mod lookout;

#[path = "models/standby.rs"]
mod standby;

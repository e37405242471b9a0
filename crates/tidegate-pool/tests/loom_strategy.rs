//! Models of a strategy's atomic words: the right to produce, the monitor's state, and stand-ins
//! (`cargo xtask loom`).
//!
//! Bounds: at most three threads, at most `LOOM_MAX_PREEMPTIONS` preemptions per execution.
//!
//! # Mutations that the models detect
//!
//! Each of these changes to the sources, made one at a time, failed at least one model with two
//! preemptions (*Fails when* at a model names the typical ones):
//!
//! * Producer cell: `lend` without its fence, or relaxed; `step` only Acquire or only Release;
//!   `finish_round` does not check for demand; `claim` leaves none; `lend` leaves the cell idle;
//!   `take_loan` does not compare the number; `request_round` does not record the helper; `close`
//!   leaves `HOME` set while it reads the box, or announces the end relaxed; `give_up` relaxed.
//! * Starvation detector: `helper_done` does not compare; `send` does not check; a pool that stays
//!   brisk. Of the cell below it: `snapshot` or `lend` relaxed; `arrive` leaves `PENDING`;
//!   `take_loan` does not compare.
//! * Monitor state: `end` or `sleep` without its fence; `notify` undoes the end.
//! * Stand-in slot: a returning stand-in does not check whether the monitor has stopped, or checks
//!   before it puts itself back; a monitor releases it after its last scan; a producer does not
//!   check for it again.
#![cfg(tidegate_loom)]

use std::sync::Arc as StdArc;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use tidegate_core::Parker;
use tidegate_core::internal::Doorbell;
use tidegate_pool::internal::{CloseResult, ProducerCell, ProducerGuard, RestResult};

#[path = "../../tidegate-testkit/shared/loom_log.rs"]
mod loom_log;

use loom_log::Log;

#[path = "models/producer.rs"]
mod producer;

#[path = "models/starvation_detector.rs"]
mod starvation_detector;

#[path = "models/stand_in_slot.rs"]
mod stand_in_slot;

//! What all connections of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::date::WallClock;
use super::head_writer::ReplyTo;
use super::limits::Limits;
use super::metrics::Counters;
use super::trouble::TroubleLog;
use crate::codec::HttpDate;

/// The settings, the clock, the counters and the reports of a server.
#[derive(Debug)]
pub(crate) struct ServerShared {
    pub(crate) limits: Limits,
    pub(crate) wall: WallClock,
    pub(crate) counters: Counters,
    pub(crate) troubles: TroubleLog,
    draining: AtomicBool,
}

impl ServerShared {
    pub(crate) fn new(limits: Limits, wall: WallClock, counters: Counters) -> Arc<Self> {
        Arc::new(Self {
            limits,
            wall,
            counters,
            troubles: TroubleLog::default(),
            draining: AtomicBool::new(false),
        })
    }

    pub(crate) fn date(&self) -> HttpDate {
        self.wall.date()
    }

    /// Makes every connection end with the last one of its outstanding responses, or with its next
    /// one if there are none.
    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns `to` with the decision of the server for a response at once: while the server drains,
    /// no request follows this one.
    pub(crate) fn decide(&self, to: ReplyTo) -> ReplyTo {
        ReplyTo {
            keep_alive: to.keep_alive && !self.is_draining(),
            ..to
        }
    }
}

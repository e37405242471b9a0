//! The metrics of a server: counters of each event loop, their sum, and their description.
//!
//! | file | contents |
//! |---|---|
//! | `cell` | the counters of one event loop, and what one connection has counted since it reported |
//! | `times` | a histogram of durations |
//! | `collect` | describes the counters for an exporter |
//!
//! A connection counts in plain fields and adds them to the counters of its event loop once per
//! read, so that pipelined requests cost no atomic operation each. On a pinned loop only one thread
//! adds; on a roaming loop the threads take turns.

mod cell;
mod collect;
mod times;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::internal::CachePadded;

pub(crate) use self::cell::{LoopCell, Tally};
use super::trouble::Trouble;
use crate::codec::RefusalReason;

/// The number of status classes: 2xx to 5xx, and others.
const CLASSES: usize = 5;
const CLASS_NAMES: [&str; CLASSES] = ["2xx", "3xx", "4xx", "5xx", "other"];

/// The counters of a server, by event loop.
#[derive(Debug)]
pub(crate) struct Counters {
    cells: Box<[CachePadded<LoopCell>]>,
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    /// Creates the counters of the event loops with these names. If `one_writer`, the connections of
    /// a loop run on one thread only.
    pub(crate) fn new<'a>(loops: impl Iterator<Item = &'a str>, one_writer: bool) -> Self {
        let cells = loops.map(|name| CachePadded::new(LoopCell::new(name, one_writer)));
        Self {
            cells: cells.collect(),
        }
    }

    /// Returns the number of the event loop `name`; that of the first one if there is none.
    pub(crate) fn find(&self, name: &str) -> u32 {
        let mut cells = self.cells.iter();
        cells.position(|cell| cell.name() == name).unwrap_or(0) as u32
    }

    /// Returns the counters of the event loop with this number.
    #[inline]
    pub(crate) fn cell(&self, number: u32) -> &LoopCell {
        &self.cells[number as usize]
    }

    /// Returns the sums over all event loops.
    pub(crate) fn snapshot(&self) -> HttpMetrics {
        let mut sum = HttpMetrics::default();
        let mut refusals = [0; RefusalReason::ALL.len()];
        for cell in &self.cells {
            // Read first, so that a connection is not counted as closed before it is as opened.
            let closed = get(&cell.closed);
            sum.connections += get(&cell.opened).saturating_sub(closed);
            sum.requests += get(&cell.requests);
            for (sum, class) in sum.responses.iter_mut().zip(&cell.classes) {
                *sum += get(class);
            }
            sum.received_bytes += get(&cell.received);
            sum.sent_bytes += get(&cell.sent);
            sum.head_time += Duration::from_nanos(cell.heads.nanos());
            sum.total_time += Duration::from_nanos(cell.totals.nanos());
            sum.dropped_responses += cell.troubles(Trouble::Dropped);
            sum.late_responses += cell.troubles(Trouble::LateResponse);
            sum.unanswered += cell.troubles(Trouble::Unanswered);
            sum.panics += cell.troubles(Trouble::Panic);
            sum.mistakes += cell.troubles(Trouble::MISTAKE);
            sum.slow_readers += cell.troubles(Trouble::SlowReader);
            sum.lost_connections += cell.troubles(Trouble::Lost);
            sum.failed_handshakes += cell.troubles(Trouble::Handshake);
            sum.server_errors += cell.troubles(Trouble::Server);
            for (sum, reason) in refusals.iter_mut().zip(RefusalReason::ALL) {
                *sum += cell.troubles(Trouble::Refused(*reason));
            }
        }
        let refusals = RefusalReason::ALL.iter().copied().zip(refusals);
        sum.refusals = refusals.filter(|(_, number)| *number != 0).collect();
        sum
    }
}

/// A snapshot of a server's counters, over all its event loops. An exporter also gets them for each
/// loop, with histograms of the times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpMetrics {
    /// Connections that are open.
    pub connections: u64,
    /// Requests whose head was complete.
    pub requests: u64,
    /// Responses by class: 2xx, 3xx, 4xx, 5xx, and others.
    pub responses: [u64; CLASSES],
    /// Bytes that were received.
    pub received_bytes: u64,
    /// Bytes of responses that were written to connections.
    pub sent_bytes: u64,
    /// The sum of the times from the first byte of a head to its last one. A head that comes in one
    /// piece counts as zero.
    pub head_time: Duration,
    /// The sum of the times from the first byte of a head to the end of the response: to the moment
    /// when its last byte is written to the connection. A pipelined request begins when the server
    /// reaches it.
    pub total_time: Duration,
    /// Caused by the service: responses that it dropped; their clients got status 500.
    pub dropped_responses: u64,
    /// Caused by the service: responses that it did not begin in time; their clients got status 503.
    pub late_responses: u64,
    /// Caused by the service: requests that got no response, because an earlier response of their
    /// connection ended it.
    pub unanswered: u64,
    /// Caused by the service: its panics; their clients got status 500.
    pub panics: u64,
    /// Caused by the service: responses that could not be sent as it made them; their clients got
    /// status 500, or were cut off in the middle of the body.
    pub mistakes: u64,
    /// Caused by clients: connections closed because the client took no byte of its response.
    pub slow_readers: u64,
    /// Caused by clients or the network: connections that were reset.
    pub lost_connections: u64,
    /// Caused by clients: connections that failed in a handler in front of HTTP: in the TLS handshake
    /// or because of a TLS record that is not valid, or without a header of the PROXY protocol.
    pub failed_handshakes: u64,
    /// Caused by the server: other errors that ended a connection.
    pub server_errors: u64,
    /// Caused by clients: requests that the server refused, by reason; reasons that never occurred
    /// are left out.
    pub refusals: Vec<(RefusalReason, u64)>,
}

impl fmt::Display for HttpMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests, {} connections",
            self.requests, self.connections
        )?;
        let classes = CLASS_NAMES.iter().zip(self.responses);
        for (name, number) in classes.filter(|(_, number)| *number != 0) {
            write!(f, ", {number} × {name}")?;
        }
        for (name, number) in [
            ("dropped by the service", self.dropped_responses),
            ("late responses", self.late_responses),
            ("left without a response", self.unanswered),
            ("panics of the service", self.panics),
            ("mistakes of the service", self.mistakes),
            ("slow readers", self.slow_readers),
            ("lost connections", self.lost_connections),
            ("failed handshakes", self.failed_handshakes),
            ("errors of the server", self.server_errors),
        ] {
            if number != 0 {
                write!(f, ", {number} {name}")?;
            }
        }
        for (reason, number) in &self.refusals {
            write!(f, ", {number} refused: {}", reason.word())?;
        }
        Ok(())
    }
}

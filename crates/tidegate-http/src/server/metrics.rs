//! The counters of a server.
//!
//! A connection counts in plain fields and adds them to the shared counters once per read, so that
//! pipelined requests cost no atomic operation each.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Collect, Metric, MetricVisitor};

use crate::codec::{EncodeError, RefusalReason};

/// The number of status classes: 2xx to 5xx, and others.
const CLASSES: usize = 5;
const CLASS_NAMES: [&str; CLASSES] = ["2xx", "3xx", "4xx", "5xx", "other"];

/// The counters that all connections of a server share.
#[derive(Debug)]
pub(crate) struct Counters {
    requests: AtomicU64,
    classes: [AtomicU64; CLASSES],
    received: AtomicU64,
    opened: AtomicU64,
    closed: AtomicU64,
    /// Responses that the service dropped.
    dropped: AtomicU64,
    /// Panics of the service.
    panics: AtomicU64,
    /// Responses that could not be sent as the service made them.
    mistakes: AtomicU64,
    refusals: Box<[AtomicU64]>,
}

impl Default for Counters {
    fn default() -> Self {
        let refusals = RefusalReason::ALL.iter().map(|_| AtomicU64::new(0));
        Self {
            requests: AtomicU64::new(0),
            classes: Default::default(),
            received: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            mistakes: AtomicU64::new(0),
            refusals: refusals.collect(),
        }
    }
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn opened(&self) {
        add(&self.opened, 1);
    }

    pub(crate) fn closed(&self) {
        add(&self.closed, 1);
    }

    pub(crate) fn dropped(&self) {
        add(&self.dropped, 1);
    }

    pub(crate) fn panicked(&self) {
        add(&self.panics, 1);
    }

    pub(crate) fn mistake(&self, _: EncodeError) {
        add(&self.mistakes, 1);
    }

    pub(crate) fn refused(&self, reason: RefusalReason) {
        if let Some(counter) = self.refusals.get(reason.index()) {
            add(counter, 1);
        }
    }

    /// Adds what a connection has counted since the last time.
    #[inline]
    pub(crate) fn take(&self, tally: &mut Tally) {
        if tally.received != 0 {
            add(&self.received, std::mem::take(&mut tally.received));
        }
        if tally.requests == 0 && tally.responses == 0 {
            return;
        }
        add(
            &self.requests,
            u64::from(std::mem::take(&mut tally.requests)),
        );
        tally.responses = 0;
        for (counter, number) in self.classes.iter().zip(&mut tally.classes) {
            if *number != 0 {
                add(counter, u64::from(std::mem::take(number)));
            }
        }
    }

    /// Returns the current values.
    pub(crate) fn snapshot(&self) -> HttpMetrics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let refusals = RefusalReason::ALL.iter().zip(&self.refusals);
        let refusals = refusals.map(|(reason, counter)| (*reason, get(counter)));
        let closed = get(&self.closed);
        HttpMetrics {
            connections: get(&self.opened).saturating_sub(closed),
            requests: get(&self.requests),
            responses: std::array::from_fn(|class| get(&self.classes[class])),
            received_bytes: get(&self.received),
            dropped_responses: get(&self.dropped),
            panics: get(&self.panics),
            mistakes: get(&self.mistakes),
            refusals: refusals.filter(|(_, number)| *number != 0).collect(),
        }
    }
}

/// What one connection has counted since it last reported.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    requests: u32,
    responses: u32,
    classes: [u32; CLASSES],
    received: u64,
}

impl Tally {
    #[inline]
    pub(crate) fn request(&mut self) {
        self.requests += 1;
    }

    #[inline]
    pub(crate) fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    #[inline]
    pub(crate) fn response(&mut self, status: u16) {
        self.responses += 1;
        let class = usize::from(status / 100).wrapping_sub(2);
        self.classes[class.min(CLASSES - 1)] += 1;
    }
}

/// A snapshot of a server's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Responses that the service dropped; their clients got status 500.
    pub dropped_responses: u64,
    /// Panics of the service; their clients got status 500.
    pub panics: u64,
    /// Responses that could not be sent as the service made them; their clients got status 500.
    pub mistakes: u64,
    /// Requests that the server refused, by reason; reasons that never occurred are left out.
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
        for (reason, number) in &self.refusals {
            write!(f, ", {number} refused: {}", reason.word())?;
        }
        Ok(())
    }
}

impl Collect for Counters {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let now = self.snapshot();
        let mut counter = |name, help, labels: &[(&str, &str)], value: u64| {
            visitor.counter(Metric::new(name, help), labels, value as f64);
        };
        counter(
            "tidegate_http_requests",
            "Requests whose head was complete.",
            &[],
            now.requests,
        );
        for (class, number) in CLASS_NAMES.iter().zip(now.responses) {
            let labels = [("class", *class)];
            counter(
                "tidegate_http_responses",
                "Responses by status class.",
                &labels,
                number,
            );
        }
        counter(
            "tidegate_http_dropped_responses",
            "Responses that the service dropped; their clients got status 500.",
            &[],
            now.dropped_responses,
        );
        counter(
            "tidegate_http_panics",
            "Panics of the service; their clients got status 500.",
            &[],
            now.panics,
        );
        counter(
            "tidegate_http_mistakes",
            "Responses that could not be sent as the service made them.",
            &[],
            now.mistakes,
        );
        for (reason, number) in &now.refusals {
            let labels = [("reason", reason.word())];
            counter(
                "tidegate_http_refusals",
                "Refused requests by reason.",
                &labels,
                *number,
            );
        }
        let received = Metric::new("tidegate_http_received", "Bytes that were received.").bytes();
        visitor.counter(received, &[], now.received_bytes as f64);
        let open = Metric::new("tidegate_http_connections", "Connections that are open.");
        visitor.gauge(open, &[], now.connections as f64);
    }
}

//! The counters of one event loop.
//!
//! Any thread reads them at any time. On a roaming loop several threads add to them; a lock makes them
//! take turns, because a connection adds to six counters for a read, and six atomic additions cost more
//! than one lock. On a pinned loop only its thread adds.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};

use tidegate_core::internal::lock;

use super::times::{Times, add};
use super::{CLASSES, get};
use crate::server::trouble::Trouble;

/// The counters that the connections of one event loop share.
#[derive(Debug)]
pub(crate) struct LoopCell {
    name: Box<str>,
    /// Held by the thread that adds to the counters; `None` if only one thread ever does.
    adding: Option<Mutex<()>>,
    pub(super) requests: AtomicU64,
    pub(super) classes: [AtomicU64; CLASSES],
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) totals: Times,
    pub(super) opened: AtomicU64,
    pub(super) closed: AtomicU64,
    /// Heads that came in several pieces. The others took no time, and are not recorded.
    pub(super) heads: Times,
    pub(super) troubles: [AtomicU64; Trouble::COUNT],
}

impl LoopCell {
    pub(super) fn new(name: &str, one_writer: bool) -> Self {
        Self {
            name: name.into(),
            adding: (!one_writer).then(Mutex::default),
            requests: AtomicU64::new(0),
            classes: Default::default(),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            totals: Times::default(),
            opened: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            heads: Times::default(),
            troubles: [const { AtomicU64::new(0) }; Trouble::COUNT],
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the calling thread the only one that adds, until the result is dropped.
    #[inline]
    fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        let adding = self.adding.as_ref()?;
        Some(lock(adding))
    }

    pub(crate) fn opened(&self) {
        let _alone = self.alone();
        add(&self.opened, 1);
    }

    pub(crate) fn closed(&self) {
        let _alone = self.alone();
        add(&self.closed, 1);
    }

    /// Counts something that went wrong.
    pub(crate) fn trouble(&self, what: Trouble) {
        let _alone = self.alone();
        add(&self.troubles[what.index()], 1);
    }

    pub(super) fn troubles(&self, what: Trouble) -> u64 {
        get(&self.troubles[what.index()])
    }

    /// Records the time of a head that came in several pieces.
    pub(crate) fn head_time(&self, nanos: u64) {
        let _alone = self.alone();
        self.heads.record(nanos, 1);
    }

    /// Records the time from the first byte of a request to the end of its response.
    pub(crate) fn total_time(&self, nanos: u64) {
        let _alone = self.alone();
        self.totals.record(nanos, 1);
    }

    /// Returns the times of all heads, by bucket.
    pub(super) fn head_buckets(&self) -> [(f64, u64); super::times::BUCKETS] {
        let mut buckets = self.heads.buckets();
        let recorded: u64 = buckets.iter().map(|(_, number)| number).sum();
        buckets[0].1 += get(&self.requests).saturating_sub(recorded);
        buckets
    }

    /// Adds what a connection has counted since the last time. The responses that were written at
    /// once took `nanos` each.
    #[inline]
    pub(crate) fn take(&self, tally: &mut Tally, nanos: u64) {
        let _alone = self.alone();
        if tally.received != 0 {
            add(&self.received, std::mem::take(&mut tally.received));
        }
        if tally.sent != 0 {
            add(&self.sent, std::mem::take(&mut tally.sent));
        }
        if tally.at_once != 0 {
            let number = u64::from(std::mem::take(&mut tally.at_once));
            self.totals.record(nanos, number);
        }
        if tally.requests != 0 {
            let requests = std::mem::take(&mut tally.requests);
            add(&self.requests, u64::from(requests));
        }
        let responses = std::mem::take(&mut tally.responses);
        if responses == 0 {
            return;
        }
        let [usual, others @ ..] = &mut tally.classes;
        let usual = std::mem::take(usual);
        add(&self.classes[0], u64::from(usual));
        if usual == responses {
            return;
        }
        for (counter, number) in self.classes[1..].iter().zip(others) {
            if *number != 0 {
                add(counter, u64::from(std::mem::take(number)));
            }
        }
    }
}

/// What one connection has counted since it last reported.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    requests: u32,
    responses: u32,
    /// Responses that were written in the read of their request.
    at_once: u32,
    classes: [u32; CLASSES],
    received: u64,
    sent: u64,
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
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    #[inline]
    pub(crate) fn response(&mut self, status: u16) {
        self.responses += 1;
        let class = usize::from(status / 100).wrapping_sub(2);
        self.classes[class.min(CLASSES - 1)] += 1;
    }

    /// Counts a response that was written in the read of its request.
    #[inline]
    pub(crate) fn at_once(&mut self) {
        self.at_once += 1;
    }

    /// Returns `true` if there are responses that were written in the read of their requests.
    #[inline]
    pub(crate) fn has_times(&self) -> bool {
        self.at_once != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: u64 = 4;
    const READS: u64 = 2000;

    #[test]
    fn threads_that_add_at_the_same_time_lose_nothing() {
        let cell = LoopCell::new("roams", false);
        let add = || {
            for _ in 0..READS {
                let mut tally = Tally::default();
                tally.received(109);
                tally.request();
                tally.response(200);
                tally.response(404);
                tally.at_once();
                tally.sent(126);
                cell.take(&mut tally, 1000);
                cell.total_time(10);
                cell.opened();
            }
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(add))));
        let all = THREADS * READS;
        let counts = [&cell.requests, &cell.received, &cell.sent, &cell.opened].map(get);
        assert_eq!(counts, [all, 109 * all, 126 * all, all]);
        assert_eq!(cell.classes.each_ref().map(get), [all, 0, all, 0, 0]);
        let recorded: u64 = cell.totals.buckets().iter().map(|(_, count)| count).sum();
        assert_eq!((recorded, cell.totals.nanos()), (2 * all, 1010 * all));
    }
}

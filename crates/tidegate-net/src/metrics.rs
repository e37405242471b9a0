//! Counters of a loop with I/O.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread at a time writes and any thread reads. Adding is a load and a store, so
/// two writers at the same time would lose counts.
#[derive(Debug, Default)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    #[inline]
    pub(crate) fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one loop, or of one task of a roaming loop. Written by one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) polls: Cell,
    pub(crate) events: Cell,
    pub(crate) stale: Cell,
    pub(crate) requeued: Cell,
    pub(crate) registered: Cell,
    pub(crate) poll_failures: Cell,
    pub(crate) accepted: Cell,
    pub(crate) accept_pauses: Cell,
    pub(crate) reads: Cell,
    pub(crate) read_bytes: Cell,
    pub(crate) writes: Cell,
    pub(crate) written_bytes: Cell,
    pub(crate) unread: Cell,
    pub(crate) lost_datagrams: Cell,
}

/// Metrics of a loop with I/O: system calls, events, bytes.
///
/// ```
/// let group = tidegate_net::pinned("io", 1)?;
/// assert_eq!(group.io_metrics()[0].reads, 0);
/// println!("{}", group.io_metrics()[0]); // one line for each subject
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoMetrics {
    /// Calls of the poller.
    pub polls: u64,
    /// Events that the poller returned.
    pub events: u64,
    /// Events for sources that were gone.
    pub stale: u64,
    /// Times that a source had used up its budget and was queued again.
    pub requeued: u64,
    /// Sockets and user-defined sources registered now.
    pub registered: u64,
    /// Polls that failed.
    pub poll_failures: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Times that accepting paused because no descriptors were left.
    pub accept_pauses: u64,
    /// Receive calls.
    pub reads: u64,
    /// Bytes received.
    pub read_bytes: u64,
    /// Send calls.
    pub writes: u64,
    /// Bytes sent.
    pub written_bytes: u64,
    /// Messages that no handler took. Counted when their channel closes.
    pub unread: u64,
    /// Datagrams that were written and could not be sent: too large, too many, or refused by the
    /// operating system. Counted at the next flush, or when the channel closes. Datagrams that
    /// still waited when the channel closed are not counted.
    pub lost_datagrams: u64,
    /// Times that the poller of a roaming loop had to be woken because a channel came back or
    /// another thread had an update. 0 for a pinned loop.
    pub wakeups: u64,
}

impl Counters {
    /// Adds the counts to `sum`. A roaming loop has counters of its own and of each task.
    pub(crate) fn add_to(&self, sum: &mut IoMetrics) {
        sum.polls += self.polls.get();
        sum.events += self.events.get();
        sum.stale += self.stale.get();
        sum.requeued += self.requeued.get();
        sum.registered += self.registered.get();
        sum.poll_failures += self.poll_failures.get();
        sum.accepted += self.accepted.get();
        sum.accept_pauses += self.accept_pauses.get();
        sum.reads += self.reads.get();
        sum.read_bytes += self.read_bytes.get();
        sum.writes += self.writes.get();
        sum.written_bytes += self.written_bytes.get();
        sum.unread += self.unread.get();
        sum.lost_datagrams += self.lost_datagrams.get();
    }
}

/// One line for each subject.
impl fmt::Display for IoMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "sockets  {} registered, {} accepted, {} pauses of accepting",
            self.registered, self.accepted, self.accept_pauses,
        )?;
        writeln!(
            f,
            "reads    {} calls, {} bytes",
            self.reads, self.read_bytes
        )?;
        writeln!(
            f,
            "writes   {} calls, {} bytes",
            self.writes, self.written_bytes
        )?;
        writeln!(
            f,
            "polls    {} calls, {} failed, {} wake-ups",
            self.polls, self.poll_failures, self.wakeups,
        )?;
        writeln!(
            f,
            "events   {} received, {} stale, {} queued again",
            self.events, self.stale, self.requeued,
        )?;
        write!(
            f,
            "lost     {} messages that no handler took, {} datagrams",
            self.unread, self.lost_datagrams,
        )
    }
}

#[cfg(test)]
mod tests {
    //! The text of a snapshot.

    use super::*;

    #[test]
    fn prints_one_aligned_line_for_each_subject() {
        let metrics = IoMetrics {
            polls: 100,
            events: 250,
            stale: 3,
            requeued: 4,
            registered: 12,
            poll_failures: 1,
            accepted: 40,
            accept_pauses: 5,
            reads: 300,
            read_bytes: 1_048_576,
            writes: 280,
            written_bytes: 65_536,
            unread: 6,
            lost_datagrams: 7,
            wakeups: 8,
        };
        let expected = "\
sockets  12 registered, 40 accepted, 5 pauses of accepting
reads    300 calls, 1048576 bytes
writes   280 calls, 65536 bytes
polls    100 calls, 1 failed, 8 wake-ups
events   250 received, 3 stale, 4 queued again
lost     6 messages that no handler took, 7 datagrams";
        assert_eq!(metrics.to_string(), expected);
    }
}

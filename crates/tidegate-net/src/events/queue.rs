//! The events to deliver, in order: first those of the last poll, then those that were queued
//! again.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::metrics::Counters;
use crate::sys::{Poller, Readiness, Ready, Token};

/// Initial capacity of the array of events.
const EVENTS: usize = 1024;

/// Events that wait to be delivered.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Events of the last poll, and how many of them are delivered.
    ready: Vec<Ready>,
    at: usize,
    /// Events that were queued again, and how many of them are due before the next poll.
    again: VecDeque<Ready>,
    due: usize,
    /// Events of user-defined sources since the last call of `take_selected`; the poller keeps
    /// them.
    selected: usize,
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        Self {
            ready: Vec::with_capacity(EVENTS),
            at: 0,
            again: VecDeque::new(),
            due: 0,
            selected: 0,
        }
    }

    /// Returns the number of events, without polling.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.polled_len() + self.again.len()
    }

    /// Returns how many of them come from the last poll.
    #[inline]
    pub(crate) fn polled_len(&self) -> usize {
        self.ready.len() - self.at
    }

    /// Polls, if all events of the last poll are delivered. Returns the number of events to deliver
    /// until the next poll.
    pub(crate) fn poll(
        &mut self,
        poller: &mut dyn Poller,
        timeout: Option<Duration>,
        counters: &Counters,
    ) -> io::Result<usize> {
        self.due = self.again.len();
        if self.polled_len() > 0 {
            return Ok(self.polled_len() + self.due);
        }
        self.ready.clear();
        self.at = 0;
        counters.polls.add(1);
        let polled = poller.poll(&mut self.ready, timeout);
        counters.events.add(self.ready.len() as u64);
        let selected = polled?;
        if selected > 0 {
            counters.events.add(selected as u64);
            self.selected += selected;
        }
        Ok(self.ready.len() + self.due)
    }

    /// Returns how many events of user-defined sources the poller has found since the last call.
    #[inline]
    pub(crate) fn take_selected(&mut self) -> usize {
        std::mem::take(&mut self.selected)
    }

    /// Returns the next event to deliver.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Ready> {
        if let Some(&ready) = self.ready.get(self.at) {
            self.at += 1;
            return Some(ready);
        }
        self.due = self.due.checked_sub(1)?;
        self.again.pop_front()
    }

    /// Returns the event that [`EventQueue::next`] would return.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Ready> {
        match self.polled_rest().first() {
            Some(ready) => Some(*ready),
            None if self.due > 0 => self.again.front().copied(),
            None => None,
        }
    }

    /// Returns the events of the last poll that are still to be delivered.
    #[inline]
    pub(crate) fn polled_rest(&self) -> &[Ready] {
        &self.ready[self.at..]
    }

    /// Queues `ready` for delivery after the next poll.
    #[inline]
    pub(crate) fn push_again(&mut self, ready: Ready) {
        self.again.push_back(ready);
    }

    /// Queues `readiness` for `token`, and makes one more queued event due before the next poll.
    pub(crate) fn push_due(&mut self, token: Token, readiness: Readiness) {
        self.again.push_back(Ready { token, readiness });
        self.due += 1;
    }
}

#[cfg(test)]
mod tests {
    //! The order of events.

    use super::*;
    use crate::sys::FakePoller;

    fn event(at: u32) -> Ready {
        Ready {
            token: Token::new(at, 1),
            readiness: Readiness::READ,
        }
    }

    fn queue(events: u32) -> EventQueue {
        let mut queue = EventQueue::new();
        let (mut poller, script) = FakePoller::new();
        script.ready((0..events).map(event));
        let polled = queue.poll(&mut poller, Some(Duration::ZERO), &Counters::default());
        assert_eq!(polled.unwrap(), events as usize);
        queue
    }

    fn all(queue: &mut EventQueue) -> Vec<u32> {
        std::iter::from_fn(|| queue.next())
            .map(|ready| ready.token.slot())
            .collect()
    }

    #[test]
    fn polled_events_come_first_and_requeued_ones_after_the_next_poll() {
        let mut queue = queue(2);
        queue.push_again(event(7));
        queue.push_due(event(8).token, Readiness::REQUESTS);
        assert_eq!((queue.polled_len(), queue.len()), (2, 4));
        assert_eq!(all(&mut queue), [0, 1, 7], "one of them is due");
        let (mut poller, _script) = FakePoller::new();
        let polled = queue.poll(&mut poller, Some(Duration::ZERO), &Counters::default());
        assert_eq!((polled.unwrap(), all(&mut queue)), (1, vec![8]));
    }

    #[test]
    fn a_poller_is_not_polled_before_all_events_are_delivered() {
        let mut queue = queue(3);
        queue.next();
        let (mut poller, script) = FakePoller::new();
        script.ready([event(9)]);
        let polled = queue.poll(&mut poller, Some(Duration::ZERO), &Counters::default());
        assert_eq!((polled.unwrap(), all(&mut queue)), (2, vec![1, 2]));
    }
}

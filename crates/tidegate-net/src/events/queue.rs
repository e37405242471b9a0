//! What there is to tell, in the order in which it is told: what a poller said last, then who asked
//! to be told once more.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::metrics::Counters;
use crate::sys::{PIECES, Poller, Readiness, Ready, Token};

/// Events of which the flat array has room from the start.
const EVENTS: usize = 1024;

/// Events that wait to be told.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// What the poller said, and how much of it is told.
    ready: Vec<Ready>,
    at: usize,
    /// Up to where in it sources were asked to receive.
    ahead: usize,
    /// Who asked to be told once more, and how many of them are due before the next poll.
    again: VecDeque<Ready>,
    due: usize,
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        Self {
            ready: Vec::with_capacity(EVENTS),
            at: 0,
            ahead: 0,
            again: VecDeque::new(),
            due: 0,
        }
    }

    /// How many there are, without asking the poller.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.said() + self.again.len()
    }

    /// How many of them the poller said.
    #[inline]
    pub(crate) fn said(&self) -> usize {
        self.ready.len() - self.at
    }

    /// Asks the poller, after everything that it said before was told. Answers how many events
    /// there are to tell until the next poll.
    pub(crate) fn poll(
        &mut self,
        poller: &mut dyn Poller,
        timeout: Option<Duration>,
        counters: &Counters,
    ) -> io::Result<usize> {
        self.due = self.again.len();
        if self.said() > 0 {
            return Ok(self.said() + self.due);
        }
        self.ready.clear();
        (self.at, self.ahead) = (0, 0);
        counters.polls.add(1);
        let polled = poller.poll(&mut self.ready, timeout);
        counters.events.add(self.ready.len() as u64);
        polled.map(|()| self.ready.len() + self.due)
    }

    /// The next event to tell.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Ready> {
        if let Some(&ready) = self.ready.get(self.at) {
            self.at += 1;
            return Some(ready);
        }
        self.due = self.due.checked_sub(1)?;
        self.again.pop_front()
    }

    /// Whether the next event is of the group that began last.
    #[inline]
    pub(crate) fn is_in_group(&self) -> bool {
        self.at < self.ahead
    }

    /// The next few events, if there are several and they begin here: who is told of them may
    /// receive before.
    #[inline]
    pub(crate) fn group(&mut self) -> Option<Group<'_>> {
        if self.is_in_group() {
            return None;
        }
        self.ahead = (self.at + PIECES).min(self.ready.len());
        let several = self.ahead > self.at + 1;
        several.then(|| Group {
            len: self.ahead - self.at,
            to_come: &self.ready[self.at..],
        })
    }

    /// Tells `ready` after the next poll.
    #[inline]
    pub(crate) fn push_again(&mut self, ready: Ready) {
        self.again.push_back(ready);
    }

    /// Tells `token` of `readiness` before the next poll.
    pub(crate) fn push_due(&mut self, token: Token, readiness: Readiness) {
        self.again.push_back(Ready { token, readiness });
        self.due += 1;
    }
}

/// Events whose sources may receive together.
pub(crate) struct Group<'a> {
    pub(crate) len: usize,
    /// The events of the group, and behind them those of the next ones.
    pub(crate) to_come: &'a [Ready],
}

#[cfg(test)]
mod tests {
    //! The order, and where groups begin.

    use super::*;
    use crate::sys::FakePoller;

    fn event(at: u32) -> Ready {
        Ready {
            token: Token::new(at, 1),
            readiness: Readiness::READ,
        }
    }

    fn arrivals(events: u32) -> Arrivals {
        let mut arrivals = Arrivals::new();
        let (mut poller, script) = FakePoller::new();
        script.ready((0..events).map(event));
        let polled = arrivals.poll(&mut poller, Some(Duration::ZERO), &Counters::default());
        assert_eq!(polled.unwrap(), events as usize);
        arrivals
    }

    fn all(arrivals: &mut Arrivals) -> Vec<u32> {
        std::iter::from_fn(|| arrivals.next())
            .map(|ready| ready.token.slot())
            .collect()
    }

    #[test]
    fn what_the_poller_said_comes_first_and_who_wants_more_waits_for_the_next_poll() {
        let mut arrivals = arrivals(2);
        arrivals.push_again(event(7));
        arrivals.push_due(event(8).token, Readiness::MAIL);
        assert_eq!((arrivals.said(), arrivals.len()), (2, 4));
        assert_eq!(all(&mut arrivals), [0, 1, 7], "one of them is due");
        let (mut poller, _script) = FakePoller::new();
        let polled = arrivals.poll(&mut poller, Some(Duration::ZERO), &Counters::default());
        assert_eq!((polled.unwrap(), all(&mut arrivals)), (1, vec![8]));
    }

    #[test]
    fn a_poller_is_not_asked_before_all_was_told() {
        let mut arrivals = arrivals(3);
        arrivals.next();
        let (mut poller, script) = FakePoller::new();
        script.ready([event(9)]);
        let polled = arrivals.poll(&mut poller, Some(Duration::ZERO), &Counters::default());
        assert_eq!((polled.unwrap(), all(&mut arrivals)), (2, vec![1, 2]));
    }

    #[test]
    fn groups_are_of_eight_and_begin_once_each_and_one_alone_is_none() {
        let mut arrivals = arrivals(17);
        let mut sizes = Vec::new();
        while arrivals.said() > 0 {
            sizes.push(arrivals.group().map_or(0, |group| group.len));
            assert!(arrivals.group().is_none());
            arrivals.next();
        }
        let mut expected = vec![0; 17];
        (expected[0], expected[8]) = (8, 8);
        assert_eq!(sizes, expected);
    }
}

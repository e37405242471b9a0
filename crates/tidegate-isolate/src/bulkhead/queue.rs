//! The queue kinds of a bulkhead: the order in which waiting calls are served. Pure data, used for
//! permits and for threads.
//!
//! * *First in, first out*: fair, and the right order while the queue drains.
//! * *Last in, first out under overload*: while a queue persists, only the newest caller's result
//!   still matters.
//! * *CoDel*: if the shortest wait of an interval was above the target, a queue persists, and calls
//!   that have waited for more than twice the target are turned away. The wait that counts is that of the
//!   oldest entry, each time that an entry may be served.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::internal::as_nanos;

/// The order in which waiting calls are served.
///
/// ```
/// use tidegate_isolate::QueueDiscipline;
///
/// assert_eq!(QueueDiscipline::default(), QueueDiscipline::Fifo);
/// assert!(matches!(QueueDiscipline::codel(), QueueDiscipline::Codel { .. }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueDiscipline {
    /// The oldest call first.
    #[default]
    Fifo,
    /// The oldest call first; the newest first while the queue has not been empty for longer than
    /// `after`.
    LifoUnderOverload {
        /// How long the queue may be non-empty before the order is reversed.
        after: Duration,
    },
    /// The oldest call first; under overload, calls that waited too long are turned away.
    Codel {
        /// The wait that is acceptable.
        target: Duration,
        /// How long the target must be exceeded before the queue counts as overloaded.
        interval: Duration,
    },
}

impl QueueDiscipline {
    /// Returns CoDel with the settings that are usual for services: 5 ms in 100 ms.
    pub const fn codel() -> Self {
        Self::Codel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
        }
    }
}

/// The next entry of the queue, and what to do with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    /// Serve this entry.
    Serve(T),
    /// This entry waited too long: turn it away and call `pop` again.
    TurnAway(T),
}

/// Waiting entries, each with an id by which it can be removed.
#[derive(Debug)]
pub(crate) struct WaitQueue<T> {
    discipline: QueueDiscipline,
    entries: VecDeque<WaitEntry<T>>,
    next_id: u64,
    /// The time since which the queue has not been empty.
    standing_since: Option<u64>,
    /// CoDel: the end of the current interval, the shortest wait in it, and whether the previous
    /// interval was overloaded.
    interval_end: u64,
    shortest: u64,
    overloaded: bool,
}

/// A waiting entry.
#[derive(Debug)]
struct WaitEntry<T> {
    id: u64,
    since: u64,
    what: T,
}

impl<T> WaitQueue<T> {
    pub(crate) fn new(discipline: QueueDiscipline) -> Self {
        Self {
            discipline,
            entries: VecDeque::new(),
            next_id: 0,
            standing_since: None,
            interval_end: 0,
            shortest: u64::MAX,
            overloaded: false,
        }
    }

    pub(crate) fn push(&mut self, now: u64, what: T) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.standing_since.get_or_insert(now);
        self.entries.push_back(WaitEntry {
            id,
            since: now,
            what,
        });
        id
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let at = self.entries.iter().position(|entry| entry.id == id)?;
        self.take(at)
    }

    /// Removes and returns all entries, in the order in which they were added.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        let all = self.entries.drain(..).map(|entry| entry.what).collect();
        self.note_empty();
        all
    }

    /// Removes and returns the next entry.
    pub(crate) fn pop(&mut self, now: u64) -> Option<Next<T>> {
        let late = self.pop_late(now).map(Next::TurnAway);
        late.or_else(|| self.pop_if(now, |_| true).map(Next::Serve))
    }

    /// Removes and returns the oldest entry if it has waited too long. Called before each `pop_if`.
    pub(crate) fn pop_late(&mut self, now: u64) -> Option<T> {
        let QueueDiscipline::Codel { target, interval } = self.discipline else {
            return None;
        };
        let waited = now.saturating_sub(self.entries.front()?.since);
        self.note_wait(now, waited, as_nanos(target), as_nanos(interval));
        let is_late = self.overloaded && waited > as_nanos(target).saturating_mul(2);
        is_late.then(|| self.take(0)).flatten()
    }

    /// Removes and returns the next entry of those that `can_serve` accepts. All others keep their
    /// places.
    pub(crate) fn pop_if(&mut self, now: u64, mut can_serve: impl FnMut(&T) -> bool) -> Option<T> {
        let can_serve = |entry: &WaitEntry<T>| can_serve(&entry.what);
        let at = match self.is_reversed(now) {
            true => self.entries.iter().rposition(can_serve),
            false => self.entries.iter().position(can_serve),
        };
        self.take(at?)
    }

    /// Returns `true` if the newest entry is the next one.
    fn is_reversed(&self, now: u64) -> bool {
        let QueueDiscipline::LifoUnderOverload { after } = self.discipline else {
            return false;
        };
        let since = self.standing_since.unwrap_or(now);
        now.saturating_sub(since) > as_nanos(after)
    }

    fn take(&mut self, at: usize) -> Option<T> {
        let entry = self.entries.remove(at)?;
        self.note_empty();
        Some(entry.what)
    }

    /// Removes and returns the newest of the entries with the lowest rank, if that rank is below
    /// `rank`.
    pub(crate) fn remove_least(&mut self, rank_of: fn(&T) -> u8, rank: u8) -> Option<T> {
        let least = self
            .entries
            .iter()
            .map(|entry| rank_of(&entry.what))
            .min()?;
        if least >= rank {
            return None;
        }
        let newest = |entry: &WaitEntry<T>| rank_of(&entry.what) == least;
        let at = self.entries.iter().rposition(newest)?;
        self.take(at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.what)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if the order depends on how long entries have waited.
    pub(crate) fn is_timed(&self) -> bool {
        self.discipline != QueueDiscipline::Fifo
    }

    pub(crate) fn set_discipline(&mut self, discipline: QueueDiscipline) {
        self.discipline = discipline;
    }

    fn note_empty(&mut self) {
        if self.entries.is_empty() {
            self.standing_since = None;
        }
    }

    fn note_wait(&mut self, now: u64, waited: u64, target: u64, interval: u64) {
        if now >= self.interval_end {
            // After a rest of an interval, those before it say nothing about this queue.
            let rest = self.standing_since.unwrap_or(now);
            let rest = rest.saturating_sub(self.interval_end);
            let is_known = rest < interval && self.shortest != u64::MAX;
            self.overloaded = is_known && self.shortest > target;
            self.interval_end = now.saturating_add(interval);
            self.shortest = waited;
        } else {
            self.shortest = self.shortest.min(waited);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Each discipline serves the documented entry.

    use super::*;

    const MS: u64 = 1_000_000;

    fn serve(queue: &mut WaitQueue<u32>, now: u64) -> Option<u32> {
        match queue.pop(now)? {
            Next::Serve(entry) => Some(entry),
            Next::TurnAway(_) => None,
        }
    }

    #[test]
    fn fifo_serves_the_oldest() {
        let mut queue = WaitQueue::new(QueueDiscipline::Fifo);
        let ids: Vec<_> = (0..4).map(|n| queue.push(n.into(), n)).collect();
        assert_eq!(queue.remove(ids[1]), Some(1));
        assert_eq!(queue.remove(ids[1]), None);
        let served: Vec<_> = std::iter::from_fn(|| serve(&mut queue, 10 * MS)).collect();
        assert_eq!(served, [0, 2, 3]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_standing_queue_serves_the_newest() {
        let after = Duration::from_millis(5);
        let mut queue = WaitQueue::new(QueueDiscipline::LifoUnderOverload { after });
        for n in 0..4 {
            queue.push(0, n);
        }
        assert_eq!(serve(&mut queue, 5 * MS), Some(0), "not standing yet");
        assert_eq!(serve(&mut queue, 6 * MS), Some(3));
        assert_eq!(serve(&mut queue, 6 * MS), Some(2));
        assert_eq!(serve(&mut queue, 6 * MS), Some(1));
        for n in 0..2 {
            queue.push(7 * MS, n);
        }
        assert_eq!(
            serve(&mut queue, 8 * MS),
            Some(0),
            "it was empty in between"
        );
    }

    #[test]
    fn codel_rejects_long_waiters_only_under_overload() {
        let mut queue = WaitQueue::new(QueueDiscipline::codel());
        queue.push(0, 1);
        assert_eq!(
            serve(&mut queue, 50 * MS),
            Some(1),
            "one long wait is no overload"
        );
        // The shortest wait of the next interval is above the target too.
        queue.push(60 * MS, 2);
        assert_eq!(serve(&mut queue, 80 * MS), Some(2));
        queue.push(140 * MS, 3);
        queue.push(145 * MS, 4);
        queue.push(150 * MS, 5);
        let Some(Next::TurnAway(entry)) = queue.pop(151 * MS) else {
            panic!("it waited for 11 ms");
        };
        assert_eq!(entry, 3);
        assert_eq!(
            serve(&mut queue, 154 * MS),
            Some(4),
            "within twice the target"
        );
        assert_eq!(serve(&mut queue, 155 * MS), Some(5));
    }

    #[test]
    fn the_least_makes_room_for_what_matters_more() {
        let mut queue = WaitQueue::new(QueueDiscipline::Fifo);
        for entry in [(2_u8, 'a'), (1, 'b'), (3, 'c'), (1, 'd')] {
            queue.push(0, entry);
        }
        let mut least = |rank| queue.remove_least(|entry| entry.0, rank);
        assert_eq!(least(1), None, "no waiter is less critical");
        assert_eq!(least(2), Some((1, 'd')), "the last waiter has waited least");
        assert_eq!(least(9), Some((1, 'b')));
        assert_eq!(least(9), Some((2, 'a')));
    }

    #[test]
    fn entries_that_cannot_be_served_keep_their_places_and_the_time_of_the_queue() {
        let after = Duration::from_millis(5);
        for (discipline, now, order) in [
            (QueueDiscipline::Fifo, 6, [1, 3, 0, 2]),
            (
                QueueDiscipline::LifoUnderOverload { after },
                5,
                [1, 3, 0, 2],
            ),
            (
                QueueDiscipline::LifoUnderOverload { after },
                6,
                [3, 1, 2, 0],
            ),
        ] {
            let mut queue = WaitQueue::new(discipline);
            (0..4).for_each(|n| _ = queue.push(u64::from(n) * MS, n));
            let now = now * MS;
            assert_eq!(queue.pop_if(now, |_| false), None);
            let mut odd = || queue.pop_if(now, |n| n % 2 == 1);
            let served = [odd(), odd(), serve(&mut queue, now), serve(&mut queue, now)];
            assert_eq!(served, order.map(Some), "{discipline:?} at {now}");
        }
    }

    #[test]
    fn codel_judges_the_oldest_entry_even_if_it_cannot_be_served() {
        let mut queue = WaitQueue::new(QueueDiscipline::codel());
        (0..3).for_each(|n| _ = queue.push(n * 60 * MS, n));
        let mut turned_away = Vec::new();
        for now in [121, 160, 240, 320] {
            // A newer entry, which has not waited, is looked at each time.
            queue.push(now * MS, now);
            while let Some(late) = queue.pop_late(now * MS) {
                turned_away.push((now, late));
            }
        }
        let expected = [
            (240, 0),
            (240, 1),
            (240, 2),
            (240, 121),
            (240, 160),
            (320, 240),
        ];
        assert_eq!(turned_away, expected);
    }

    #[test]
    fn codel_forgets_an_overload_of_before_a_rest() {
        for (rest, turned_away) in [(60, true), (120, false), (3_600_000, false)] {
            let mut queue = WaitQueue::new(QueueDiscipline::codel());
            queue.push(0, 1);
            assert_eq!(
                serve(&mut queue, 50 * MS),
                Some(1),
                "the interval ends at 150"
            );
            let now = (150 + rest) * MS;
            queue.push(now - 20 * MS, 2);
            assert_eq!(serve(&mut queue, now).is_none(), turned_away, "{rest}");
        }
    }
}

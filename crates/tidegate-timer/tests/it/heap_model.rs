//! The heap behaves like a sorted map, under any sequence of operations.

use std::collections::BTreeMap;

use tidegate_testkit::{Counter, DropCount, Rng, model};
use tidegate_timer::TimerKey;
use tidegate_timer::heap::{Due, Heap};

/// The heap and a naive reference, which receive the same operations.
#[derive(Default)]
struct Pair {
    heap: Heap<u64>,
    /// By (deadline, sequence), the documented order of the heap.
    reference: BTreeMap<(u64, u64), (TimerKey, u64)>,
    /// Every key in the heap, with the deadline and sequence of its entry.
    live: Vec<(TimerKey, (u64, u64))>,
    /// Some stale keys.
    stale: Vec<TimerKey>,
    inserted: u64,
    now: u64,
}

impl Pair {
    fn insert(&mut self, rng: &mut Rng) {
        let deadline = self.deadline(rng);
        let value = rng.next_u64();
        let key = self.heap.insert(deadline, value);
        self.note(key, (deadline, self.inserted), value);
        self.inserted += 1;
    }

    fn pop(&mut self, rng: &mut Rng) {
        self.now = self.now.saturating_add(rng.below(4));
        let expected = self.reference.first_key_value();
        let expected = expected
            .filter(|&(&(deadline, _), _)| deadline <= self.now)
            .map(|(&order, &(key, value))| (order, key, value));
        let due = self.heap.pop_due(self.now);
        let found = due.map(|due| ((due.deadline, due.sequence), due.value));
        assert_eq!(found, expected.map(|(order, _, value)| (order, value)));

        let (Some(due), Some((order, key, _))) = (due, expected) else {
            return;
        };
        self.reference.remove(&order);
        self.forget(key, rng);
        if rng.chance(0.3) {
            self.reinsert(due, rng);
        }
    }

    fn reinsert(&mut self, due: Due<u64>, rng: &mut Rng) {
        let deadline = self.deadline(rng);
        let key = self.heap.reinsert(deadline, due.sequence, due.value);
        self.note(key, (deadline, due.sequence), due.value);
    }

    fn remove(&mut self, rng: &mut Rng) {
        if self.live.is_empty() {
            return;
        }
        let (key, order) = self.live.swap_remove(rng.index(self.live.len()));
        let expected = self.reference.remove(&order).map(|(_, value)| value);
        assert_eq!(self.heap.get(key).copied(), expected);
        assert_eq!(self.heap.remove(key), expected);
        self.stale.push(key);
    }

    fn use_stale_key(&mut self, rng: &mut Rng) {
        if self.stale.is_empty() {
            return;
        }
        let key = self.stale[rng.index(self.stale.len())];
        assert_eq!(self.heap.get(key), None);
        assert_eq!(self.heap.remove(key), None);
    }

    fn drain(&mut self) {
        let found = self
            .heap
            .drain()
            .map(|due| ((due.deadline, due.sequence), due.value));
        let expected = std::mem::take(&mut self.reference);
        assert!(
            found.eq(expected
                .into_iter()
                .map(|(order, (_, value))| (order, value)))
        );
        self.stale.extend(self.live.drain(..).map(|(key, _)| key));
    }

    fn compare(&self) {
        let first = self.reference.first_key_value();
        let first = first.map(|(&(deadline, _), (_, value))| (deadline, value));
        assert_eq!(self.heap.peek(), first);
        assert_eq!(
            self.heap.next_deadline(),
            first.map(|(deadline, _)| deadline)
        );
        assert_eq!(self.heap.len(), self.reference.len());
        assert_eq!(self.heap.is_empty(), self.reference.is_empty());
    }

    /// Returns one of few different deadlines, so that equal ones are common; sometimes the far
    /// future.
    fn deadline(&self, rng: &mut Rng) -> u64 {
        match rng.below(50) {
            0 => u64::MAX,
            1 => self.now.saturating_sub(rng.below(10)),
            _ => self.now.saturating_add(rng.below(100)),
        }
    }

    fn note(&mut self, key: TimerKey, order: (u64, u64), value: u64) {
        assert!(self.reference.insert(order, (key, value)).is_none());
        self.live.push((key, order));
    }

    fn forget(&mut self, key: TimerKey, rng: &mut Rng) {
        self.live.retain(|&(live, _)| live != key);
        if rng.chance(0.2) {
            self.stale.push(key);
        }
    }
}

/// Alternates between phases that fill and phases that empty, so that the heap both grows and
/// trims.
fn run(rng: &mut Rng, operations: u64) {
    let mut pair = Pair::default();
    let mut filling = true;
    for _ in 0..operations {
        if rng.chance(0.004) {
            filling = !filling;
        }
        let insert = if filling { 60 } else { 15 };
        match rng.below(100) {
            99 if rng.chance(0.02) => pair.drain(),
            90.. => pair.use_stale_key(rng),
            dice if dice < insert => pair.insert(rng),
            dice if dice % 2 == 0 => pair.pop(rng),
            _ => pair.remove(rng),
        }
        pair.compare();
    }
    pair.drain();
    pair.compare();
}

#[test]
fn the_heap_agrees_with_a_sorted_map() {
    model(0..20, |rng| run(rng, 10_000));
}

#[test]
fn every_value_is_dropped_exactly_once() {
    model(0..20, |rng| {
        let drops = Counter::new();
        let mut heap = Heap::new();
        let mut keys: Vec<_> = (0..500)
            .map(|_| heap.insert(rng.below(100), DropCount::new(&drops)))
            .collect();
        rng.shuffle(&mut keys);
        for key in keys.drain(..200) {
            assert!(heap.remove(key).is_some());
        }
        assert_eq!(drops.count(), 200);
        while heap.pop_due(50).is_some() {}
        assert_eq!(drops.count() as usize, 500 - heap.len());
        drop(heap);
        assert_eq!(drops.count(), 500);
    });
}

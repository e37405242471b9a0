//! The wheel behaves like a sorted map, under any sequence of operations.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_testkit::{Counter, DropCount, Rng, model, short_or_long};
use tidegate_timer::TimerKey;
use tidegate_timer::wheel::Wheel;

/// One step of a script; the numbers select among the existing entries.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64),
    Remove(usize),
    Reset(usize, u64),
    UseStaleKey(usize),
    Advance(u64),
    /// Advances the time and takes at most this many entries, as an event loop with a budget does.
    Pop(u64, usize),
    Drain,
}

/// The wheel and a naive reference, which receive the same operations.
struct Pair {
    wheel: Wheel<u64>,
    tick: u64,
    /// Key, expected deadline and due time of each entry, by number.
    reference: BTreeMap<u64, (TimerKey, u64, u64)>,
    stale: Vec<TimerKey>,
    added: u64,
    now: u64,
}

impl Pair {
    fn new(tick: u64, slots: usize) -> Self {
        let wheel = Wheel::new(Duration::from_nanos(tick), slots);
        Self {
            wheel: wheel.expect("a sound geometry"),
            tick,
            reference: BTreeMap::new(),
            stale: Vec::new(),
            added: 0,
            now: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Insert(after) => self.insert(after),
            Step::Remove(which) => self.remove(which),
            Step::Reset(which, after) => self.reset(which, after),
            Step::UseStaleKey(which) => self.use_stale_key(which),
            Step::Advance(by) => self.pop(by, usize::MAX),
            Step::Pop(by, most) => self.pop(by, most),
            Step::Drain => self.drain(),
        }
        self.compare();
    }

    fn insert(&mut self, after: u64) {
        let deadline = self.now.saturating_add(after);
        let key = self.wheel.insert(deadline, self.added);
        let known = self.known(deadline);
        self.reference
            .insert(self.added, (key, known, self.due(deadline)));
        self.added += 1;
    }

    fn remove(&mut self, which: usize) {
        let Some((number, key)) = self.pick(which) else {
            return;
        };
        assert_eq!(self.wheel.get(key), Some(&number));
        assert_eq!(self.wheel.remove(key), Some(number));
        self.forget(number);
    }

    fn reset(&mut self, which: usize, after: u64) {
        let Some((number, key)) = self.pick(which) else {
            return;
        };
        let deadline = self.now.saturating_add(after);
        assert!(self.wheel.reset(key, deadline));
        let (known, due) = (self.known(deadline), self.due(deadline));
        assert_eq!(self.wheel.deadline(key), Some(known));
        self.reference.insert(number, (key, known, due));
    }

    fn use_stale_key(&mut self, which: usize) {
        if let Some(&key) = self.stale.get(which % self.stale.len().max(1)) {
            assert_eq!(self.wheel.get(key), None);
            assert_eq!(self.wheel.remove(key), None);
            assert!(!self.wheel.reset(key, self.now));
        }
    }

    /// Advances the time and checks that exactly the due entries come out, in the order of their
    /// ticks.
    fn pop(&mut self, by: u64, most: usize) {
        self.now = self.now.saturating_add(by);
        let mut last = 0;
        for _ in 0..most {
            let Some(expired) = self.wheel.pop_due(self.now) else {
                assert!(
                    self.reference.values().all(|&(_, _, due)| due > self.now),
                    "something is due and did not come"
                );
                return;
            };
            let (_, deadline, due) = self.reference[&expired.value];
            assert_eq!(expired.deadline, deadline);
            assert!(deadline <= self.now, "early");
            assert!(due <= self.now && due >= last, "out of order");
            last = due;
            self.forget(expired.value);
        }
    }

    fn drain(&mut self) {
        let found: Vec<_> = self.wheel.drain().collect();
        assert!(found.is_sorted_by_key(|entry| entry.deadline));
        assert_eq!(found.len(), self.reference.len());
        for entry in found {
            assert_eq!(self.reference[&entry.value].1, entry.deadline);
            self.forget(entry.value);
        }
    }

    fn compare(&mut self) {
        assert_eq!(self.wheel.len(), self.reference.len());
        assert_eq!(self.wheel.is_empty(), self.reference.is_empty());
        // If an entry is already due, any time in the past is correct.
        let earliest = self.reference.values().map(|&(_, _, due)| due).min();
        let earliest = earliest.map(|due| due.max(self.now));
        let next = self.wheel.next_deadline();
        assert_eq!(next.is_some(), earliest.is_some());
        assert!(next <= earliest, "the owner would sleep too long");
    }

    /// Returns the end of the first tick that ends neither before the deadline nor before now.
    fn due(&self, deadline: u64) -> u64 {
        let next = self.now / self.tick + 1;
        let tick = deadline.div_ceil(self.tick);
        tick.max(next).saturating_mul(self.tick)
    }

    /// Returns the deadline that the wheel reports: the first moment of the next tick if it has
    /// passed.
    fn known(&self, deadline: u64) -> u64 {
        let next = self.now / self.tick + 1;
        if deadline.div_ceil(self.tick) < next {
            (next - 1) * self.tick + 1
        } else {
            deadline
        }
    }

    fn pick(&self, which: usize) -> Option<(u64, TimerKey)> {
        let at = which % self.reference.len().max(1);
        let (&number, &(key, ..)) = self.reference.iter().nth(at)?;
        Some((number, key))
    }

    fn forget(&mut self, number: u64) {
        let (key, ..) = self.reference.remove(&number).expect("it was there");
        self.stale.push(key);
    }
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..200_u64,
        4 => 0..100_000_u64,
        2 => 0..10_000_000_000_u64,
        1 => Just(0),
        1 => Just(u64::MAX),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => delay().prop_map(Step::Insert),
        3 => any::<usize>().prop_map(Step::Remove),
        3 => (any::<usize>(), delay()).prop_map(|(which, after)| Step::Reset(which, after)),
        1 => any::<usize>().prop_map(Step::UseStaleKey),
        3 => (0..30_000_u64).prop_map(Step::Advance),
        1 => (0..5_000_000_000_u64).prop_map(Step::Advance),
        2 => (0..100_000_u64, 1..10_usize).prop_map(|(by, most)| Step::Pop(by, most)),
        1 => Just(Step::Drain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: short_or_long(128, 20_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_wheel_agrees_with_a_sorted_map(
        tick in prop_oneof![Just(1_u64), Just(10), Just(1_000), 1..5_000_u64],
        slots in prop_oneof![Just(1_usize), Just(8), Just(64), Just(512), 1..3_000_usize],
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut pair = Pair::new(tick, slots);
        for step in steps {
            pair.step(step);
        }
        pair.step(Step::Advance(u64::MAX));
        prop_assert!(pair.wheel.is_empty(), "everything is due at the end of time");
    }
}

/// Simulates a year, in the steps in which an event loop would wake up.
#[test]
fn a_year_passes_in_a_second() {
    const MS: u64 = 1_000_000;
    const YEAR: u64 = 365 * 24 * 3600 * 1000 * MS;
    model(0..2, |rng| {
        let mut pair = Pair::new(100 * MS, 512);
        for _ in 0..200 {
            pair.step(Step::Insert(rng.below(YEAR)));
        }
        let mut looks = 0;
        while let Some(next) = pair.wheel.next_deadline() {
            looks += 1;
            let by = next.saturating_sub(pair.now);
            pair.step(Step::Advance(by));
            if rng.chance(0.3) && pair.now < YEAR {
                pair.step(Step::Insert(rng.below(3600 * 1000 * MS)));
            }
        }
        assert!(pair.now >= YEAR - YEAR / 10);
        let fired = pair.added as u32;
        assert!(looks <= fired + 1, "{looks} looks for {fired} timeouts");
    });
}

#[test]
fn every_value_is_dropped_exactly_once() {
    model(0..10, |rng: &mut Rng| {
        let drops = Counter::new();
        let mut wheel = Wheel::new(Duration::from_nanos(10), 64).expect("a sound geometry");
        let mut keys: Vec<_> = (0..2_000)
            .map(|_| wheel.insert(rng.below(20_000), DropCount::new(&drops)))
            .collect();
        rng.shuffle(&mut keys);
        for key in keys.drain(..800) {
            assert!(wheel.remove(key).is_some());
        }
        assert_eq!(drops.count(), 800);
        while wheel.pop_due(10_000).is_some() {}
        assert_eq!(drops.count() as usize, 2_000 - wheel.len());
        drop(wheel);
        assert_eq!(drops.count(), 2_000);
    });
}

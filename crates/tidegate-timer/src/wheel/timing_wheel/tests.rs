//! Tests of private state: sizes, pages, generations, and the order within a tick.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::key::{MAX_RETURNED_GENERATION, RETIRED_GENERATION};
use crate::wheel::entry::{Entry, State};
use crate::wheel::pages::KEPT;

fn wheel(tick: u64, slots: usize) -> Wheel<u64> {
    Wheel::new(Duration::from_nanos(tick), slots).expect("a sound geometry")
}

impl<T> Wheel<T> {
    fn values_due(&mut self, now: u64) -> Vec<T> {
        std::iter::from_fn(|| self.pop_due(now).map(|expired| expired.value)).collect()
    }
}

impl<T> Wheel<T> {
    /// Checks every invariant of the module header.
    fn check(&mut self) {
        self.release_cancelled();
        assert!(self.levels.current <= self.seen);
        let is_there = |slot, place| self.entries.is_there(slot, place);
        let ends = self.ready.iter();
        let ends = ends.filter(|item| matches!(item, Item::End { .. })).count();
        let places = self.levels.lists.check(ends, is_there);
        let ready = self.ready.iter().filter(|&item| match item {
            Item::Entry { slot, place } => is_there(slot, place),
            Item::End { .. } => false,
        });
        assert_eq!(places.len() + ready.count(), self.len);
        self.entries.check(self.len);
        for (at, list, slot) in places {
            let live = self.entries.get(slot).and_then(Entry::live);
            let live = live.expect("a listed entry is live");
            assert_eq!(live.place, at);
            // Some of the entries that are due now may still be in the list of their tick.
            let right = self.levels.list_at(live.deadline);
            assert!(list == right || right == self.levels.lists.due_list() && self.more);
        }
    }
}

#[test]
fn an_entry_is_half_a_line_and_a_chunk_is_two() {
    assert_eq!(size_of::<Entry<(u64, u64)>>(), 32);
    assert_eq!(size_of::<Entry<Box<dyn FnOnce()>>>(), 32);
    assert_eq!(size_of::<Entry<[u64; 5]>>(), 64);
    assert_eq!(size_of::<crate::wheel::lists::Chunk>(), 128);
}

#[test]
fn bad_geometry_is_an_error_value() {
    let tick = Duration::from_millis(1);
    let new = |tick, slots| Wheel::<()>::new(tick, slots).map(|wheel| wheel.slots());
    assert_eq!(new(Duration::ZERO, 1), Err(WheelError::ZeroTick));
    assert_eq!(new(tick, 0), Err(WheelError::ZeroSlots));
    let slots = usize::MAX;
    assert_eq!(new(tick, slots), Err(WheelError::TooManySlots { slots }));
    for tick in [Duration::MAX, Duration::from_nanos(u64::MAX / 512)] {
        let refused = WheelError::TurnTooLong { tick, slots: 512 };
        assert_eq!(new(tick, 512), Err(refused));
    }
    assert_eq!(new(tick, 500), Ok(512));
    assert_eq!(new(tick, 1), Ok(1));
}

#[test]
fn is_never_early_and_less_than_a_tick_late() {
    for slots in [1, 2, 64, 512] {
        for deadline in [1, 9, 10, 11, 639, 640, 5_119, 5_120, 5_121, 12_345_678] {
            let mut wheel = wheel(10, slots);
            wheel.insert(deadline, 7);
            let due = wheel.next_deadline().expect("one waits");
            assert!(due >= deadline && due < deadline + 10, "{deadline}: {due}");
            assert!(wheel.pop_due(due - 1).is_none());
            wheel.check();
            assert_eq!(wheel.values_due(due), [7]);
        }
    }
}

#[test]
fn far_deadlines_saturate_and_are_due_at_the_end_of_time() {
    for tick in [1, 10, 1_000_000_007] {
        let mut wheel = wheel(tick, 512);
        wheel.insert(u64::MAX, 1);
        wheel.insert(u64::MAX - 1, 2);
        assert_eq!(wheel.pop_due(u64::MAX - 1 - tick), None);
        wheel.check();
        assert!(wheel.next_deadline() >= Some(u64::MAX - 1));
        assert_eq!(wheel.values_due(u64::MAX).len(), 2);
        wheel.insert(0, 3);
        assert_eq!(wheel.values_due(u64::MAX), [3], "time has ended");
        wheel.check();
    }
}

#[test]
fn a_past_deadline_is_due_at_the_next_tick() {
    let mut wheel = wheel(10, 64);
    assert!(wheel.pop_due(1_005).is_none());
    wheel.insert(0, 1);
    wheel.insert(1_004, 2);
    assert_eq!(wheel.next_deadline(), Some(1_010));
    assert!(wheel.pop_due(1_009).is_none());
    assert_eq!(wheel.values_due(1_010), [1, 2]);
}

#[test]
fn a_tick_fires_in_the_order_of_addition() {
    let mut wheel = wheel(10, 64);
    // From a far level, from a nearer one, and from the same level: all for one tick.
    for value in 0..40 {
        wheel.insert(50_000, value);
    }
    wheel.pop_due(40_000);
    wheel.insert(49_999, 40);
    wheel.pop_due(49_900);
    wheel.insert(49_995, 41);
    assert_eq!(wheel.values_due(50_000), (0..42).collect::<Vec<_>>());
}

#[test]
fn missed_ticks_are_made_up_in_order() {
    let mut wheel = wheel(10, 16);
    for value in [5_000, 20, 90_000_000, 300, 160, 170] {
        wheel.insert(value, value);
    }
    assert_eq!(
        wheel.values_due(90_000_000),
        [20, 160, 170, 300, 5_000, 90_000_000]
    );
}

#[test]
fn what_runs_between_two_pops_may_change_everything() {
    let mut wheel = wheel(10, 64);
    let keys: Vec<_> = (0..100).map(|value| wheel.insert(10, value)).collect();
    assert_eq!(wheel.pop_due(10).map(|first| first.value), Some(0));
    assert_eq!(wheel.remove(keys[1]), Some(1));
    assert!(wheel.reset(keys[2], 30));
    wheel.insert(10, 100);
    wheel.check();
    assert_eq!(wheel.values_due(10), (3..100).collect::<Vec<_>>());
    assert_eq!(wheel.values_due(20), [100]);
    assert_eq!(wheel.values_due(30), [2]);
    assert!(wheel.is_empty());
}

#[test]
fn what_was_cancelled_when_ready_does_not_come_back_as_another() {
    let mut wheel = wheel(10, 64);
    let keys: Vec<_> = (0..100).map(|value| wheel.insert(10, value)).collect();
    assert!(wheel.pop_due(10).is_some());
    for &key in &keys[1..] {
        wheel.remove(key);
    }
    wheel.check();
    assert_eq!(wheel.next_deadline(), None, "nothing is left, ready or not");
    // The new entries get the same cells and the same places in a list.
    for value in 0..200 {
        wheel.insert(30, value);
    }
    assert!(wheel.pop_due(20).is_none());
    wheel.check();
    assert_eq!(wheel.values_due(30).len(), 200);
}

#[test]
fn a_tick_of_many_is_made_ready_piece_by_piece() {
    let mut wheel = wheel(10, 64);
    for value in 0..1_000 {
        wheel.insert(10, value);
    }
    for value in 0..500 {
        assert_eq!(wheel.pop_due(10).map(|due| due.value), Some(value));
        wheel.check();
    }
    assert_eq!(wheel.next_deadline(), Some(10), "the others are due too");
    let last = wheel.insert(20, 1_000);
    assert!(wheel.reset(last, 15), "while a list is half taken");
    assert_eq!(wheel.values_due(20), (500..=1_000).collect::<Vec<_>>());
}

#[test]
fn in_a_large_wheel_what_comes_up_together_lies_together() {
    let mut wheel = wheel(10, 64);
    let far = [100_000, 200_000];
    let mut pages = [BTreeSet::new(), BTreeSet::new()];
    for value in 0..2 * GROUPED as u64 {
        let which = value as usize % 2;
        let key = wheel.insert(far[which], value);
        if value >= GROUPED as u64 {
            pages[which].insert(key.slot as usize / CELLS);
        }
    }
    wheel.check();
    assert!(pages[0].is_disjoint(&pages[1]));
    assert!(pages[0].len() <= GROUPED / 2 / CELLS + 1);
    assert_eq!(wheel.values_due(200_000).len(), 2 * GROUPED);
    wheel.check();
}

#[test]
fn the_owner_gets_the_exact_tick_of_a_far_entry() {
    let mut wheel = wheel(10, 64);
    let far = wheel.insert(1_000_001, 1);
    let farther = wheel.insert(1_000_500, 2);
    assert_eq!(wheel.next_deadline(), Some(1_000_010));
    wheel.remove(far);
    assert!(wheel.next_deadline() <= Some(1_000_500));
    assert!(wheel.pop_due(1_000_010).is_none());
    assert_eq!(wheel.next_deadline(), Some(1_000_500));
    wheel.remove(farther);
    assert_eq!(wheel.next_deadline(), None);
}

#[test]
fn reset_works_in_place_across_lists_and_on_what_is_due() {
    let mut wheel = wheel(10, 64);
    let key = wheel.insert(100_000, 1);
    assert!(wheel.reset(key, 100_001), "in place");
    wheel.check();
    assert!(wheel.reset(key, 99_000));
    assert_eq!(wheel.next_deadline(), Some(99_000));
    wheel.insert(20, 2);
    assert!(wheel.reset(key, 20));
    wheel.check();
    assert_eq!(wheel.pop_due(20).map(|due| due.value), Some(2));
    assert!(wheel.reset(key, 40), "due, and not yet taken");
    assert_eq!(wheel.deadline(key), Some(40));
    wheel.check();
    assert!(wheel.pop_due(30).is_none());
    assert_eq!(wheel.values_due(40), [1]);
    assert!(!wheel.reset(key, 50));
}

#[test]
fn a_stale_key_finds_nothing_after_its_cell_is_used_again() {
    let mut wheel = wheel(10, 64);
    let old = wheel.insert(10, 1);
    assert_eq!(wheel.remove(old), Some(1));
    assert_eq!(wheel.remove(old), None, "before its cell is free");
    assert_eq!(wheel.next_deadline(), None);
    let new = wheel.insert(10, 2);
    assert_eq!(new.slot, old.slot);
    assert_eq!(wheel.get(old), None);
    assert_eq!(wheel.remove(old), None);
    assert!(!wheel.reset(old, 20) && wheel.get_mut(old).is_none());
    *wheel.get_mut(new).expect("live") = 3;
    assert_eq!(wheel.get(new), Some(&3));
}

#[test]
fn a_peak_is_given_back_and_its_keys_stay_stale() {
    let mut wheel = wheel(10, 64);
    let mut old = Vec::new();
    for round in 0..3 {
        let keys: Vec<_> = (0..20 * CELLS as u64)
            .map(|value| wheel.insert(value * 10, value))
            .collect();
        assert!(wheel.entries.in_memory() >= 20);
        for &key in &keys {
            assert!(wheel.remove(key).is_some(), "round {round}");
        }
        wheel.check();
        for turn in 1..5 {
            assert!(wheel.pop_due((round * 5 + turn) * 10).is_none());
        }
        wheel.check();
        assert!(wheel.entries.in_memory() <= KEPT);
        assert!(wheel.levels.lists.pages_in_memory() <= KEPT);
        old.extend(keys);
    }
    for value in 0..20 * CELLS as u64 {
        wheel.insert(value, value);
    }
    assert!(old.iter().all(|&key| wheel.get(key).is_none()));
}

#[test]
fn cancellations_are_settled_when_many_wait() {
    let mut wheel = wheel(10, 64);
    for value in 0..10_000 {
        let key = wheel.insert(1_000_000, value);
        assert_eq!(wheel.remove(key), Some(value));
        assert!(wheel.is_empty() && wheel.get(key).is_none());
    }
    assert_eq!(wheel.entries.in_memory(), 1);
    assert_eq!(wheel.levels.lists.pages_in_memory(), 1);
    wheel.check();
}

#[test]
fn a_cell_without_further_generations_is_retired() {
    let mut wheel = wheel(10, 64);
    let first = wheel.insert(10, 1);
    wheel.remove(first);
    wheel.release_cancelled();
    if let Some(Entry(State::Free { generation, .. })) = wheel.entries.get_mut(first.slot) {
        *generation = RETIRED_GENERATION.get() - 1;
    }
    let last = wheel.insert(10, 2);
    assert_eq!(
        (last.slot, last.generation.get()),
        (first.slot, RETIRED_GENERATION.get() - 1)
    );
    assert_eq!(wheel.remove(last), Some(2));
    wheel.release_cancelled();
    assert_ne!(wheel.insert(10, 3).slot, first.slot);
    wheel.check();
    assert!(MAX_RETURNED_GENERATION < RETIRED_GENERATION);
}

#[test]
fn add_and_cancel_in_one_slot_need_few_chunks() {
    let mut wheel = wheel(10, 64);
    wheel.insert(10, 0);
    for value in 0..10_000 {
        let key = wheel.insert(10, value);
        wheel.remove(key);
    }
    wheel.check();
    assert_eq!((wheel.len(), wheel.levels.lists.pages_in_memory()), (1, 1));
}

#[test]
fn a_drain_is_by_deadline_and_leaves_a_usable_wheel() {
    let mut wheel = wheel(10, 64);
    for deadline in [70_000, 10, 9, 640, 20] {
        wheel.insert(deadline, deadline);
    }
    assert_eq!(wheel.pop_due(10).map(|due| due.value), Some(10));
    let drain = wheel.drain();
    wheel.check();
    wheel.insert(50, 50);
    let left: Vec<_> = drain.map(|entry| entry.value).collect();
    assert_eq!(left, [9, 20, 640, 70_000]);
    assert_eq!(wheel.values_due(50), [50]);
}

#[test]
fn values_are_warmed_before_they_fire() {
    use std::cell::Cell;
    thread_local!(static WARMED: Cell<u64> = const { Cell::new(0) });
    let mut wheel = wheel(10, 64).prefetch_with(|_| WARMED.set(WARMED.get() + 1));
    for value in 0..120 {
        wheel.insert(10 + value, value);
    }
    assert_eq!(wheel.values_due(10_000).len(), 120);
    assert!(WARMED.get() >= 60);
}

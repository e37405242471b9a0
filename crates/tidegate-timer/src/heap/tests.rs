//! Tests of the documented behaviour of the heap, and of its private invariants.

use super::slab::MIN_CAPACITY;
use super::{ARITY, Heap};
use crate::key::{Generation, MAX_RETURNED_GENERATION, RETIRED_GENERATION, TimerKey};

impl<T> Heap<T> {
    /// Checks the invariants that the file headers state.
    fn check(&self) {
        for (position, item) in self.items.iter().enumerate() {
            let parent = &self.items[position.saturating_sub(1) / ARITY];
            assert!(parent.order() <= item.order(), "the tree is out of order");
            assert!(item.sequence < self.next_sequence);
            assert_eq!(self.slab.position_of(item.slot), Some(position));
        }
        self.slab.check(self.items.len());
    }

    fn values_due(&mut self, now: u64) -> Vec<T> {
        std::iter::from_fn(|| self.pop_due(now))
            .map(|due| due.value)
            .collect()
    }
}

#[test]
fn an_empty_heap_has_nothing() {
    let mut heap = Heap::<u8>::default();
    assert_eq!((heap.len(), heap.is_empty()), (0, true));
    assert_eq!(heap.peek(), None);
    assert_eq!(heap.next_deadline(), None);
    assert_eq!(heap.pop_due(u64::MAX), None);
    assert_eq!(heap.drain().count(), 0);
    heap.check();
}

#[test]
fn earlier_deadlines_come_first() {
    let mut heap = Heap::new();
    for deadline in [50, 10, 40, 0, 20, 30] {
        heap.insert(deadline, deadline);
        heap.check();
    }
    assert_eq!(heap.values_due(u64::MAX), [0, 10, 20, 30, 40, 50]);
}

#[test]
fn equal_deadlines_come_in_order_of_insertion() {
    let mut heap = Heap::new();
    for value in 0..100 {
        heap.insert(7, value);
    }
    assert!(heap.values_due(7).into_iter().eq(0..100));
}

#[test]
fn an_entry_is_due_at_its_deadline_and_not_before() {
    let mut heap = Heap::new();
    heap.insert(10, ());
    assert!(heap.pop_due(9).is_none());
    assert_eq!(heap.len(), 1);
    assert!(heap.pop_due(10).is_some());
}

#[test]
fn the_maximum_is_a_deadline_like_any_other() {
    let mut heap = Heap::new();
    heap.insert(u64::MAX, "far");
    heap.insert(u64::MAX - 1, "near");
    assert_eq!(heap.next_deadline(), Some(u64::MAX - 1));
    assert_eq!(heap.values_due(u64::MAX - 1), ["near"]);
    assert_eq!(heap.values_due(u64::MAX), ["far"]);
}

#[test]
fn a_reinserted_entry_keeps_its_place_among_equals() {
    let mut heap = Heap::new();
    heap.insert(10, "periodic");
    heap.insert(20, "old");
    let due = heap.pop_due(10).expect("it is due");
    heap.insert(20, "new");
    heap.reinsert(20, due.sequence, due.value);
    heap.check();
    assert_eq!(heap.values_due(20), ["periodic", "old", "new"]);
}

#[test]
fn an_entry_inserted_again_goes_behind_its_equals() {
    let mut heap = Heap::new();
    heap.insert(10, "again");
    heap.insert(20, "old");
    let due = heap.pop_due(10).expect("it is due");
    heap.insert(20, due.value);
    assert_eq!(heap.values_due(20), ["old", "again"]);
}

#[test]
#[should_panic(expected = "a sequence must come from this heap: 1 was never given out")]
fn a_sequence_never_given_out_is_refused() {
    let mut heap = Heap::new();
    heap.insert(10, ());
    heap.reinsert(10, 1, ());
}

#[test]
fn a_sequence_used_twice_leaves_the_heap_whole() {
    let mut heap = Heap::new();
    let first = heap.insert(10, 'a');
    let second = heap.reinsert(10, 0, 'b');
    heap.check();
    assert_eq!(heap.remove(first), Some('a'));
    assert_eq!(heap.remove(second), Some('b'));
    heap.check();
}

#[test]
fn any_entry_can_be_removed_and_the_rest_stays_in_order() {
    const ENTRIES: u64 = 40;
    for victim in 0..ENTRIES {
        let mut heap = Heap::new();
        let deadline = |value: u64| value * 17 % ENTRIES;
        let keys: Vec<_> = (0..ENTRIES)
            .map(|value| heap.insert(deadline(value), deadline(value)))
            .collect();
        assert_eq!(heap.remove(keys[victim as usize]), Some(deadline(victim)));
        heap.check();
        let rest = (0..ENTRIES).filter(|&other| other != deadline(victim));
        assert!(heap.values_due(u64::MAX).into_iter().eq(rest));
    }
}

#[test]
fn a_replacement_from_another_branch_may_rise() {
    // The last leaf is below an early parent, the removed item below a late one.
    let mut heap = Heap::new();
    let mut keys = Vec::new();
    for deadline in [
        0, 100, 1, 2, 3, 101, 102, 103, 104, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33,
    ] {
        keys.push(heap.insert(deadline, deadline));
    }
    heap.check();
    assert_eq!(heap.items[5].deadline, 101);
    assert_eq!(heap.remove(keys[5]), Some(101));
    assert_eq!(heap.items[1].deadline, 33, "the last leaf rose to the top");
    heap.check();
}

#[test]
fn a_key_is_stale_once_its_entry_has_left() {
    let mut heap = Heap::new();
    let fired = heap.insert(10, "fired");
    let removed = heap.insert(20, "removed");
    let drained = heap.insert(30, "drained");
    assert_eq!(heap.get(drained), Some(&"drained"));

    heap.pop_due(10);
    heap.remove(removed);
    assert_eq!(heap.drain().count(), 1);
    let again = [10, 20, 30].map(|deadline| heap.insert(deadline, "again"));
    for key in [fired, removed, drained] {
        assert_eq!(heap.get(key), None);
        assert_eq!(heap.remove(key), None);
    }
    for key in again {
        assert_eq!(heap.remove(key), Some("again"));
    }
}

#[test]
fn a_drain_is_in_order_and_leaves_a_usable_heap() {
    let mut heap = Heap::new();
    for deadline in [30, 10, 20, 10] {
        heap.insert(deadline, heap.len());
    }
    let drain = heap.drain();
    heap.check();
    assert_eq!((heap.len(), drain.len()), (0, 4));
    heap.insert(5, 4);

    let left: Vec<_> = drain
        .map(|due| (due.deadline, due.sequence, due.value))
        .collect();
    assert_eq!(left, [(10, 1, 1), (10, 3, 3), (20, 2, 2), (30, 0, 0)]);
    assert_eq!(heap.pop_due(5).map(|due| due.sequence), Some(4));
}

#[test]
#[cfg_attr(
    any(tidegate_sanitize, miri),
    ignore = "what a forgotten drain holds is left behind"
)]
fn a_forgotten_drain_leaves_the_heap_whole() {
    let mut heap = Heap::new();
    let key = heap.insert(10, 'a');
    std::mem::forget(heap.drain());
    assert_eq!(heap.remove(key), None);
    heap.insert(10, 'b');
    heap.check();
}

#[test]
fn dropping_the_heap_drops_what_is_in_it() {
    let value = std::rc::Rc::new(());
    let mut heap = Heap::new();
    let key = heap.insert(1, value.clone());
    heap.insert(2, value.clone());
    heap.insert(3, value.clone());
    heap.remove(key);
    assert_eq!(std::rc::Rc::strong_count(&value), 3);
    drop(heap);
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
}

#[test]
fn small_heaps_keep_their_memory() {
    let mut heap = Heap::new();
    for _ in 0..3 {
        for value in 0..MIN_CAPACITY as u64 {
            heap.insert(value, value);
        }
        let before = heap.slab.size();
        assert_eq!(heap.values_due(u64::MAX).len(), MIN_CAPACITY);
        assert_eq!(heap.slab.size(), before);
    }
}

#[test]
fn a_burst_is_given_back_when_it_has_fired() {
    let mut heap = Heap::new();
    for value in 0..10_000 {
        heap.insert(value, value);
    }
    while heap.pop_due(u64::MAX).is_some() {
        if heap.len() % 100 == 0 {
            heap.check();
        }
    }
    assert!(heap.slab.size().1 <= MIN_CAPACITY);
    assert!(heap.items.capacity() <= MIN_CAPACITY);
}

#[test]
fn a_burst_is_given_back_when_it_was_cancelled() {
    let mut heap = Heap::new();
    heap.insert(u64::MAX, 0);
    let keys: Vec<_> = (0..10_000).map(|value| heap.insert(5, value)).collect();
    for key in keys.into_iter().rev() {
        assert!(heap.remove(key).is_some());
    }
    heap.check();
    assert_eq!(heap.len(), 1);
    assert!(heap.slab.size().1 <= MIN_CAPACITY);
    assert!(heap.items.capacity() <= MIN_CAPACITY);
}

#[test]
fn periodic_entries_that_hold_the_tail_move_to_the_front() {
    const BURST: u64 = 1_000;
    let mut heap = Heap::new();
    for value in 0..BURST {
        heap.insert(0, value);
    }
    for value in BURST..BURST + 3 {
        heap.insert(1, value);
    }
    for _ in 0..BURST {
        heap.pop_due(0);
    }
    assert!(heap.slab.size().0 > BURST as usize, "the tail is held");

    // Three rounds of as many removals as there are slots: one round for each entry.
    for now in 1..=4 * BURST {
        let due = heap.pop_due(now).expect("one of three is due");
        heap.reinsert(now + 1, due.sequence, due.value);
    }
    heap.check();
    assert_eq!(heap.len(), 3);
    assert!(heap.slab.size().1 <= MIN_CAPACITY);
}

#[test]
fn a_key_stays_stale_when_its_slot_was_given_back_and_made_again() {
    let mut heap = Heap::new();
    let mut old = Vec::new();
    for _ in 0..3 {
        let keys: Vec<_> = (0..500).map(|value| heap.insert(1, value)).collect();
        for &key in &keys {
            heap.remove(key);
        }
        assert!(heap.slab.size().0 <= MIN_CAPACITY);
        old.extend(keys);
    }
    for value in 0..500 {
        heap.insert(1, value);
    }
    assert!(old.iter().all(|&key| heap.get(key).is_none()));
    heap.check();
}

#[test]
fn a_slot_without_further_generations_is_retired() {
    let mut heap = Heap::new();
    let first = heap.insert(1, 'a');
    heap.remove(first);
    let last = Generation::new(RETIRED_GENERATION.get() - 1).expect("it is not zero");
    heap.slab.age(first.slot, last);

    let key = heap.insert(1, 'b');
    assert_eq!((key.slot, key.generation), (first.slot, last));
    assert_eq!(heap.remove(key), Some('b'));

    let next = heap.insert(1, 'c');
    assert_ne!(next.slot, first.slot);
    let none = TimerKey {
        slot: first.slot,
        generation: RETIRED_GENERATION,
    };
    assert_eq!(heap.get(none), None);
    assert_eq!(heap.drain().count(), 1);
    assert_eq!(heap.slab.size().0, 1, "only the retired slot stays");
    heap.check();
}

#[test]
fn an_old_slot_is_kept_rather_than_forgotten() {
    let mut heap = Heap::new();
    let key = heap.insert(1, 'a');
    heap.remove(key);
    heap.slab
        .age(key.slot, MAX_RETURNED_GENERATION.saturating_add(1));
    assert_eq!(heap.drain().count(), 0);
    assert_eq!(heap.slab.size().0, 1);
    assert_eq!(
        heap.insert(1, 'b').generation,
        MAX_RETURNED_GENERATION.saturating_add(1)
    );
    assert_eq!(heap.insert(1, 'c').generation, Generation::MIN);
    heap.check();
}

#[test]
fn keys_and_items_are_small() {
    assert_eq!(size_of::<TimerKey>(), 8);
    assert_eq!(size_of::<Option<TimerKey>>(), 8);
    assert_eq!(size_of::<super::Item>(), 24);
}

//! Each cell is created and dropped once, and a block is freed when none of its arrays is left.

use std::sync::Arc;
use std::thread;

use super::arena::{HugePageArena, SINGLE_ARRAYS};
use super::pages::LARGE;

#[test]
fn every_cell_is_dropped_once_wherever_its_plot_lies() {
    let cell = Arc::new(());
    let mut arena = HugePageArena::<Arc<()>, 2_048>::new();
    let mut arrays: Vec<_> = (0..SINGLE_ARRAYS + 200)
        .map(|_| arena.array(|_| Arc::clone(&cell)))
        .collect();
    assert_eq!(Arc::strong_count(&cell), 1 + arrays.len() * 2_048);
    // In an order that is unrelated to the blocks.
    while arrays.len() > 1 {
        arrays.swap_remove(arrays.len() / 2);
    }
    drop(arena);
    assert_eq!(
        Arc::strong_count(&cell),
        1 + 2_048,
        "an array outlives its arena"
    );
    drop(arrays);
    assert_eq!(Arc::strong_count(&cell), 1);
}

#[test]
fn many_plots_share_blocks_that_are_aligned_for_large_pages() {
    let mut arena = HugePageArena::<u64, 2_048>::new();
    let _single: Vec<_> = (0..SINGLE_ARRAYS).map(|_| arena.array(|_| 0)).collect();
    let many: Vec<_> = (0..2 * HugePageArena::<u64, 2_048>::ARRAYS_PER_BLOCK)
        .map(|number| arena.array(|place| (number * place) as u64))
        .collect();
    let mut blocks: Vec<_> = many
        .iter()
        .map(|array| array.as_ptr().addr() / LARGE)
        .collect();
    blocks.dedup();
    assert_eq!(blocks.len(), 2);
    for (number, array) in many.iter().enumerate() {
        assert!(array.as_ptr().addr().is_multiple_of(64));
        assert!((0..2_048).all(|place| array[place] == (number * place) as u64));
    }
}

#[test]
fn an_open_block_is_used_from_its_beginning_when_all_have_left() {
    let mut arena = HugePageArena::<u8, 16_384>::new();
    let single: Vec<_> = (0..SINGLE_ARRAYS).map(|_| arena.array(|_| 0)).collect();
    let first = arena.array(|_| 1).as_ptr();
    for _ in 0..10_000 {
        assert_eq!(arena.array(|_| 2).as_ptr(), first);
    }
    arena.trim();
    let again = arena.array(|_| 3);
    assert_ne!(again.as_ptr(), first, "the first ones lie for themselves");
    drop((single, again));
}

#[test]
fn plots_may_end_on_other_threads() {
    let mut arena = HugePageArena::<Vec<u8>, 512>::new();
    let arrays: Vec<_> = (0..SINGLE_ARRAYS + 300)
        .map(|number| arena.array(|place| vec![number as u8, place as u8]))
        .collect();
    thread::scope(|scope| {
        for (number, array) in arrays.into_iter().enumerate() {
            if number % 2 == 0 {
                scope.spawn(move || drop(array));
            }
        }
        drop(arena);
    });
}

#[test]
fn a_plot_larger_than_a_block_has_one_for_itself() {
    let mut arena = HugePageArena::<[u64; 1_024], 512>::new();
    let arrays: Vec<_> = (0..SINGLE_ARRAYS + 2)
        .map(|_| arena.array(|_| [7; 1_024]))
        .collect();
    assert!(arrays.iter().all(|array| array[511][1_023] == 7));
}

#[test]
fn what_unwinds_leaves_the_yard_usable() {
    let mut arena = HugePageArena::<u64, 512>::new();
    let _single: Vec<_> = (0..=SINGLE_ARRAYS).map(|_| arena.array(|_| 0)).collect();
    let half = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        arena.array(|place| {
            assert!(place < 100, "no more");
            place as u64
        })
    }));
    assert!(half.is_err());
    assert_eq!(arena.array(|place| place as u64)[511], 511);
}

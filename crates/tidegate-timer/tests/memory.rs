//! The memory use of timers, measured by a counting allocator. A program of its own, because the
//! allocator is global.
#![cfg(not(any(tidegate_sanitize, miri)))]

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_testkit::short_or_long;
use tidegate_timer::WheelTimer;
use tidegate_timer::wheel::Wheel;

#[path = "../../tidegate-testkit/shared/counting.rs"]
mod counting;

use counting::{LIVE, PEAK};

/// The counters are global: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> impl Drop {
    ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Returns the number of add and cancel pairs: ten million, or fewer in debug builds unless
/// requested.
fn pairs() -> usize {
    if cfg!(debug_assertions) {
        short_or_long(500_000, 10_000_000)
    } else {
        10_000_000
    }
}

#[test]
fn ten_million_adds_and_cancels_against_a_far_deadline_need_little_memory() {
    let _alone = alone();
    let clock = ManualClock::new();
    let timer = WheelTimer::builder("test").clock(&clock).build();
    let timer = timer.expect("the defaults are sound");
    let far = timer.schedule(Duration::from_secs(3600), || ());
    let far = far.expect("no limit");
    clock.settle();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    for _ in 0..pairs() {
        let pair = timer.schedule(Duration::from_secs(7200), || ());
        assert!(pair.expect("no limit").cancel());
    }
    let peak = PEAK.load(Ordering::Relaxed) - before;
    // At most 64 times 1,024 cancelled cells of 100 bytes each wait, plus those that were added
    // while some were unlinked.
    assert!(peak < 32 << 20, "{peak} bytes at the peak");
    clock.settle();
    let left = LIVE.load(Ordering::Relaxed).saturating_sub(before);
    assert!(left < 1 << 20, "{left} bytes left");
    assert_eq!((timer.pending(), far.is_expired()), (1, false));
}

#[test]
fn a_million_timeouts_cost_less_than_48_bytes_each_and_give_them_back() {
    let _alone = alone();
    let before = LIVE.load(Ordering::Relaxed);
    let mut wheel = Wheel::new(Duration::from_millis(1), 65_536).expect("a sound geometry");
    let mut keys = Vec::with_capacity(1_000_000);
    for number in 0..1_000_000_u64 {
        let deadline = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 60_000_000_000;
        keys.push(wheel.insert(deadline, [number; 2]));
    }
    let each = (LIVE.load(Ordering::Relaxed) - before) / 1_000_000;
    assert!(each < 48 + 8, "{each} bytes, 8 of them the key");
    for key in keys.drain(..) {
        assert!(wheel.remove(key).is_some());
    }
    drop(keys);
    for turn in 1..400 {
        assert!(wheel.pop_due(turn * 1_000_000).is_none());
    }
    let left = LIVE.load(Ordering::Relaxed) - before;
    assert!(left < 1 << 20, "{left} bytes left");
}

//! The cost of a timeout that is armed and does not expire. The header of `tidegate-isolate`'s
//! `alarm` refers to this table.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{CancelToken, Clock};
use tidegate_isolate::internal::CallWord;
use tidegate_timer::WheelTimer;
use tidegate_timer::wheel::Wheel;

use super::{CHEAP, TIMEOUT, each, heading};
use crate::report::{Heading, Role, Table};
use crate::rounds::{self, Settings};

/// The tick and the slots of the wheels.
const WHEEL: (Duration, usize) = (Duration::from_millis(1), 4096);
/// Number of timeouts that are pending in the wheel all the time, as those of other calls are.
const OTHERS: u64 = 1000;

/// The record that allows another thread to end a call after its timeout.
#[derive(Default)]
struct Slot {
    word: CallWord,
    deadline: AtomicU64,
    token: CancelToken,
}

/// The timeout of a call that ends long before its deadline: armed and disarmed. All contestants
/// get the deadline, except [`WheelTimer`], which reads a clock for it.
pub(super) fn run(settings: &Settings) -> Table {
    let deadline = |n: u64| 1_000_000_000 + n;
    let clock = Clock::system();
    let (slot, next_wake) = (Slot::default(), AtomicU64::new(0));
    let (tick, slots) = WHEEL;
    let wheel = || {
        let mut wheel = Wheel::<Arc<Slot>>::new(tick, slots).expect("a sound geometry");
        for n in 0..OTHERS {
            wheel.insert(deadline(n * 1_000_000), Arc::default());
        }
        wheel
    };
    let (mut own, shared) = (wheel(), Mutex::new(wheel()));
    let (in_own, in_shared) = (Arc::new(Slot::default()), Arc::new(Slot::default()));
    let timer = WheelTimer::builder("bench").tick(tick).slots(slots);
    let timer = timer.build().expect("a sound geometry");
    for _ in 0..OTHERS {
        let far = Duration::from_secs(3600);
        timer.schedule(far, || ()).expect("there is no limit");
    }
    let in_timer = Arc::new(Slot::default());
    let lineup = vec![
        each(
            "a slot of the thread, as commands have it",
            Role::Ours,
            move |n| {
                slot.token.set_deadline_at(&clock, deadline(n));
                slot.deadline.store(deadline(n), Ordering::Relaxed);
                slot.word.begin();
                black_box(deadline(n) < next_wake.load(Ordering::Relaxed));
                black_box(slot.word.finish());
            },
        ),
        each(
            "a wheel of the thread that never advances",
            Role::Floor,
            move |n| {
                let key = own.insert(deadline(n), Arc::clone(&in_own));
                black_box(own.remove(key));
            },
        ),
        each("one wheel under a lock", Role::Floor, move |n| {
            let lock = || {
                shared
                    .lock()
                    .expect("no thread panics while it holds the lock")
            };
            let key = lock().insert(deadline(n), Arc::clone(&in_shared));
            black_box(lock().remove(key));
        }),
        each("WheelTimer", Role::Floor, move |_| {
            let slot = Arc::clone(&in_timer);
            let armed = timer.schedule(TIMEOUT, move || {
                slot.token.cancel();
            });
            black_box(armed.expect("there is no limit").cancel());
        }),
    ];
    let heading = Heading {
        unit: "ns per arming and disarming",
        ..heading("a timeout that is not needed", &[])
    };
    rounds::race(heading, CHEAP, lineup, settings)
}

//! The memory cost of keys: ten thousand of them, a hundred in use, counted by the allocator. Also
//! checks that a guarded call allocates nothing. This is a separate test program, because the
//! allocator belongs to the whole program.
#![cfg(not(any(tidegate_sanitize, miri)))]

use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_isolate::{Command, Entry, Isolation};

#[path = "../../tidegate-testkit/shared/counting.rs"]
mod counting;

use counting::{ALLOCATED, BYTES};

const KEYS: usize = 10_000;
const IN_USE: usize = 100;
const MOST: i64 = 64 * 1024 * 1024;

type Numbers = Command<u32, &'static str>;

fn isolation() -> (ManualClock, Isolation) {
    let clock = ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build();
    (clock, isolation.expect("the default settings are valid"))
}

/// Checks that `call` allocates nothing on this thread, after some calls to warm up.
fn assert_allocates_nothing(mut call: impl FnMut()) {
    (0..10).for_each(|_| call());
    let before = ALLOCATED.get();
    (0..1_000).for_each(|_| call());
    assert_eq!(ALLOCATED.get() - before, 0);
}

fn build(isolation: &Isolation, key: usize) -> Numbers {
    Command::builder(format!("key-{key}"))
        .group("keys")
        .build(isolation)
        .expect("the settings agree with each other")
}

#[test]
fn ten_thousand_keys_fit_and_their_memory_comes_back() {
    let (clock, isolation) = isolation();
    let empty = BYTES.get();
    let commands: Vec<_> = (0..KEYS).map(|key| build(&isolation, key)).collect();
    let registered = BYTES.get() - empty;
    // All are used once, and then only a hundred of them.
    let use_of = |commands: &[Numbers]| {
        for command in commands {
            assert_eq!(command.run(|_| Ok(1)), Ok(1));
        }
    };
    use_of(&commands);
    clock.advance(Duration::from_secs(61));
    assert_eq!(isolation.reclaim(), KEYS);
    let idle = BYTES.get() - empty;
    use_of(&commands[..IN_USE]);
    assert_eq!(isolation.reclaim(), KEYS - IN_USE);
    let used = BYTES.get() - empty;
    println!(
        "{KEYS} keys: {} bytes each, {} once used and idle; {IN_USE} in use: {} bytes more each",
        registered / KEYS as i64,
        idle / KEYS as i64,
        (used - idle) / IN_USE as i64,
    );
    assert!(
        idle - registered <= 1024 * KEYS as i64,
        "an idle key holds counters only"
    );
    assert!(
        used <= MOST,
        "{used} bytes for {KEYS} keys, {IN_USE} of them in use"
    );
    for key in 0..KEYS {
        assert!(isolation.remove(&format!("key-{key}")));
    }
    drop(commands);
    let left = BYTES.get() - empty;
    assert!(
        left <= registered / 20,
        "{left} bytes of {registered} did not come back"
    );
}

#[test]
fn a_guarded_call_allocates_nothing() {
    let (_clock, isolation) = isolation();
    let command = build(&isolation, 0);
    assert_allocates_nothing(|| assert_eq!(command.run(|_| Ok(1)), Ok(1)));
}

#[test]
fn a_future_that_is_ready_allocates_nothing() {
    let (_clock, isolation) = isolation();
    let command = Command::builder("key")
        .group("keys")
        .fallback_async(|_| ready(Ok(2)))
        .build(&isolation);
    let command: Numbers = command.expect("the settings agree with each other");
    assert_allocates_nothing(|| {
        let answer = pin!(command.run_async(|_| ready(Ok(1))));
        let answer = answer.poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(answer, Poll::Ready(Ok(1)));
    });
}

#[test]
fn an_entry_allocates_nothing() {
    let (_clock, isolation) = isolation();
    let command = build(&isolation, 0);
    assert_allocates_nothing(|| {
        let entry = command.admit().expect("there is room");
        assert!(entry.verdict(true));
    });
}

/// The memory of an entry moves to the thread where the entry ends, and returns from there.
#[test]
fn an_entry_that_ends_on_another_thread_allocates_nothing_either() {
    const WARM: usize = 200;
    let (_clock, isolation) = isolation();
    let command = build(&isolation, 0);
    let (give, given) = std::sync::mpsc::sync_channel::<Entry>(0);
    let (sender, receiver) = std::sync::mpsc::sync_channel::<u64>(0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for entry in given {
                let before = ALLOCATED.get();
                assert!(entry.verdict(true));
                drop(entry);
                sender.send(ALLOCATED.get() - before).expect("it is read");
            }
        });
        let (mut here, mut there) = (0, 0);
        for number in 0..WARM + 1_000 {
            let before = ALLOCATED.get();
            let entry = command.admit().expect("there is room");
            let admitted = ALLOCATED.get() - before;
            give.send(entry).expect("it is read");
            let ended = receiver.recv().expect("it sends its count");
            if number >= WARM {
                (here, there) = (here + admitted, there + ended);
            }
        }
        drop(give);
        assert_eq!((here, there), (0, 0));
    });
}

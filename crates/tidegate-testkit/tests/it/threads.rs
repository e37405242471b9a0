//! Gates, counters, logs and counted drops between threads.

use std::panic;
use std::thread;

use tidegate_testkit::{Counter, DropCount, Gate, Log};

#[test]
fn a_gate_blocks_every_thread_until_it_is_opened() {
    let (gate, log, arrived) = (Gate::new(), Log::new(), Counter::new());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                arrived.hit();
                gate.wait();
                log.push("through");
            });
        }
        arrived.wait_for(3);
        assert!(!gate.is_open());
        log.push("open");
        gate.open();
    });
    assert_eq!(log.take(), ["open", "through", "through", "through"]);
}

#[test]
fn an_open_gate_stays_open() {
    let gate = Gate::new();
    gate.open();
    gate.open();
    gate.wait();
    gate.clone().wait();
    assert!(gate.is_open());
}

#[test]
fn gates_script_an_interleaving() {
    let (read, written) = (Gate::new(), Gate::new());
    let log = Log::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            log.push("read");
            read.open();
            written.wait();
            log.push("compare");
        });
        scope.spawn(|| {
            read.wait();
            log.push("write");
            written.open();
        });
    });
    assert_eq!(log.take(), ["read", "write", "compare"]);
}

#[test]
fn a_counter_gives_each_number_once() {
    const THREADS: u64 = 4;
    const HITS: u64 = 100;
    let (counter, log) = (Counter::new(), Log::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..HITS {
                    log.push(counter.hit());
                }
            });
        }
        counter.wait_for(THREADS * HITS);
        log.wait_for((THREADS * HITS) as usize);
    });
    let mut numbers = log.take();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=THREADS * HITS));
}

#[test]
fn a_log_keeps_the_order_of_pushes() {
    let log = Log::default();
    for event in 0..10 {
        log.clone().push(event);
    }
    assert_eq!((log.len(), log.is_empty()), (10, false));
    log.assert_order(&[0, 3, 9]);
    log.assert_order(&[]);
    assert!(log.take().into_iter().eq(0..10));
    assert!(log.is_empty());
}

#[test]
#[should_panic(expected = r#"no "open" after ["close"] in the log ["open", "close"]"#)]
fn a_log_in_the_wrong_order_is_refused() {
    let log = Log::new();
    log.push("open");
    log.push("close");
    log.assert_order(&["close", "open"]);
}

#[test]
#[should_panic(expected = "no 1 after [1] in the log [1, 2]")]
fn an_event_expected_twice_must_happen_twice() {
    let log = Log::new();
    log.push(1);
    log.push(2);
    log.assert_order(&[1, 1]);
}

#[test]
fn a_failed_assertion_leaves_the_log_usable() {
    let log = Log::new();
    log.push(1);
    let failed = panic::catch_unwind(|| log.assert_order(&[2]));
    assert!(failed.is_err());
    log.push(2);
    assert_eq!(log.take(), [1, 2]);
}

#[test]
fn drops_are_counted_wherever_they_happen() {
    let drops = Counter::new();
    let here = DropCount::new(&drops);
    let there = DropCount::new(&drops);
    assert_eq!(drops.count(), 0);
    thread::scope(|scope| {
        scope.spawn(|| drop(there));
    });
    assert_eq!(drops.count(), 1);
    let thrown = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let _here = here;
        panic!("on purpose");
    }));
    assert!(thrown.is_err());
    assert_eq!(drops.count(), 2);
}

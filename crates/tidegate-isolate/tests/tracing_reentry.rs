//! A subscriber of the process that uses the library in each of its methods. The test is alone in
//! its process: a subscriber of the process is called on every thread, also from within itself.
#![cfg(not(tidegate_loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_isolate::{BreakerConfig, BreakerWindow, Command, Isolation, PoolConfig};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Gate, Log, Recorder, block_on};
use tracing::subscriber::set_global_default;

const SECOND: Duration = Duration::from_secs(1);

type Numbers = Command<u32, &'static str>;

#[test]
fn a_subscriber_may_submit_tasks_and_call_commands() {
    let clock = ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    let prices: Numbers = Command::builder("prices")
        .group("shop")
        .permits(2)
        .build(&isolation)
        .unwrap();
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(5),
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let stock: Numbers = Command::builder("stock")
        .group("shop")
        .threads(PoolConfig::default())
        .timeout(SECOND)
        .breaker(breaker)
        .build(&isolation)
        .unwrap();
    let pool = WorkerPool::builder("workers").build().unwrap();
    let recorder = Recorder::new();
    let (active, calls, threads) = (Arc::new(AtomicBool::new(true)), Arc::default(), Log::new());
    let (within, own, is_on) = (prices.clone(), pool.clone(), Arc::clone(&active));
    let (count, log) = (Arc::clone(&calls), threads.clone());
    recorder.on_call(move |_| {
        let _: usize = AtomicUsize::fetch_add(&count, 1, Ordering::Relaxed);
        log.push(std::thread::current().name().map(str::to_owned));
        if is_on.load(Ordering::Relaxed) {
            own.execute(|| ()).expect("the queue has room");
            // There may be no permit: then the call is refused, also from within the event of a
            // refusal.
            let _ = within.run(|_| Ok(1));
            drop(within.queue(|_| Ok(1)));
        }
    });
    set_global_default(recorder.clone()).expect("the first one");

    assert_eq!(prices.run(|_| Ok(1)), Ok(1));
    assert_eq!(
        block_on("the call", prices.run_async(|_| async { Ok(2) })),
        Ok(2)
    );
    let held = [prices.admit().unwrap(), prices.admit().unwrap()];
    prices.run(|_| Ok(1)).expect_err("there is no permit");
    drop(held);
    assert_eq!(stock.run(|_| Ok(3)), Ok(3));
    let go_on = Gate::new();
    let gate = go_on.clone();
    let late = stock.queue(move |_| {
        gate.wait();
        Ok(4)
    });
    tidegate_testkit::until("the call runs", || stock.snapshot().active == 1);
    clock.jump(2 * SECOND);
    assert!(late.wait().is_err(), "it timed out and opened the breaker");
    go_on.open();
    stock.run(|_| Ok(5)).expect_err("the breaker is open");

    active.store(false, Ordering::Relaxed);
    let ended = isolation.shutdown(60 * SECOND).wait();
    assert!(ended.is_ok(), "{ended:?}");
    pool.shutdown(60 * SECOND).wait().expect("it ends");
    assert_eq!(prices.snapshot().active, 0, "no permit is lost");
    assert!(calls.load(Ordering::Relaxed) > 0);
    assert_eq!(recorder.events("refused").len(), 2, "prices and stock");
    assert_eq!(recorder.events("breaker_changed").len(), 1);
    // The timer of the calls runs no user code.
    let timers = threads.take().into_iter().flatten();
    let timers: Vec<_> = timers.filter(|name| name.contains("timer")).collect();
    assert!(timers.is_empty(), "{timers:?}");
    for span in recorder.spans("command") {
        assert_eq!((span.handles, span.entered), (0, span.left), "{span:?}");
    }
}

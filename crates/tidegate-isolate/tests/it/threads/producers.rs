//! Event loops and strategies that run on the threads of a bulkhead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_core::Task;
use tidegate_isolate::Event;
use tidegate_loop::{EventLoop, RoamingConfig};
use tidegate_pool::Quiet;
use tidegate_pool::strategy::{Adaptive, Strategy};
use tidegate_testkit::{Gate, until};

use super::kit::alone;
use crate::support::{SECOND, hold, pool_of};

#[test]
fn a_roaming_loop_over_a_full_bulkhead_keeps_producing() {
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(2, 0)));
    let bulkhead = isolation.pool("a").unwrap();
    // The loop runs on a thread of the bulkhead; a call has the other thread.
    let config = RoamingConfig::new(Arc::new(bulkhead.clone()));
    let home = EventLoop::builder("roams").build_roaming(&config);
    let home = home.unwrap();
    home.submit(|| ()).unwrap().wait().unwrap();
    until("the bulkhead has a thread", || {
        bulkhead.free_threads().has_thread()
    });
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    assert!(
        !bulkhead.free_threads().has_thread(),
        "the strategy sees it"
    );
    for n in 0..5 {
        let called = command.clone();
        let task = home.submit(move || {
            let answer = called.queue(|_| Ok(1));
            assert!(
                answer.is_done(),
                "refused at once: no call waits for a thread"
            );
            n
        });
        assert_eq!(task.unwrap().wait().unwrap(), n);
        assert_eq!(home.spawn(async move { n }).unwrap().wait().unwrap(), n);
    }
    go_on.open();
    held.wait().unwrap();
    assert_eq!(command.snapshot().totals[Event::PoolRejected], 5);
    let over = home.shutdown(Quiet::none(SECOND * 60));
    over.wait().unwrap();
}

#[test]
fn a_strategy_over_a_full_bulkhead_keeps_producing() {
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(2, 0)));
    let go_on = Gate::new();
    let held = [hold(&command, &go_on), hold(&command, &go_on)];
    let bulkhead = isolation.pool("a").unwrap();
    assert!(
        !bulkhead.free_threads().has_thread(),
        "the strategy sees that it is full"
    );
    let (refused, mut left) = (Arc::new(AtomicUsize::new(0)), 5);
    let (count, called) = (Arc::clone(&refused), command.clone());
    let producer = move || {
        left -= 1;
        let (count, called) = (Arc::clone(&count), called.clone());
        (left >= 0).then(|| {
            Task::non_blocking(move || {
                let answer = called.queue(|_| Ok(1));
                assert!(answer.is_done(), "refused at once");
                count.fetch_add(1, Ordering::Relaxed);
            })
        })
    };
    let strategy = Adaptive::new(producer, Arc::new(bulkhead.clone()));
    strategy.produce();
    assert_eq!(
        refused.load(Ordering::Relaxed),
        5,
        "no call waited for a thread"
    );
    go_on.open();
    for answer in held {
        answer.wait().unwrap();
    }
    until("the bulkhead has a thread", || {
        bulkhead.free_threads().has_thread()
    });
}

//! The global event loop, as far as tests can share it.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::internal::unpoisoned;
use tidegate_loop::{EventLoop, Quiet, ShutdownError};
use tidegate_promise::WaitError;

/// Serializes the tests: all tests of this process share the global event loop.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    unpoisoned(ALONE.lock())
}

#[test]
fn is_one_for_the_whole_process() {
    let _alone = alone();
    let one = EventLoop::global();
    assert_eq!(one, EventLoop::global());
    assert_eq!(one.name(), "global");
    assert_eq!(one.submit(|| 7).unwrap().wait().unwrap(), 7);
    drop(one);
    assert_eq!(EventLoop::global().submit(|| 8).unwrap().wait().unwrap(), 8);
}

#[test]
fn cannot_be_shut_down() {
    let _alone = alone();
    let asked = EventLoop::global().shutdown(Quiet::default());
    let refused = asked.wait();
    assert!(matches!(
        refused,
        Err(WaitError::Failed(ShutdownError::Unsupported))
    ));
    assert!(!EventLoop::global().is_shutting_down());
    assert!(EventLoop::global().submit(|| ()).is_ok());
}

#[test]
fn can_be_replaced_for_a_test() {
    let _alone = alone();
    let own = EventLoop::global();
    let (one, mut manual_loop) = EventLoop::builder("one").build_manual().unwrap();
    let two = EventLoop::builder("two").build().unwrap();
    let first = EventLoop::replace_global(&one);
    let answer = EventLoop::global().submit(|| 7).unwrap();
    assert!(!answer.is_done());
    manual_loop.run_until_idle();
    assert_eq!(answer.wait().unwrap(), 7);
    let second = EventLoop::replace_global(&two);
    assert_eq!(EventLoop::global(), two);
    // Guards may be dropped in any order: the newest live guard counts.
    drop(first);
    assert_eq!(EventLoop::global(), two);
    drop(second);
    assert_eq!(EventLoop::global(), own);
}

#[test]
fn a_stand_in_is_shut_down_like_any_loop() {
    let _alone = alone();
    let mine = EventLoop::builder("mine").build().unwrap();
    let guard = EventLoop::replace_global(&mine);
    let end = mine.termination();
    drop(mine);
    assert!(!end.is_done(), "the guard holds a handle");
    drop(guard);
    end.wait_timeout(Duration::from_secs(60)).unwrap();
}

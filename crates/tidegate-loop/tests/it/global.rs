//! The global event loop, as far as tests can share it.

use tidegate_loop::{EventLoop, Quiet, ShutdownError};
use tidegate_promise::WaitError;

#[test]
fn is_one_for_the_whole_process() {
    let one = EventLoop::global();
    assert_eq!(one, EventLoop::global());
    assert_eq!(one.name(), "global");
    assert_eq!(one.submit(|| 7).unwrap().wait().unwrap(), 7);
    drop(one);
    assert_eq!(EventLoop::global().submit(|| 8).unwrap().wait().unwrap(), 8);
}

#[test]
fn cannot_be_shut_down() {
    let asked = EventLoop::global().shutdown(Quiet::default());
    let refused = asked.wait();
    assert!(matches!(
        refused,
        Err(WaitError::Failed(ShutdownError::Unsupported))
    ));
    assert!(!EventLoop::global().is_shutting_down());
    assert!(EventLoop::global().submit(|| ()).is_ok());
}

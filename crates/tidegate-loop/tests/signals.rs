//! Signals as completions. A test binary of its own: handlers are of the whole process. Each test
//! uses a signal of its own.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use rustix::process::{Signal, getpid, kill_process};
use tidegate_loop::signal::{self, Received};
use tidegate_loop::{EventLoop, block_on};
use tidegate_promise::Outcome;
use tidegate_testkit::{Log, Stop};

fn send(signal: Signal) {
    kill_process(getpid(), signal).unwrap();
}

#[test]
fn a_signal_before_the_loop_starts_is_remembered_and_so_is_a_repeated_one() {
    let pending = signal::terminate();
    assert!(!pending.is_done());
    send(Signal::TERM);
    // No code waits yet and no event loop runs.
    let first = block_on(pending).unwrap().unwrap();
    assert_eq!(
        (first.name(), first.to_string()),
        ("SIGTERM", "SIGTERM received".to_owned())
    );
    // The second one arrives while nothing waits for it, as in a drain.
    send(Signal::TERM);
    let fresh = signal::terminate();
    let second = first.next().wait().unwrap();
    assert_ne!(first, second);
    assert!(!second.next().is_done(), "there was no third one");
    drop(fresh);
}

#[test]
fn all_waiters_get_a_signal_and_a_cancelled_one_leaves() {
    let home = EventLoop::builder("home").build().unwrap();
    let (log, heard) = Log::pair();
    signal::user1().finally(move |outcome| {
        if let Outcome::Success(received) = outcome {
            heard.push(received.name());
        }
    });
    let cancelled = signal::user1();
    assert!(cancelled.cancel());
    let awaited = home
        .spawn(async { signal::user1().await.unwrap() })
        .unwrap();
    // The future has registered when a later task has run.
    home.submit(|| ()).unwrap().wait().unwrap();
    let waited = signal::user1();
    send(Signal::USR1);
    let names = [waited.wait().unwrap(), awaited.wait().unwrap()];
    assert!(names.iter().all(|one: &Received| one.name() == "SIGUSR1"));
    log.wait_for(1);
    assert!(cancelled.is_cancelled());
}

#[test]
fn a_listener_that_blocks_delays_no_other_signal() {
    let stop = Stop::new();
    let inside = stop.closure();
    signal::interrupt().finally(move |_| {
        inside();
    });
    let other = signal::interrupt();
    send(Signal::INT);
    stop.reached();
    let first = other.wait().unwrap();
    let next = first.next();
    send(Signal::INT);
    assert_eq!(next.wait().unwrap().name(), "SIGINT");
    stop.go_on();
}

#[test]
fn a_listener_that_panics_harms_nothing() {
    signal::hangup().finally(|_| panic!("a listener fails"));
    let other = signal::hangup();
    send(Signal::HUP);
    assert_eq!(other.wait().unwrap().name(), "SIGHUP");
    let next = signal::hangup();
    send(Signal::HUP);
    assert_eq!(next.wait().unwrap().to_string(), "SIGHUP received");
}

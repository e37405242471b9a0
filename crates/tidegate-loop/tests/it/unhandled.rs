//! Unhandled errors: where they are reported without a hook, and that a slow hook delays no event
//! loop or pool.

use std::process::Command;
use std::sync::Arc;

use tidegate_core::thread::ThreadPerTask;
use tidegate_core::{Executor, OnUnhandled, Task, ThreadBuilder};
use tidegate_loop::EventLoop;
use tidegate_pool::{ImmediateExecutor, WorkerPool};
use tidegate_testkit::{Gate, Log};

use crate::UnhandledLog;

/// Set for the child process that a test starts to read its standard error.
const CHILD: &str = "TIDEGATE_TEST_CHILD";

/// Returns a hook that logs each error and then waits for the gate.
fn held() -> (OnUnhandled, Log<String>, Gate) {
    let (log, gate) = (Log::new(), Gate::new());
    let (received, go_on) = (log.clone(), gate.clone());
    let hook = OnUnhandled::new(move |source, what| {
        received.push(format!("{source}: {what}"));
        go_on.wait();
    });
    (hook, log, gate)
}

#[test]
fn a_hook_that_blocks_holds_up_no_loop() {
    let (hook, log, gate) = held();
    let home = EventLoop::builder("home").report_to(hook).build().unwrap();
    for _ in 0..3 {
        home.execute_task(Task::named("bad", || panic!("on purpose")))
            .unwrap();
    }
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    log.assert_order(&["home: task `bad` panicked: on purpose".to_owned()]);
    assert_eq!(log.len(), 1, "it is in the first");
    gate.open();
    log.wait_for(3);
}

#[test]
fn a_hook_that_blocks_holds_up_no_thread_of_a_pool() {
    let (hook, log, gate) = held();
    let pool = WorkerPool::builder("workers").max(1).report_to(hook);
    let pool = pool.build().unwrap();
    for _ in 0..3 {
        pool.execute(|| panic!("on purpose")).unwrap();
    }
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
    gate.open();
    log.wait_for(3);
}

#[test]
fn a_hook_may_wait_for_the_loop_that_reports_to_it() {
    let (log, received) = Log::pair();
    let home = Arc::new(std::sync::OnceLock::<EventLoop>::new());
    let notified = Arc::clone(&home);
    let builder = EventLoop::builder("home").on_unhandled(move |_, _| {
        let home = notified.get().unwrap();
        received.push(home.submit(|| 7).unwrap().wait().unwrap());
    });
    assert!(home.set(builder.build().unwrap()).is_ok());
    home.get()
        .unwrap()
        .execute(|| panic!("on purpose"))
        .unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), [7]);
}

#[test]
fn hooks_of_threads_that_panic_are_reported() {
    let received = UnhandledLog::new();
    let threads = ThreadBuilder::new("io")
        .on_start(|| panic!("at the start"))
        .on_stop(|| panic!("at the end"));
    let builder = EventLoop::builder("home").threads(threads);
    let home = builder.report_to(received.hook.clone()).build().unwrap();
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    assert_eq!(received.take(), ["a hook panicked: at the start"]);
    drop(home);
    received.log.wait_for(1);
    assert_eq!(received.take(), ["a hook panicked: at the end"]);
}

#[test]
fn an_immediate_task_that_panics_is_reported() {
    let received = UnhandledLog::new();
    let here = ImmediateExecutor::new().report_to(received.hook.clone());
    Executor::execute(&here, Task::named("bad", || panic!("on purpose"))).unwrap();
    let (promise, answer) = here.promise::<u32>();
    answer.on_complete(|_| panic!("in a listener"));
    promise.succeed(7).unwrap();
    let expected = [
        "task `bad` panicked: on purpose",
        "a listener panicked: in a listener",
    ];
    assert_eq!(received.take(), expected);
    assert_eq!(here.panics(), 2);
}

/// Causes an error in every place that has a hook, without setting a hook.
fn misbehave() {
    let bad = || Task::named("bad", || panic!("on purpose"));
    let home = EventLoop::builder("home").build().unwrap();
    home.execute_task(bad()).unwrap();
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    let pool = WorkerPool::builder("workers").build().unwrap();
    pool.execute_task(bad()).unwrap();
    let (promise, answer) = tidegate_promise::promise::<u32>();
    answer.on_complete(|_| panic!("in a listener"));
    promise.succeed(7).unwrap();
    Executor::execute(&ImmediateExecutor::new(), bad()).unwrap();
    let threads = ThreadPerTask::new(ThreadBuilder::new("job"));
    Executor::execute(&threads, bad()).unwrap();
    pool.shutdown(std::time::Duration::from_secs(60))
        .wait()
        .unwrap();
    OnUnhandled::default().flush().unwrap();
}

#[test]
fn without_a_hook_each_is_one_line_on_standard_error() {
    if std::env::var_os(CHILD).is_some() {
        return misbehave();
    }
    let name = "unhandled::without_a_hook_each_is_one_line_on_standard_error";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{message}");
    for line in [
        "tidegate: home: task `bad` panicked: on purpose\n",
        "tidegate: workers: task `bad` panicked: on purpose\n",
        "tidegate: a promise without a home: a listener panicked: in a listener\n",
        "tidegate: immediate: task `bad` panicked: on purpose\n",
    ] {
        assert_eq!(message.matches(line).count(), 1, "{line} in {message}");
    }
}

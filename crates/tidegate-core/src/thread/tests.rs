//! Threads are named by rule, set up before their job and cleaned up after it.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use super::builder::pool_name;
use super::start::at_thread_exit;
use super::*;
use crate::{Executor, RejectReason, Task};

#[test]
fn names_are_pool_pool_number_thread_number() {
    let builder = ThreadBuilder::new("io");
    let names: Vec<String> = (0..2)
        .map(|_| {
            let thread = builder.spawn(|| ()).expect("a thread can be had");
            let name = thread.info().name().to_owned();
            assert!(thread.join().unwrap());
            name
        })
        .collect();
    let parts: Vec<Vec<&str>> = names.iter().map(|name| name.split('-').collect()).collect();
    assert_eq!((parts[0][0], parts[0][2]), ("io", "1"));
    assert_eq!((parts[1][0], parts[1][2]), ("io", "2"));
    assert_eq!(parts[0][1], parts[1][1]);
    let next = ThreadBuilder::new("io")
        .spawn(|| ())
        .expect("a thread can be had");
    let number: u64 = next
        .info()
        .name()
        .split('-')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number");
    assert!(number > parts[0][1].parse().expect("a number"));
}

#[test]
fn pool_names_come_from_types() {
    for (type_name, pool) in [
        ("", "unknown"),
        ("X", "x"),
        ("a::b::NioGroup", "nioGroup"),
        ("a::NIOGroup", "NIOGroup"),
        ("a::group", "group"),
        ("a::Group<b::C>", "group"),
    ] {
        assert_eq!(pool_name(type_name), pool);
    }
}

#[test]
fn refuses_a_priority_outside_one_to_ten() {
    for bad in [0, 11, 255] {
        let refused = ThreadBuilder::new("x")
            .priority(bad)
            .expect_err("out of range");
        assert!(refused.to_string().contains("1 (lowest) to 10"));
    }
    assert!(ThreadBuilder::new("x").priority(10).is_ok());
}

#[test]
fn a_refused_priority_or_cpu_is_not_fatal() {
    let builder = ThreadBuilder::new("x")
        .cpus(vec![100_000])
        .priority(10)
        .expect("in range");
    let (tx, rx) = mpsc::channel();
    let thread = builder
        .spawn(move || tx.send(()).expect("waits"))
        .expect("a thread can be had");
    assert_eq!(rx.recv(), Ok(()));
    assert!([5, 10].contains(&thread.info().priority()));
}

#[test]
fn hooks_and_clean_up_run_around_the_job_even_if_it_panics() {
    let (tx, rx) = mpsc::channel();
    let say = |what: &'static str| {
        let tx = tx.clone();
        move || tx.send(what).expect("the test listens")
    };
    let (job, clean) = (say("job"), say("clean"));
    let thread = ThreadBuilder::new("x")
        .on_start(say("start"))
        .on_stop(say("stop"))
        .spawn(move || {
            at_thread_exit(clean);
            job();
            panic!("on purpose");
        })
        .expect("a thread can be had");
    assert!(thread.join().unwrap());
    drop(tx);
    assert_eq!(
        rx.iter().collect::<Vec<_>>(),
        ["start", "job", "stop", "clean"]
    );
}

#[test]
fn a_detached_thread_cannot_be_joined() {
    let thread = ThreadBuilder::new("x")
        .detached()
        .spawn(|| ())
        .expect("a thread can be had");
    assert!(thread.info().is_detached());
    assert!(!thread.join().unwrap());
}

#[test]
fn shows_the_life_of_a_thread() {
    let (tx, rx) = mpsc::channel::<()>();
    let (up, is_up) = mpsc::channel();
    let thread = ThreadBuilder::new("x")
        .spawn(move || {
            up.send(()).expect("waits");
            let _ = rx.recv();
        })
        .expect("a thread can be had");
    is_up.recv().expect("it starts");
    let watch = thread.watch();
    let info = watch.info();
    assert!(info.is_alive() && info.state() == ThreadState::Running);
    assert!(cfg!(not(target_os = "linux")) || info.id() > 0);
    watch.set_waiting(true);
    assert_eq!(watch.info().state(), ThreadState::Waiting);
    drop(tx);
    assert!(thread.join().unwrap());
    assert_eq!(watch.info().state(), ThreadState::Ended);
}

#[test]
fn threads_can_come_from_a_spawner_of_the_user() {
    let spawned = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&spawned);
    let builder = ThreadBuilder::new("x").spawner(move |job| {
        count.fetch_add(1, Ordering::Relaxed);
        std::thread::Builder::new()
            .name(job.name().to_owned())
            .spawn(|| job.run())?;
        Ok(())
    });
    let (tx, rx) = mpsc::channel();
    let thread = builder
        .spawn(move || tx.send(()).expect("waits"))
        .expect("a thread can be had");
    assert_eq!(rx.recv(), Ok(()));
    assert_eq!(spawned.load(Ordering::Relaxed), 1);
    assert!(!thread.join().unwrap(), "the spawner owns it");
}

#[test]
fn a_thread_per_task_runs_each_task_on_its_own_thread() {
    let threads = ThreadPerTask::new(ThreadBuilder::new("per-task"));
    let (tx, rx) = mpsc::channel();
    for _ in 0..3 {
        let (tx, executor) = (tx.clone(), threads.clone());
        let task = Task::new(move || {
            let name = std::thread::current().name().map(str::to_owned);
            tx.send((name, executor.is_current())).expect("waits");
        });
        threads.execute(task).expect("threads can be had");
    }
    drop(tx);
    let mut seen: Vec<_> = rx.iter().collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|(_, current)| *current));
    assert!(!threads.is_current());
}

#[test]
fn a_thread_per_task_gives_the_task_back_when_no_thread_can_be_had() {
    let broke = ThreadBuilder::new("x").spawner(|_job| Err(io::Error::other("no thread for you")));
    let threads = ThreadPerTask::new(broke);
    let (tx, rx) = mpsc::channel();
    let refused = threads
        .execute(Task::new(move || tx.send(1).expect("waits")))
        .expect_err("there is no thread");
    assert_eq!(refused.why(), RejectReason::NoThread);
    refused.into_inner().run();
    assert_eq!(rx.recv(), Ok(1));
}

//! The user's own event sources on an event loop.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use tidegate_core::OnUnhandled;
use tidegate_net::{NetGroup, Readiness, WatchAction};
use tidegate_pool::WorkerPool;
use tidegate_testkit::Log;

use crate::{Echo, dial, round_trip, serve};

fn pair() -> (UnixStream, UnixStream) {
    let (far, near) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    (far, near)
}

/// Logs the bytes that it reads, one per call, and ends at a full stop.
fn log_reads(
    log: &Log<u8>,
) -> impl FnMut(&mut UnixStream, Readiness) -> WatchAction + Send + use<> {
    let log = log.clone();
    move |near, _| {
        let mut byte = [0];
        match near.read(&mut byte) {
            Ok(1) if byte == *b"." => WatchAction::Stop,
            Ok(1) => {
                log.push(byte[0]);
                WatchAction::Again
            }
            _ => WatchAction::Continue,
        }
    }
}

#[test]
fn it_is_called_until_it_is_done_and_then_closed() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let (mut far, near) = pair();
    let log = Log::new();
    group.watch(near, log_reads(&log)).wait().unwrap();
    far.write_all(b"ab").unwrap();
    log.wait_for(2);
    far.write_all(b"c.d").unwrap();
    let mut rest = Vec::new();
    // An end, or a reset because one byte was not read.
    let _ = far.read_to_end(&mut rest);
    assert_eq!(log.take(), b"abc");
    group.submit(|| ()).unwrap().wait().unwrap();
    assert_eq!(group.io_metrics()[0].registered, 0);
}

#[test]
fn a_source_that_panics_is_removed_and_does_no_harm() {
    let log = Log::new();
    let received = log.clone();
    let loops = NetGroup::builder("io").loops(1);
    let loops = loops.on_unhandled(move |_, what| received.push(what.to_string()));
    let group = loops.build().unwrap();
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    let (mut far, near) = pair();
    let panics = |_: &mut UnixStream, _: Readiness| -> WatchAction { panic!("as planned") };
    group.watch(near, panics).wait().unwrap();
    let mut rest = Vec::new();
    let _ = far.read_to_end(&mut rest);
    assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    log.wait_for(1);
    assert!(log.take()[0].contains("as planned"));
}

#[test]
fn pinned_and_roaming_groups_accept_the_hook_for_unhandled_errors() {
    let log = Log::new();
    let received = log.clone();
    let hook = OnUnhandled::new(move |source, what| received.push(format!("{source}: {what}")));
    let pinned = NetGroup::builder("still")
        .loops(1)
        .report_to(hook.clone())
        .build()
        .unwrap();
    pinned.execute(|| panic!("as planned")).unwrap();
    let pool = WorkerPool::builder("workers").max(3).build().unwrap();
    let roaming = NetGroup::builder("roams")
        .loops(1)
        .report_to(hook)
        .build_roaming(&pool)
        .unwrap();
    roaming.execute(|| panic!("as planned")).unwrap();
    log.wait_for(2);
    let mut received = log.take();
    received.sort();
    assert!(received[0].starts_with("roams-0: ") && received[1].starts_with("still-0: "));
}

#[test]
fn it_works_on_roaming_loops_too() {
    let pool = WorkerPool::builder("workers").max(3).build().unwrap();
    let group = tidegate_net::roaming("io", 1, &pool).unwrap();
    let (mut far, near) = pair();
    let log = Log::new();
    group.watch(near, log_reads(&log)).wait().unwrap();
    far.write_all(b"ab").unwrap();
    log.wait_for(2);
    far.write_all(b".").unwrap();
    let mut rest = Vec::new();
    far.read_to_end(&mut rest).unwrap();
}

/// A source that has no descriptor to show.
struct NoDescriptor;

impl AsFd for NoDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        panic!("as planned")
    }
}

#[test]
fn a_source_whose_descriptor_panics_is_refused_and_the_loop_goes_on() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let refused = group.watch(NoDescriptor, |_, _| WatchAction::Stop).wait();
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("as planned"), "{why}");
    group.submit(|| ()).unwrap().wait().unwrap();
}

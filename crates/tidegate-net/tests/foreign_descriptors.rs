//! Descriptors of sources that other code closes, copies, or replaces by another file: neither the
//! loop nor another source is harmed. The test is alone in its process, because it needs to know
//! which numbers of descriptors are free.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use tidegate_core::Task;
use tidegate_loop::{Placement, Quiet};
use tidegate_net::NetGroup;
use tidegate_net::source::{Interest, ReactorHandle, SourceContext, SourceHandle};
use tidegate_pool::WorkerPool;
use tidegate_testkit::Counter;

/// A descriptor that other code owns, as those of C libraries.
struct Lent(RawFd);

impl AsFd for Lent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the loop asks for it when the source is registered, and it is open then.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// Registers a source that counts how often it is selected, and then pauses.
fn register(reactor: &ReactorHandle, lent: Lent, selected: &Counter) -> SourceHandle {
    let selected = selected.clone();
    let pauses = move |at: &SourceContext<'_, Lent>| -> Option<Task> {
        assert!(at.readiness().is_readable());
        at.handle().set_interests(Interest::NONE).unwrap();
        selected.hit();
        None
    };
    let source = reactor.register("lent", lent, Interest::READ, pauses);
    source.wait().unwrap()
}

/// Returns a pipe whose reading end has the number `number`, which is free.
fn pipe_at(number: RawFd) -> (OwnedFd, PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    let reader = OwnedFd::from(reader);
    if reader.as_raw_fd() == number {
        return (reader, writer);
    }
    let moved = rustix::io::fcntl_dupfd_cloexec(&reader, number).unwrap();
    assert_eq!(moved.as_raw_fd(), number, "no other code opens descriptors");
    (moved, writer)
}

fn numbered_pipe() -> (PipeReader, PipeWriter, RawFd) {
    let (reader, writer) = io::pipe().unwrap();
    let number = reader.as_raw_fd();
    (reader, writer, number)
}

/// The owner closes the descriptor: the source goes on until it is closed.
fn closed_by_its_owner(reactor: &ReactorHandle) {
    let (reader, mut writer, number) = numbered_pipe();
    let selected = Counter::new();
    let source = register(reactor, Lent(number), &selected);
    drop(reader);
    writer.write_all(b"x").unwrap();
    selected.wait_for(1);
    source.set_interests(Interest::READ).unwrap();
    selected.wait_for(2);
    source.close().wait().unwrap();
    assert!(source.is_closed());
    assert!(
        writer.write_all(b"x").is_err(),
        "the loop has closed its copy"
    );
}

/// Another file gets the number: changes and the end of the first source are not applied to it.
fn number_of_another_source(reactor: &ReactorHandle) {
    for ends_by_update in [false, true] {
        let (reader, _writer, number) = numbered_pipe();
        let (first, second) = (Counter::new(), Counter::new());
        let old = register(reactor, Lent(number), &first);
        drop(reader);
        let (reader, mut writer) = pipe_at(number);
        let new = register(reactor, Lent(number), &second);
        for interests in [Interest::WRITE, Interest::NONE, Interest::READ] {
            old.set_interests(interests).unwrap();
            reactor.update(|_| ()).wait().unwrap();
        }
        match ends_by_update {
            true => assert!(reactor.update(move |view| view.close(&old)).wait().unwrap()),
            false => old.close().wait().unwrap(),
        }
        writer.write_all(b"x").unwrap();
        second.wait_for(1);
        new.set_interests(Interest::READ).unwrap();
        second.wait_for(2);
        assert_eq!(first.count(), 0);
        new.close().wait().unwrap();
        drop(reader);
    }
}

/// A copy of the descriptor stays open, with bytes to read: the loop sleeps when the source is gone.
fn copied<P: Placement>(group: &NetGroup<P>) {
    let reactor = group.next_reactor();
    let (copy, mut writer) = io::pipe().unwrap();
    let reader = copy.try_clone().unwrap();
    let selected = Counter::new();
    let source = register(&reactor, Lent(reader.as_raw_fd()), &selected);
    drop(reader);
    writer.write_all(b"x").unwrap();
    selected.wait_for(1);
    source.set_interests(Interest::READ).unwrap();
    selected.wait_for(2);
    source.close().wait().unwrap();
    let polls = || group.io_metrics().iter().map(|one| one.polls).sum::<u64>();
    let (before, rounds) = (polls(), 50);
    for _ in 0..rounds {
        reactor.update(|_| ()).wait().unwrap();
        tidegate_testkit::yield_times(20);
    }
    let most = 10 * rounds;
    assert!(polls() - before < most, "the loop polls again and again");
    drop((copy, writer));
}

#[test]
fn foreign_descriptors_harm_neither_their_loop_nor_other_sources() {
    let quiet = Quiet::none(Duration::from_secs(60));
    let pinned = tidegate_net::pinned("still", 1).unwrap();
    let pool = WorkerPool::builder("workers").core(3).max(3);
    let pool = pool.build().unwrap();
    let roams = tidegate_net::roaming("io", 1, &pool).unwrap();
    for reactor in [pinned.next_reactor(), roams.next_reactor()] {
        // The loop opens no more descriptors once it has run.
        reactor.update(|_| ()).wait().unwrap();
        closed_by_its_owner(&reactor);
        number_of_another_source(&reactor);
        assert!(reactor.sources().is_empty());
    }
    copied(&pinned);
    copied(&roams);
    pinned.shutdown(quiet).wait().unwrap();
    roams.shutdown(quiet).wait().unwrap();
}

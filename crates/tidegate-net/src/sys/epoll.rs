//! The poller of Linux, whose system calls are made directly.
//!
//! An event is two numbers, which are read once. Sockets are watched for changes of their readiness.
//! The readiness of a user-defined source is a level: it is reported as long as it lasts, and need
//! not be armed again after each event.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, epoll_event};

use super::call::{call, check};
use super::descriptor::RawFd;
use super::interest::Interest;
use super::poller::{Change, Readiness, Token};
use super::source::Source;

// The flags of an event.
const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const PRI: u32 = libc::EPOLLPRI as u32;
const ERR: u32 = libc::EPOLLERR as u32;
const HUP: u32 = libc::EPOLLHUP as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;
/// Each change is reported once.
const EDGE: u32 = libc::EPOLLET as u32;

/// An object of the operating system that watches sources.
pub(super) struct Selector(OwnedFd);

impl Selector {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the call accesses no memory of ours.
        let selector = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just opened it, for us alone.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(selector) }))
    }

    /// Watches `source` for reading and writing; each change is reported once.
    pub(super) fn add(&self, source: &mut dyn Source, token: Token) -> io::Result<()> {
        let descriptor = source.pollable().as_raw_fd();
        let events = IN | OUT | RDHUP | EDGE;
        self.change(libc::EPOLL_CTL_ADD, descriptor, events, token.bits())
    }

    /// Stops watching `source`.
    pub(super) fn remove(&self, source: &mut dyn Source) -> io::Result<()> {
        let descriptor = source.pollable().as_raw_fd();
        self.change(libc::EPOLL_CTL_DEL, descriptor, 0, 0)
    }

    /// Changes what is watched at the descriptor of a user-defined source.
    pub(super) fn control(
        &self,
        descriptor: RawFd,
        token: Token,
        change: Change,
    ) -> io::Result<()> {
        let (operation, events) = match change {
            Change::Add(interests) => (libc::EPOLL_CTL_ADD, flags(interests)),
            Change::Modify(interests) => (libc::EPOLL_CTL_MOD, flags(interests)),
            // The readiness is a level.
            Change::Rearm(_) => return Ok(()),
            Change::Remove => (libc::EPOLL_CTL_DEL, 0),
        };
        self.change(operation, descriptor, events, token.bits())
    }

    fn change(&self, operation: c_int, what: RawFd, events: u32, u64: u64) -> io::Result<()> {
        let mut event = epoll_event { events, u64 };
        let (selector, event) = (self.0.as_raw_fd(), &raw mut event);
        // SAFETY: the kernel reads one event. The source that owns the descriptor keeps it open
        // during this call. Were it closed all the same, the system would return an error.
        check(unsafe { libc::epoll_ctl(selector, operation, what, event) }).map(drop)
    }
}

/// Ends a wait from any thread.
pub(super) struct Waker(File);

impl Waker {
    /// Creates a waker, whose events have `token`.
    pub(super) fn new(selector: &Selector, token: Token) -> io::Result<Self> {
        // SAFETY: the call accesses no memory of ours.
        let counter = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the kernel has just opened it, for us alone.
        let waker = Self(unsafe { File::from_raw_fd(counter) });
        let events = IN | RDHUP | EDGE;
        selector.change(libc::EPOLL_CTL_ADD, counter, events, token.bits())?;
        Ok(waker)
    }

    /// Adds to a counter of the system, which is a change that the selector reports. Nobody reads
    /// the counter, which has 64 bits.
    pub(super) fn wake(&self) -> io::Result<()> {
        (&self.0).write_all(&1_u64.to_ne_bytes())
    }
}

/// The events of one wait.
pub(super) struct Events(Vec<epoll_event>);

impl Events {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    /// Waits for the first event, at most for `timeout`, which is rounded up to milliseconds.
    pub(super) fn wait(
        &mut self,
        selector: &mut Selector,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        // Without a timeout it waits for ever: -1.
        let millis = timeout.map_or(-1, |timeout| {
            let millis = timeout.as_nanos().div_ceil(1_000_000);
            i32::try_from(millis).unwrap_or(i32::MAX)
        });
        self.0.clear();
        let room = self.0.spare_capacity_mut();
        let (selector, most) = (selector.0.as_raw_fd(), room.len());
        let room = room.as_mut_ptr() as usize;
        let args = [selector as usize, room, most, millis as usize, 0, 0];
        // SAFETY: the selector is borrowed, and the kernel writes at most `most` events to the room. It
        // reads no set of signals.
        let count = unsafe { call(libc::SYS_epoll_pwait, args) }?;
        // SAFETY: the kernel has written `count` events from the beginning of the room on,
        // which is the beginning of the vector.
        unsafe { self.0.set_len(count) };
        Ok(())
    }

    /// Calls `visit` with the token and the readiness of each event.
    #[inline(always)]
    pub(super) fn each(&self, mut visit: impl FnMut(u64, Readiness)) {
        for event in &self.0 {
            visit(event.u64, readiness(event.events));
        }
    }
}

fn flags(interests: Interest) -> u32 {
    let mut flags = 0;
    if interests.has(Interest::READ) {
        flags |= IN | RDHUP;
    }
    if interests.has(Interest::WRITE) {
        flags |= OUT;
    }
    flags
}

#[inline(always)]
fn readiness(flags: u32) -> Readiness {
    // Nearly always: something to read, and room to write.
    if flags == IN | OUT {
        return Readiness::READ | Readiness::WRITE;
    }
    unusual(flags)
}

#[inline(never)]
fn unusual(flags: u32) -> Readiness {
    let all = |wanted: u32| flags & wanted == wanted;
    let mut readiness = Readiness::NONE;
    if all(IN) || all(PRI) {
        readiness |= Readiness::READ;
    }
    if all(OUT) {
        readiness |= Readiness::WRITE;
    }
    if all(HUP) || all(IN | RDHUP) || all(OUT | ERR) || flags == ERR {
        readiness |= Readiness::HANG_UP;
    }
    if all(ERR) {
        readiness |= Readiness::ERROR;
    }
    readiness
}

#[cfg(test)]
mod tests {
    //! Each flag of the operating system, and what it means here.

    use super::*;

    #[test]
    fn flags_mean_what_they_mean_to_mio() {
        let (read, write) = (Readiness::READ, Readiness::WRITE);
        let (hang_up, error) = (Readiness::HANG_UP, Readiness::ERROR);
        for (flags, meaning) in [
            (IN, read),
            (PRI, read),
            (OUT, write),
            (IN | OUT, read | write),
            (IN | OUT | RDHUP, read | write | hang_up),
            (OUT | RDHUP, write),
            (HUP, hang_up),
            (IN | OUT | HUP, read | write | hang_up),
            (ERR, hang_up | error),
            (OUT | ERR, write | hang_up | error),
            (IN | ERR, read | error),
        ] {
            assert_eq!(unusual(flags), meaning, "{flags:#x}");
        }
    }
}

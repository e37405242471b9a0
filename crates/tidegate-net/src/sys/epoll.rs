//! The poller of Linux.
//!
//! An event is two numbers, which are read once: that is why this is not `mio`, whose events are asked
//! five questions each. Sockets are watched for changes of their readiness. The readiness of a
//! user-defined source is a level: it is reported as long as it lasts, and need not be armed again
//! after each event.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::descriptor::BorrowedFd;
use super::interest::Interest;
use super::poller::{Change, Readiness, Token};
use super::source::Source;

const IN: EventFlags = EventFlags::IN;
const OUT: EventFlags = EventFlags::OUT;
const PRI: EventFlags = EventFlags::PRI;
const ERR: EventFlags = EventFlags::ERR;
const HUP: EventFlags = EventFlags::HUP;
const RDHUP: EventFlags = EventFlags::RDHUP;
/// Each change is reported once.
const EDGE: EventFlags = EventFlags::ET;

/// An object of the operating system that watches sources.
pub(super) struct Selector(OwnedFd);

impl Selector {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches `source` for reading and writing; each change is reported once.
    pub(super) fn add(&self, source: &mut dyn Source, token: Token) -> io::Result<()> {
        let events = IN | OUT | RDHUP | EDGE;
        Ok(epoll::add(&self.0, source.pollable(), data(token), events)?)
    }

    /// Stops watching `source`.
    pub(super) fn remove(&self, source: &mut dyn Source) -> io::Result<()> {
        Ok(epoll::delete(&self.0, source.pollable())?)
    }

    /// Changes what is watched at the descriptor of a user-defined source.
    pub(super) fn control(
        &self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        change: Change,
    ) -> io::Result<()> {
        let data = data(token);
        match change {
            Change::Add(interests) => epoll::add(&self.0, descriptor, data, flags(interests))?,
            Change::Modify(interests) => {
                epoll::modify(&self.0, descriptor, data, flags(interests))?
            }
            // The readiness is a level.
            Change::Rearm(_) => {}
            Change::Remove => epoll::delete(&self.0, descriptor)?,
        }
        Ok(())
    }
}

fn data(token: Token) -> EventData {
    EventData::new_u64(token.bits())
}

/// Ends a wait from any thread.
pub(super) struct Waker(OwnedFd);

impl Waker {
    /// Creates a waker, whose events have `token`.
    pub(super) fn new(selector: &Selector, token: Token) -> io::Result<Self> {
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&selector.0, &counter, data(token), IN | RDHUP | EDGE)?;
        Ok(Self(counter))
    }

    /// Adds to a counter of the system, which is a change that the selector reports. No code reads
    /// the counter, which has 64 bits.
    pub(super) fn wake(&self) -> io::Result<()> {
        rustix::io::write(self.0.as_fd(), &1_u64.to_ne_bytes())?;
        Ok(())
    }
}

/// The events of one wait.
pub(super) struct Events(Vec<Event>);

// SAFETY: the data of each event is a number, never a pointer.
unsafe impl Send for Events {}

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
        // A timeout that is too long for the system is none.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        self.0.clear();
        epoll::wait(&selector.0, spare_capacity(&mut self.0), timeout.as_ref())?;
        Ok(())
    }

    /// Calls `visit` with the token and the readiness of each event.
    #[inline(always)]
    pub(super) fn each(&self, mut visit: impl FnMut(u64, Readiness)) {
        for event in &self.0 {
            visit(event.data.u64(), readiness(event.flags));
        }
    }
}

fn flags(interests: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    if interests.has(Interest::READ) {
        flags |= IN | RDHUP;
    }
    if interests.has(Interest::WRITE) {
        flags |= OUT;
    }
    flags
}

#[inline(always)]
fn readiness(flags: EventFlags) -> Readiness {
    // Nearly always: something to read, and room to write.
    if flags == IN.union(OUT) {
        return Readiness::READ | Readiness::WRITE;
    }
    unusual(flags)
}

#[inline(never)]
fn unusual(flags: EventFlags) -> Readiness {
    let all = |wanted: EventFlags| flags.contains(wanted);
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
            assert_eq!(unusual(flags), meaning, "{flags:?}");
        }
    }
}

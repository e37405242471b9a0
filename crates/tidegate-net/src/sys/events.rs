//! Events as the operating system reports them.
//!
//! On Linux, unless it is built with `--cfg tidegate_mio`, the poller's descriptor is polled directly: an event is two numbers there, which are
//! read once instead of once for each question. The descriptors of user-defined sources are added
//! directly too, so that their readiness is a level: it is reported as long as it lasts, and need
//! not be armed again after each event.

use std::io;
use std::time::Duration;

use mio::Poll;

use super::descriptor::RawFd;
use super::interest::Interest;
use super::poller::{Change, Readiness, Token};

#[cfg(all(target_os = "linux", not(tidegate_mio)))]
mod platform {
    use std::os::fd::BorrowedFd;

    use rustix::event::Timespec;
    use rustix::event::epoll::{self, Event, EventData, EventFlags};

    use super::{Change, Duration, Interest, Poll, RawFd, Readiness, Token, io};

    /// The events of one wait.
    pub(crate) struct Events(Vec<Event>);

    // SAFETY: the data of an event could be a pointer; here it is a token, and is never
    // dereferenced.
    unsafe impl Send for Events {}

    impl Events {
        pub(crate) fn with_capacity(capacity: usize) -> Self {
            Self(Vec::with_capacity(capacity))
        }

        /// Waits for the first event, at most for `timeout`, which is rounded up to milliseconds.
        pub(crate) fn wait(
            &mut self,
            poll: &mut Poll,
            timeout: Option<Duration>,
        ) -> io::Result<()> {
            let timeout = timeout.map(|timeout| {
                let millis = timeout.as_nanos().div_ceil(1_000_000);
                let millis = i32::try_from(millis).unwrap_or(i32::MAX);
                Timespec {
                    tv_sec: i64::from(millis / 1000),
                    tv_nsec: i64::from(millis % 1000) * 1_000_000,
                }
            });
            self.0.clear();
            let room = rustix::buffer::spare_capacity(&mut self.0);
            epoll::wait(poll.registry(), room, timeout.as_ref())?;
            Ok(())
        }

        /// Calls `visit` with the token and the readiness of each event.
        #[inline(always)]
        pub(crate) fn each(&self, mut visit: impl FnMut(u64, Readiness)) {
            for event in &self.0 {
                visit(event.data.u64(), readiness(event.flags));
            }
        }
    }

    /// Changes what is watched at the descriptor of a user-defined source.
    pub(crate) fn control(
        poll: &Poll,
        descriptor: RawFd,
        token: Token,
        change: Change,
    ) -> io::Result<()> {
        let poll = poll.registry();
        // SAFETY: the source that owns the descriptor is registered or about to be, and keeps it
        // open during this call. Were it closed all the same, the system would return an error.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let data = EventData::new_u64(token.bits());
        match change {
            Change::Add(interests) => epoll::add(poll, descriptor, data, flags(interests))?,
            Change::Modify(interests) => epoll::modify(poll, descriptor, data, flags(interests))?,
            // The readiness is a level.
            Change::Rearm(_) => {}
            Change::Remove => epoll::delete(poll, descriptor)?,
        }
        Ok(())
    }

    fn flags(interests: Interest) -> EventFlags {
        let mut flags = EventFlags::empty();
        if interests.has(Interest::READ) {
            flags |= EventFlags::IN | EventFlags::RDHUP;
        }
        if interests.has(Interest::WRITE) {
            flags |= EventFlags::OUT;
        }
        flags
    }

    #[inline(always)]
    fn readiness(flags: EventFlags) -> Readiness {
        let usual = EventFlags::IN | EventFlags::OUT;
        // Nearly always: something to read, and room to write.
        if flags == usual {
            return Readiness::READ | Readiness::WRITE;
        }
        unusual(flags)
    }

    #[inline(never)]
    pub(super) fn unusual(flags: EventFlags) -> Readiness {
        let mut readiness = Readiness::NONE;
        if flags.intersects(EventFlags::IN | EventFlags::PRI) {
            readiness |= Readiness::READ;
        }
        if flags.contains(EventFlags::OUT) {
            readiness |= Readiness::WRITE;
        }
        let input_ended = EventFlags::IN | EventFlags::RDHUP;
        let output_ended = EventFlags::OUT | EventFlags::ERR;
        if flags.contains(EventFlags::HUP)
            || flags.contains(input_ended)
            || flags.contains(output_ended)
            || flags == EventFlags::ERR
        {
            readiness |= Readiness::HANG_UP;
        }
        if flags.contains(EventFlags::ERR) {
            readiness |= Readiness::ERROR;
        }
        readiness
    }
}

#[cfg(not(all(target_os = "linux", not(tidegate_mio))))]
mod platform {
    use super::super::descriptor::WatchedFd;
    use super::{Change, Duration, Interest, Poll, RawFd, Readiness, Token, io};

    /// The events of one wait.
    pub(crate) struct Events(mio::Events);

    impl Events {
        pub(crate) fn with_capacity(capacity: usize) -> Self {
            Self(mio::Events::with_capacity(capacity))
        }

        /// Waits for the first event, at most for `timeout`.
        pub(crate) fn wait(
            &mut self,
            poll: &mut Poll,
            timeout: Option<Duration>,
        ) -> io::Result<()> {
            poll.poll(&mut self.0, timeout)
        }

        /// Calls `visit` with the token and the readiness of each event.
        pub(crate) fn each(&self, mut visit: impl FnMut(u64, Readiness)) {
            for event in &self.0 {
                let mut readiness = Readiness::NONE;
                if event.is_readable() {
                    readiness |= Readiness::READ;
                }
                if event.is_writable() {
                    readiness |= Readiness::WRITE;
                }
                if event.is_read_closed() || event.is_write_closed() {
                    readiness |= Readiness::HANG_UP;
                }
                if event.is_error() {
                    readiness |= Readiness::ERROR;
                }
                visit(event.token().0 as u64, readiness);
            }
        }
    }

    /// Changes what is watched at the descriptor of a user-defined source. A change of readiness is
    /// reported once, and again after each change of this kind.
    pub(crate) fn control(
        poll: &Poll,
        descriptor: RawFd,
        token: Token,
        change: Change,
    ) -> io::Result<()> {
        let mut source = WatchedFd(descriptor);
        let registry = poll.registry();
        let token = mio::Token(usize::try_from(token.bits()).unwrap_or(usize::MAX));
        match change {
            Change::Add(interests) => registry.register(&mut source, token, kind(interests)),
            Change::Modify(interests) | Change::Rearm(interests) => {
                registry.reregister(&mut source, token, kind(interests))
            }
            Change::Remove => registry.deregister(&mut source),
        }
    }

    fn kind(interests: Interest) -> mio::Interest {
        let write = interests.has(Interest::WRITE);
        match interests.has(Interest::READ) {
            true if write => mio::Interest::READABLE | mio::Interest::WRITABLE,
            false if write => mio::Interest::WRITABLE,
            _ => mio::Interest::READABLE,
        }
    }
}

pub(crate) use self::platform::{Events, control};

#[cfg(all(test, target_os = "linux", not(tidegate_mio)))]
mod tests {
    //! Each flag of the operating system, and what it means here.

    use rustix::event::epoll::EventFlags;

    use super::*;

    #[test]
    fn flags_mean_what_they_mean_to_mio() {
        let (read, write) = (Readiness::READ, Readiness::WRITE);
        let (hang_up, error) = (Readiness::HANG_UP, Readiness::ERROR);
        let (input, output) = (EventFlags::IN, EventFlags::OUT);
        let (ended, both) = (EventFlags::RDHUP, EventFlags::HUP);
        let broken = EventFlags::ERR;
        for (flags, meaning) in [
            (input, read),
            (EventFlags::PRI, read),
            (output, write),
            (input | output, read | write),
            (input | output | ended, read | write | hang_up),
            (output | ended, write),
            (both, hang_up),
            (input | output | both, read | write | hang_up),
            (broken, hang_up | error),
            (output | broken, write | hang_up | error),
            (input | broken, read | error),
        ] {
            assert_eq!(platform::unusual(flags), meaning, "{flags:?}");
        }
    }
}

//! Events as the operating system reports them.
//!
//! On Linux, unless it is built with `--cfg tidegate_mio`, the poller's descriptor is polled
//! directly: an event is two numbers there, which are read once instead of once for each question.
//! The descriptors of user-defined sources are added directly too, so that their readiness is a
//! level: it is reported as long as it lasts, and need not be armed again after each event.

use std::io;
use std::time::Duration;

use mio::Poll;

use super::descriptor::RawFd;
use super::interest::Interest;
use super::poller::{Change, Readiness, Token};

#[cfg(all(target_os = "linux", not(tidegate_mio)))]
mod platform {
    use std::os::fd::AsRawFd;

    use libc::epoll_event;

    use super::super::call::call;
    use super::{Change, Duration, Interest, Poll, RawFd, Readiness, Token, io};

    // The flags of an event.
    pub(super) const IN: u32 = libc::EPOLLIN as u32;
    pub(super) const OUT: u32 = libc::EPOLLOUT as u32;
    pub(super) const PRI: u32 = libc::EPOLLPRI as u32;
    pub(super) const ERR: u32 = libc::EPOLLERR as u32;
    pub(super) const HUP: u32 = libc::EPOLLHUP as u32;
    pub(super) const RDHUP: u32 = libc::EPOLLRDHUP as u32;

    /// The events of one wait.
    pub(crate) struct Events(Vec<epoll_event>);

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
            // Without a timeout it waits for ever: -1.
            let millis = timeout.map_or(-1, |timeout| {
                let millis = timeout.as_nanos().div_ceil(1_000_000);
                i32::try_from(millis).unwrap_or(i32::MAX)
            });
            self.0.clear();
            let room = self.0.spare_capacity_mut();
            let (poll, most) = (poll.as_raw_fd(), room.len());
            let room = room.as_mut_ptr() as usize;
            let args = [poll as usize, room, most, millis as usize, 0, 0];
            // SAFETY: the poller is borrowed, and the kernel writes at most `most` events to the room. It
            // reads no set of signals.
            let count = unsafe { call(libc::SYS_epoll_pwait, args) }?;
            // SAFETY: the kernel has written `count` events from the beginning of the room on,
            // which is the beginning of the vector.
            unsafe { self.0.set_len(count) };
            Ok(())
        }

        /// Calls `visit` with the token and the readiness of each event.
        #[inline(always)]
        pub(crate) fn each(&self, mut visit: impl FnMut(u64, Readiness)) {
            for event in &self.0 {
                visit(event.u64, readiness(event.events));
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
        let (operation, events) = match change {
            Change::Add(interests) => (libc::EPOLL_CTL_ADD, flags(interests)),
            Change::Modify(interests) => (libc::EPOLL_CTL_MOD, flags(interests)),
            // The readiness is a level.
            Change::Rearm(_) => return Ok(()),
            Change::Remove => (libc::EPOLL_CTL_DEL, 0),
        };
        let u64 = token.bits();
        let mut event = epoll_event { events, u64 };
        // SAFETY: the kernel reads one event. The source that owns the descriptor is registered or
        // about to be, and keeps it open during this call. Were it closed all the same, the system
        // would return an error.
        match unsafe { libc::epoll_ctl(poll.as_raw_fd(), operation, descriptor, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
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
    pub(super) fn unusual(flags: u32) -> Readiness {
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

    use super::platform::{ERR, HUP, IN, OUT, PRI, RDHUP};
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
            assert_eq!(platform::unusual(flags), meaning, "{flags:#x}");
        }
    }
}

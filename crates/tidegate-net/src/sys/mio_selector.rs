//! The poller of the `mio` crate: epoll, kqueue or the mechanism of another platform.

use std::io;
#[cfg(unix)]
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::Poll;

use super::descriptor::BorrowedFd;
use super::interest::Interest;
use super::poller::{Change, Readiness, Token};
use super::source::Source;

/// An object of the operating system that watches sources.
pub(super) struct Selector(Poll);

impl Selector {
    pub(super) fn new() -> io::Result<Self> {
        Poll::new().map(Self)
    }

    /// Watches `source` for reading and writing; each change is reported once.
    pub(super) fn add(&self, source: &mut dyn Source, token: Token) -> io::Result<()> {
        let both = mio::Interest::READABLE | mio::Interest::WRITABLE;
        let registry = self.0.registry();
        registry.register(source.pollable(), number(token), both)
    }

    /// Stops watching `source`.
    pub(super) fn remove(&self, source: &mut dyn Source) -> io::Result<()> {
        self.0.registry().deregister(source.pollable())
    }

    /// Changes what is watched at the descriptor of a user-defined source. A change of readiness is
    /// reported once, and again after each change of this kind.
    #[cfg(unix)]
    pub(super) fn control(
        &self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        change: Change,
    ) -> io::Result<()> {
        let (registry, token) = (self.0.registry(), number(token));
        let one = &mut mio::unix::SourceFd(&descriptor.as_raw_fd());
        match change {
            Change::Add(interests) => registry.register(one, token, kind(interests)),
            Change::Modify(interests) | Change::Rearm(interests) => {
                registry.reregister(one, token, kind(interests))
            }
            Change::Remove => registry.deregister(one),
        }
    }

    /// It watches only the sockets of `mio` there.
    #[cfg(windows)]
    pub(super) fn control(&self, _: BorrowedFd<'_>, _: Token, _: Change) -> io::Result<()> {
        let what = "user-defined sources are not supported on Windows; use a channel";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }
}

/// Ends a wait from any thread.
pub(super) struct Waker(mio::Waker);

impl Waker {
    /// Creates a waker, whose events have `token`.
    pub(super) fn new(selector: &Selector, token: Token) -> io::Result<Self> {
        mio::Waker::new(selector.0.registry(), number(token)).map(Self)
    }

    pub(super) fn wake(&self) -> io::Result<()> {
        self.0.wake()
    }
}

/// The events of one wait.
pub(super) struct Events(mio::Events);

impl Events {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self(mio::Events::with_capacity(capacity))
    }

    /// Waits for the first event, at most for `timeout`.
    pub(super) fn wait(
        &mut self,
        selector: &mut Selector,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        selector.0.poll(&mut self.0, timeout)
    }

    /// Calls `visit` with the token and the readiness of each event.
    pub(super) fn each(&self, mut visit: impl FnMut(u64, Readiness)) {
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

fn number(token: Token) -> mio::Token {
    mio::Token(usize::try_from(token.bits()).unwrap_or(usize::MAX))
}

fn kind(interests: Interest) -> mio::Interest {
    let write = interests.has(Interest::WRITE);
    match interests.has(Interest::READ) {
        true if write => mio::Interest::READABLE | mio::Interest::WRITABLE,
        false if write => mio::Interest::WRITABLE,
        _ => mio::Interest::READABLE,
    }
}

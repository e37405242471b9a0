//! The poller of the operating system: epoll, kqueue or the mechanism of another platform.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::internal::Sleeper;

use super::descriptor::BorrowedFd;
#[cfg(target_os = "linux")]
use super::epoll::{Events, Selector, Waker};
#[cfg(not(target_os = "linux"))]
use super::mio_selector::{Events, Selector, Waker};
use super::poller::{Change, Poller, Ready, Token};
use super::source::Source;

/// Maximum number of events per wait.
const BATCH: usize = 1024;
/// The token of the waker; no slot has a number that high. Like the token of a user-defined source,
/// it has the highest bit.
const WAKE: Token = Token::from_bits(u64::MAX);

/// A [`Poller`] that waits for the operating system.
pub(crate) struct SystemPoller {
    selector: Selector,
    events: Events,
    /// Events of user-defined sources.
    selected: Vec<Ready>,
    waker: Arc<PollWaker>,
}

/// Ends a wait. Each wake is a system call; the loop's doorbell makes sure that there is one per
/// sleep.
struct PollWaker {
    waker: Waker,
    wakes: AtomicU64,
    notified: AtomicBool,
}

impl SystemPoller {
    /// Creates a poller that watches nothing yet.
    ///
    /// # Errors
    ///
    /// The error of the operating system, for example that no descriptors are left.
    pub(crate) fn new() -> io::Result<Self> {
        let selector = Selector::new()?;
        let waker = Waker::new(&selector, WAKE)?;
        Ok(Self {
            selector,
            events: Events::with_capacity(BATCH),
            selected: Vec::new(),
            waker: Arc::new(PollWaker {
                waker,
                wakes: AtomicU64::new(0),
                notified: AtomicBool::new(false),
            }),
        })
    }
}

impl Poller for SystemPoller {
    fn register(&mut self, source: &mut dyn Source, token: Token) -> io::Result<()> {
        self.selector.add(source, token)
    }

    fn deregister(&mut self, source: &mut dyn Source) -> io::Result<()> {
        self.selector.remove(source)
    }

    fn poll(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<usize> {
        match self.events.wait(&mut self.selector, timeout) {
            Ok(()) => {}
            Err(why) if why.kind() == io::ErrorKind::Interrupted => return Ok(0),
            Err(why) => return Err(why),
        }
        let (waker, selected) = (&self.waker, &mut self.selected);
        let before = selected.len();
        self.events.each(|bits, readiness| {
            let token = Token::from_bits(bits);
            let event = Ready { token, readiness };
            if !token.is_of_user() {
                ready.push(event);
            } else if token == WAKE {
                waker.notified.store(false, Ordering::Relaxed);
            } else {
                selected.push(event);
            }
        });
        Ok(self.selected.len() - before)
    }

    fn control(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        change: Change,
    ) -> io::Result<()> {
        self.selector.control(descriptor, token, change)
    }

    fn take_selected(&mut self) -> Vec<Ready> {
        std::mem::take(&mut self.selected)
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::<PollWaker>::clone(&self.waker)
    }
}

impl PollWaker {
    fn ring(&self) {
        // A full eventfd has been written to: its reader wakes up all the same.
        let _ = self.waker.wake();
    }
}

impl Sleeper for PollWaker {
    fn wake(&self) {
        self.notified.store(true, Ordering::Relaxed);
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.ring();
    }

    fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Relaxed)
    }

    fn is_notified(&self) -> bool {
        self.notified.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    //! A poller of the operating system.

    use super::*;

    #[test]
    fn a_poller_that_was_woken_returns_at_once() {
        let mut poller = SystemPoller::new().unwrap();
        poller.waker().wake();
        let mut ready = Vec::new();
        poller.poll(&mut ready, None).unwrap();
        assert!(ready.is_empty());
    }
}

//! The interface through which the operating system reports readiness.

use std::fmt;
use std::io;
use std::ops::{BitOr, BitOrAssign};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::Sleeper;

use super::descriptor::BorrowedFd;
use super::interest::Interest;
use super::source::Source;

/// The token of a registration: a slot and its generation, which changes each time the slot is
/// reused. So an event for a source that is gone is not taken for one of its successor.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token(u64);

impl Token {
    /// Creates the token for generation `generation` of slot `slot`.
    pub(crate) const fn new(slot: u32, generation: u32) -> Self {
        Self(((generation as u64) << 32) | slot as u64)
    }

    /// The bit that marks the token of a user-defined source. Generations leave it free.
    pub(crate) const USER: u64 = 1 << 63;

    /// Returns the token of the user-defined source in the slot of this token. Such sources have a
    /// table of their own.
    pub(crate) const fn of_user(self) -> Self {
        Self(self.0 | Self::USER)
    }

    /// Returns the token by which the table of user-defined sources knows this one.
    pub(crate) const fn in_table(self) -> Self {
        Self(self.0 & !Self::USER)
    }

    /// Returns `true` if this is the token of a user-defined source.
    pub(crate) const fn is_of_user(self) -> bool {
        self.0 & Self::USER != 0
    }

    /// Creates a token from the number that a poller returned.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the token as a poller stores it.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the slot in the table.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub(crate) const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// Returns the generation of the slot.
    pub(crate) const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}.{})", self.slot(), self.generation())
    }
}

/// What a source is ready for.
///
/// ```
/// use tidegate_net::Readiness;
///
/// let both = Readiness::READ | Readiness::WRITE;
/// assert!(both.is_readable() && both.is_writable() && !both.has(Readiness::HANG_UP));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Readiness(u8);

impl Readiness {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// There is something to read or to accept.
    pub const READ: Self = Self(1);
    /// There is room to write, or a connect has ended.
    pub const WRITE: Self = Self(2);
    /// The peer has closed its sending half. The bytes that it sent before can still be read.
    pub const HANG_UP: Self = Self(4);
    /// Something is wrong; reading or writing returns the error.
    pub const ERROR: Self = Self(8);
    /// Requests are queued for the channel.
    pub(crate) const REQUESTS: Self = Self(16);

    /// Returns `true` if there is something to read or to accept.
    #[inline]
    pub const fn is_readable(self) -> bool {
        self.has(Self::READ)
    }

    /// Returns `true` if there is room to write, or if a connect has ended.
    #[inline]
    pub const fn is_writable(self) -> bool {
        self.has(Self::WRITE)
    }

    /// Returns `true` if this contains all of `other`.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns `true` if this contains any of `other`.
    #[inline]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns `true` if this is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Readiness {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READ, "READ"),
            (Self::WRITE, "WRITE"),
            (Self::HANG_UP, "HANG_UP"),
            (Self::ERROR, "ERROR"),
            (Self::REQUESTS, "REQUESTS"),
        ];
        let mut list = f.debug_set();
        for (bit, name) in names {
            if self.has(bit) {
                list.entry(&format_args!("{name}"));
            }
        }
        list.finish()
    }
}

/// One event: a source and its readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The source.
    pub token: Token,
    /// What it is ready for.
    pub readiness: Readiness,
}

/// A change of what the poller watches at a descriptor of a user-defined source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Watches the descriptor, which was not watched.
    Add(Interest),
    /// Watches the descriptor for something else.
    Modify(Interest),
    /// Reports the present readiness of the descriptor again; it is watched for this already.
    Rearm(Interest),
    /// Stops watching the descriptor.
    Remove,
}

/// A poller that a loop with I/O waits on. Edge-triggered: a registration is armed once for
/// reading, writing and hang-up, and each change is reported once.
pub(crate) trait Poller: Send + 'static {
    /// Watches `source` under `token` until it is deregistered or closed.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    fn register(&mut self, source: &mut dyn Source, token: Token) -> io::Result<()>;

    /// Stops watching `source`.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    fn deregister(&mut self, source: &mut dyn Source) -> io::Result<()>;

    /// Adds events to `ready`. If there are none yet, waits at most for `timeout`, or without limit
    /// if it is `None`. Returns early, possibly without events, when woken. Keeps the events of
    /// user-defined sources for [`take_selected`](Poller::take_selected), and returns their number.
    ///
    /// # Errors
    ///
    /// The error of the operating system; an interruption by a signal is not an error.
    fn poll(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<usize>;

    /// Changes what is watched at the descriptor of a user-defined source. The interests of
    /// `change` are not empty.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    fn control(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        change: Change,
    ) -> io::Result<()>;

    /// Returns the events of user-defined sources since the last call, oldest first.
    fn take_selected(&mut self) -> Vec<Ready>;

    /// Returns the waker, which wakes the poller from any thread.
    fn waker(&self) -> Arc<dyn Sleeper>;
}

//! The small trait behind which the operating system says what is ready.

use std::fmt;
use std::io;
use std::ops::{BitOr, BitOrAssign};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Sleeper;

pub use mio::event::Source;

/// The name of a registration: a slot and how often the slot was used before, so that an event
/// for something that is gone is never taken for its successor's.
///
/// ```
/// use tidegate_net::sys::Token;
///
/// let token = Token::new(7, 3);
/// assert_eq!((token.slot(), token.generation()), (7, 3));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(u64);

impl Token {
    /// Generation `generation` of slot `slot`.
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self(((generation as u64) << 32) | slot as u64)
    }

    /// The token that a poller answers with.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The token as a poller stores it.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The place in the table.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// How often the place was used before.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}.{})", self.slot(), self.generation())
    }
}

/// What something is ready for.
///
/// ```
/// use tidegate_net::sys::Readiness;
///
/// let both = Readiness::READ | Readiness::WRITE;
/// assert!(both.has(Readiness::READ) && !both.has(Readiness::HANG_UP));
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
    /// The peer writes no more: reading goes on until the end.
    pub const HANG_UP: Self = Self(4);
    /// Something is wrong; reading or writing tells what.
    pub const ERROR: Self = Self(8);
    /// There is mail in the channel's box.
    pub(crate) const MAIL: Self = Self(16);

    /// Whether all of `other` is in this.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is in this.
    #[inline]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it is ready for nothing.
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
            (Self::MAIL, "MAIL"),
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

/// One event: who is ready, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Who.
    pub token: Token,
    /// For what.
    pub readiness: Readiness,
}

/// What a loop with I/O waits on. Edge-triggered: a registration is armed once for reading,
/// writing and hang-up, and each change is told once.
pub trait Poller: Send + 'static {
    /// Watches `source` under `token` until it is deregistered or closed.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn register(&mut self, source: &mut dyn Source, token: Token) -> io::Result<()>;

    /// Watches `source` no more.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn deregister(&mut self, source: &mut dyn Source) -> io::Result<()>;

    /// Adds what became ready to `ready`, waiting for the first at most for `timeout`. Returns
    /// early, with nothing, when woken.
    ///
    /// # Errors
    ///
    /// What the operating system says; an interruption by a signal is not an error.
    fn poll(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()>;

    /// Begins anew: takes another object from the operating system in the place of one that fails
    /// or spins, and watches `sources` with it. Answers those that could not be moved. Whoever has
    /// the waker need not know.
    ///
    /// # Errors
    ///
    /// What the operating system says; then the old one is still there. By default, that this
    /// poller cannot do so.
    fn renew(&mut self, sources: Vec<(Token, &mut dyn Source)>) -> io::Result<Vec<Token>> {
        drop(sources);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Watches a source that was absent when it [began anew](Poller::renew), and that the one before
    /// watched.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn adopt(&mut self, source: &mut dyn Source, token: Token) -> io::Result<()> {
        self.register(source, token)
    }

    /// Nobody is absent any more who was when it began anew: lets go of what it kept for them.
    fn forget(&mut self) {}

    /// Wakes the poller from any thread.
    fn waker(&self) -> Arc<dyn Sleeper>;
}

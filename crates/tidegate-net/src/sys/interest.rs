//! What a user-defined source wants to be selected for.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// The interests of a source: the kinds of readiness for which its event loop selects it.
///
/// A hang-up and an error of the descriptor are reported with either interest. A source without
/// interests ([`Interest::NONE`]) is registered, but is not watched.
///
/// ```
/// use tidegate_net::source::Interest;
///
/// let both = Interest::READ | Interest::WRITE;
/// assert!(both.has(Interest::WRITE));
/// assert_eq!(both.without(Interest::WRITE), Interest::READ);
/// assert!(Interest::NONE.is_none());
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Interest(u8);

impl Interest {
    /// Nothing: the source is not watched.
    pub const NONE: Self = Self(0);
    /// There is something to read.
    pub const READ: Self = Self(1);
    /// There is room to write.
    pub const WRITE: Self = Self(2);

    /// Returns `true` if this contains all of `other`.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns these interests without those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns `true` if this is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.has(Self::READ), self.has(Self::WRITE)) {
            (true, true) => "read and write",
            (true, false) => "read",
            (false, true) => "write",
            (false, false) => "none",
        })
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interest({self})")
    }
}

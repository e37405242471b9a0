//! A body that is gathered in memory, up to a limit.

use bytes::{Bytes, BytesMut};

/// The largest first piece that is copied. A larger one shares the memory into which it was received;
/// a small one would keep much more memory than it needs from being used for the next read.
const SMALL: usize = 4 * 1024;

/// The pieces of a body, as one. A large body in one piece is passed on as it was received.
#[derive(Debug)]
pub(crate) struct Gathered {
    max: usize,
    first: Bytes,
    rest: BytesMut,
}

impl Gathered {
    /// Creates an empty body of at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            first: Bytes::new(),
            rest: BytesMut::new(),
        }
    }

    /// Returns the limit.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    fn len(&self) -> usize {
        self.first.len().max(self.rest.len())
    }

    /// Adds a piece. Returns `false` if the body becomes too large; the piece is not added then.
    pub(crate) fn add(&mut self, piece: &Bytes) -> bool {
        let length = self.len();
        if piece.len() > self.max - length {
            return false;
        }
        if length == 0 && piece.len() > SMALL {
            self.first = piece.clone();
            return true;
        }
        if self.rest.is_empty() {
            self.rest
                .extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(piece);
        true
    }

    /// Returns the whole body.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self.rest.is_empty() {
            true => self.first,
            false => self.rest.freeze(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_large_piece_is_not_copied() {
        for (length, shares) in [(SMALL, false), (SMALL + 1, true)] {
            let piece = Bytes::from(vec![b'x'; length]);
            let mut one = Gathered::new(length);
            assert!(one.add(&Bytes::new()) && one.add(&piece));
            let whole = one.into_bytes();
            assert_eq!((whole.as_ptr() == piece.as_ptr(), &whole), (shares, &piece));
        }
    }

    #[test]
    fn several_pieces_are_joined_up_to_the_limit() {
        let large = Bytes::from(vec![b'x'; SMALL + 1]);
        let mut joined = Gathered::new(SMALL + 4);
        assert!(joined.add(&large) && joined.add(&Bytes::from("abc")));
        assert!(!joined.add(&Bytes::from("d")));
        assert!(joined.into_bytes().ends_with(b"xabc"));
        let piece = Bytes::from("abc");
        let mut several = Gathered::new(7);
        for _ in 0..2 {
            assert!(several.add(&Bytes::new()) && several.add(&piece));
        }
        assert!(!several.add(&Bytes::from("de")), "eight bytes");
        assert!(several.add(&Bytes::from("d")));
        assert_eq!(several.into_bytes(), "abcabcd");
    }

    #[test]
    fn the_limit_may_be_zero() {
        let mut none = Gathered::new(0);
        assert!(none.add(&Bytes::new()) && !none.add(&Bytes::from("a")));
        assert!(none.into_bytes().is_empty());
    }
}

//! The beginning of a request's body, kept until something of the request was sent.
//!
//! A body comes from its client once. The connection that it is written to may be closed before a
//! byte of the request leaves: the server has ended a connection that was idle. Such a request goes to
//! another connection, with what is kept.

use tidegate::net::Bytes;

/// How many bytes are kept. The request of a longer body that was begun cannot be sent again.
const MOST: usize = 16 * 1024;

/// What was read of a body.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// A copy, so that the memory of the client's connection is free when the body is sent.
    bytes: Vec<u8>,
    /// The trailers, once the body has ended. Most have none.
    end: Option<Bytes>,
}

impl Kept {
    /// Adds a piece. Returns `false` if there is no room for it.
    pub(super) fn add(&mut self, piece: &[u8]) -> bool {
        let has_room = self.bytes.len() + piece.len() <= MOST;
        if has_room {
            self.bytes.extend_from_slice(piece);
        }
        has_room
    }

    /// Notes the end of the body, with its trailers.
    pub(super) fn end(&mut self, trailers: Bytes) {
        self.end = Some(trailers);
    }

    /// Returns what was read, if it is not empty.
    pub(super) fn piece(&self) -> Option<Bytes> {
        let bytes = &self.bytes;
        (!bytes.is_empty()).then(|| Bytes::copy_from_slice(bytes))
    }

    /// Returns the trailers if the body has ended.
    pub(super) fn trailers(&self) -> Option<&Bytes> {
        self.end.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_kept_up_to_its_limit() {
        let mut kept = Kept::default();
        assert_eq!(kept.piece(), None);
        assert!(kept.add(b"some"));
        assert!(kept.add(&[b'x'; MOST - 4]));
        assert!(!kept.add(b"y"));
        assert_eq!(kept.piece().map(|piece| piece.len()), Some(MOST));
        assert_eq!(kept.trailers(), None);
        kept.end(Bytes::from_static(b"A: 1\r\n"));
        assert_eq!(
            kept.trailers().map(|lines| &lines[..]),
            Some(&b"A: 1\r\n"[..])
        );
    }
}

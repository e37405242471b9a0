//! Interim responses: heads with a status from 102 to 199, which a client gets before the response.
//!
//! They keep the order of the responses. One whose response waits for an earlier response is held back
//! until its turn comes, as long as the connection does not hold too many; then it is dropped.

use bytes::{Bytes, BytesMut};

use crate::codec::{EncodeError, KnownField, encode};

/// How many bytes of interim responses a connection holds back.
const MOST_HELD: usize = 64 * 1024;

/// Writes the head of an interim response.
///
/// # Errors
///
/// [`EncodeError::Status`] for a status that is not interim, and for those that the server itself sends;
/// or what is wrong with a field.
pub(crate) fn interim_head<N: AsRef<str>, V: AsRef<[u8]>>(
    status: u16,
    fields: impl IntoIterator<Item = (N, V)>,
) -> Result<Bytes, EncodeError> {
    if !(102..=199).contains(&status) {
        return Err(EncodeError::Status);
    }
    let mut head = BytesMut::new();
    encode::status_line(&mut head, status)?;
    for (name, value) in fields {
        let name = name.as_ref();
        // As in a response: it is the server's decision.
        if KnownField::of(name.as_bytes()) != Some(KnownField::Connection) {
            encode::field(&mut head, name, value.as_ref())?;
        }
    }
    encode::head_end(&mut head);
    Ok(head.freeze())
}

/// The interim responses that wait for their turn, oldest first.
#[derive(Debug, Default)]
pub(crate) struct HeldInterim {
    /// Each with the number of its response.
    heads: Vec<(u64, Bytes)>,
    bytes: usize,
}

impl HeldInterim {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Holds a head of response `seq`, or drops it if there are too many.
    pub(crate) fn hold(&mut self, seq: u64, head: Bytes) {
        if self.bytes + head.len() <= MOST_HELD {
            self.bytes += head.len();
            self.heads.push((seq, head));
        }
    }

    /// Removes and returns the heads of the responses up to `seq`.
    pub(crate) fn take(&mut self, seq: u64) -> Vec<Bytes> {
        let due = self.heads.extract_if(.., |(own, _)| *own <= seq);
        let due: Vec<Bytes> = due.map(|(_, head)| head).collect();
        self.bytes -= due.iter().map(Bytes::len).sum::<usize>();
        if self.heads.is_empty() {
            // An idle connection holds no memory.
            self.heads = Vec::new();
        }
        due
    }

    /// Drops all of them: their responses are not sent.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_an_interim_status_and_valid_fields() {
        let head = interim_head(103, [("Link", "</a>"), ("connection", "close"), ("X", "")]);
        let expected = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX: \r\n\r\n";
        assert_eq!(head.unwrap(), expected);
        let none = [("", ""); 0];
        assert!(
            interim_head(199, none)
                .unwrap()
                .starts_with(b"HTTP/1.1 199 ")
        );
        for status in [0, 99, 100, 101, 200, 503] {
            assert_eq!(interim_head(status, none), Err(EncodeError::Status));
        }
        let rows = [
            ("a b", "", EncodeError::FieldName),
            ("a", "1\r\nb: 2", EncodeError::FieldValue),
            ("Content-Length", "0", EncodeError::FramingField),
        ];
        for (name, value, why) in rows {
            assert_eq!(interim_head(103, [(name, value)]), Err(why), "{name}");
        }
    }

    #[test]
    fn what_is_held_is_bounded_and_leaves_nothing() {
        let mut held = HeldInterim::default();
        let large = Bytes::from(vec![0; MOST_HELD / 2]);
        for seq in [1, 2, 3] {
            held.hold(seq, large.clone());
        }
        assert_eq!(held.take(0).len(), 0);
        assert_eq!(held.take(1).len(), 1);
        held.hold(4, large);
        assert_eq!(held.take(4).len(), 2);
        assert!(held.is_empty() && held.bytes == 0 && held.heads.capacity() == 0);
    }
}

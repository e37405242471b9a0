//! Field lines that are checked once and written many times.

use std::fmt;
use std::ops::Range;

use crate::codec::chars;
use crate::codec::known::KnownField;

use super::error::EncodeError;
use super::head::field;

/// Fields that are checked once and written many times: one line or more.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::FieldLines;
///
/// let server = FieldLines::new("Server", b"tidegate")?;
/// let both = server.and("Vary", b"Accept")?;
/// assert_eq!(both.as_bytes(), b"Server: tidegate\r\nVary: Accept\r\n");
/// # Ok::<(), tidegate_http::codec::EncodeError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct FieldLines {
    text: Vec<u8>,
    places: Vec<LinePlace>,
    /// The parser locates one of them.
    has_known: bool,
    /// A server has to know of one of them: `Connection`, `Date` or `Upgrade`.
    is_for_server: bool,
}

/// Where the name and the value of a line are in its text, which has at most 65,535 bytes, as a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinePlace {
    pub(crate) name: u16,
    pub(crate) name_end: u16,
    pub(crate) value: u16,
    pub(crate) value_end: u16,
}

impl LinePlace {
    #[inline]
    pub(crate) fn value(self) -> Range<usize> {
        usize::from(self.value)..usize::from(self.value_end)
    }

    /// Returns where the line ends, with its CR LF.
    #[inline]
    pub(crate) fn end(self) -> usize {
        usize::from(self.value_end) + 2
    }
}

impl FieldLines {
    /// Checks a field.
    ///
    /// # Errors
    ///
    /// As [`field`](super::field); [`EncodeError::HeadTooLarge`] if the line has more than
    /// 65,535 bytes.
    pub fn new(name: &str, value: &[u8]) -> Result<Self, EncodeError> {
        let none = Self {
            text: Vec::new(),
            places: Vec::new(),
            has_known: false,
            is_for_server: false,
        };
        none.and(name, value)
    }

    /// Checks another field, and adds it behind the others.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), for all lines together.
    pub fn and(mut self, name: &str, value: &[u8]) -> Result<Self, EncodeError> {
        // Nothing more than they need: they are kept for long.
        self.text.reserve_exact(name.len() + value.len() + 4);
        self.places.reserve_exact(1);
        let start = self.text.len();
        field(&mut self.text, name, value)?;
        let end = u16::try_from(self.text.len()).map_err(|_| EncodeError::HeadTooLarge)?;
        // They are below the end, which fits.
        self.places.push(LinePlace {
            name: start as u16,
            name_end: (start + name.len()) as u16,
            value: (start + name.len() + 2) as u16,
            value_end: end - 2,
        });
        self.has_known |= KnownField::of(name.as_bytes()).is_some();
        let for_server = ["connection", "date", "upgrade"];
        self.is_for_server |= for_server.iter().any(|own| name.eq_ignore_ascii_case(own));
        Ok(self)
    }

    /// Replaces bytes of the value of a field, from `at`, by as many others. Fields are counted from
    /// zero.
    ///
    /// # Errors
    ///
    /// [`EncodeError::FieldValue`] if there is no such field, its value is too short, or `part` is not
    /// visible ASCII.
    #[inline]
    pub fn overwrite<const N: usize>(
        &mut self,
        field: usize,
        at: usize,
        part: &[u8; N],
    ) -> Result<(), EncodeError> {
        let value = self.places.get(field).map(|place| place.value());
        let value = value.and_then(|value| self.text.get_mut(value));
        let own = value.and_then(|value| value.get_mut(at..)?.first_chunk_mut());
        let own = own.filter(|_| is_visible(part));
        *own.ok_or(EncodeError::FieldValue)? = *part;
        Ok(())
    }

    /// Returns the number of fields.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is at least one field")]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the lines, each with its CR LF.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Returns `true` if one of them is a field that the parser locates.
    #[inline]
    pub(crate) fn has_known(&self) -> bool {
        self.has_known
    }

    /// Returns `true` if one of them is a field that a server has to know of: `Connection`, `Date` or
    /// `Upgrade`.
    #[inline]
    pub(crate) fn is_for_server(&self) -> bool {
        self.is_for_server
    }

    /// Returns where the lines are in [`as_bytes`](Self::as_bytes).
    #[inline]
    pub(crate) fn places(&self) -> &[LinePlace] {
        &self.places
    }

    /// Returns the name and the value of a field.
    pub(crate) fn parts(&self, place: LinePlace) -> (&str, &[u8]) {
        let name = usize::from(place.name)..usize::from(place.name_end);
        (chars::ascii(&self.text[name]), &self.text[place.value()])
    }
}

impl fmt::Debug for FieldLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.text.escape_ascii())
    }
}

/// Returns `true` for bytes that are visible ASCII.
#[inline]
pub(crate) fn is_visible<const N: usize>(part: &[u8; N]) -> bool {
    // Not one after the other, so that the compiler compares many at once.
    part.iter()
        .fold(true, |all, byte| all & byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_name_and_its_value() {
        let lines = FieldLines::new("Server", b"").unwrap();
        let lines = lines.and("Date", b"x: y").unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines.as_bytes(), b"Server: \r\nDate: x: y\r\n");
        let [server, date] = *lines.places() else {
            panic!("two lines");
        };
        assert_eq!(lines.parts(server), ("Server", &b""[..]));
        assert_eq!(lines.parts(date), ("Date", &b"x: y"[..]));
        assert!(!lines.has_known() && lines.and("Host", b"a").unwrap().has_known());
    }

    #[test]
    fn only_visible_bytes_take_the_place_of_others() {
        let lines = FieldLines::new("A", b"1").unwrap();
        let mut lines = lines.and("B", b"2345").unwrap();
        lines.overwrite(1, 2, b"xy").unwrap();
        lines.overwrite(1, 0, b"v").unwrap();
        assert_eq!(lines.as_bytes(), b"A: 1\r\nB: v3xy\r\n");
        for (field, at) in [(0, 0), (1, 3), (1, 4), (1, usize::MAX), (2, 0)] {
            assert!(lines.overwrite(field, at, b"xy").is_err(), "{field} {at}");
        }
        for part in [b"x\r", b"\nx", b"x ", b"x\x7f", b"\xffx"] {
            assert_eq!(lines.overwrite(1, 0, part), Err(EncodeError::FieldValue));
        }
        assert_eq!(lines.as_bytes(), b"A: 1\r\nB: v3xy\r\n");
    }

    #[test]
    fn the_text_is_not_longer_than_a_head_can_be() {
        let long = vec![b'x'; 40_000];
        let lines = FieldLines::new("A", &long).unwrap();
        assert_eq!(lines.and("A", &long), Err(EncodeError::HeadTooLarge));
    }
}

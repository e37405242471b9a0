//! The eight fields that the parser locates.
//!
//! Seven of them decide where a message ends or what becomes of the connection: `Host` (which
//! service the message is for), `Content-Length` and `Transfer-Encoding` (where the body ends),
//! `Expect` (whether the body is sent at all), `Connection` and `Upgrade` (what follows the
//! message), and `Trailer`, which announces fields after the body. `TE` says whether the peer wants
//! them. Each of the eight belongs to one connection or to one message's framing, so a proxy must
//! handle it itself.

use super::chars;

/// A field that the parser locates, because it decides the framing of a message or what becomes of
/// the connection.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::KnownField;
///
/// assert_eq!(KnownField::of(b"content-LENGTH"), Some(KnownField::ContentLength));
/// assert_eq!(KnownField::of(b"Accept"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum KnownField {
    /// `Host`.
    Host,
    /// `Connection`.
    Connection,
    /// `Content-Length`.
    ContentLength,
    /// `Transfer-Encoding`.
    TransferEncoding,
    /// `Expect`.
    Expect,
    /// `Upgrade`.
    Upgrade,
    /// `TE`.
    Te,
    /// `Trailer`.
    Trailer,
}

impl KnownField {
    /// The number of these fields.
    pub(super) const COUNT: usize = 8;

    /// Returns the field with this name, in any case.
    #[inline]
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        let field = Self::of_token(name)?;
        // What is not a token could be taken for one.
        chars::is_token(name).then_some(field)
    }

    /// The same for a name that is known to be a token.
    #[inline(always)]
    pub(crate) fn of_token(name: &[u8]) -> Option<Self> {
        let (field, same) = match name.len() {
            2 => (Self::Te, is(name, b"te")),
            4 => (Self::Host, is(name, b"host")),
            6 => (Self::Expect, is(name, b"expect")),
            7 if name[0] | 0x20 == b't' => (Self::Trailer, is(name, b"trailer")),
            7 => (Self::Upgrade, is(name, b"upgrade")),
            10 => (Self::Connection, is(name, b"connection")),
            14 => (Self::ContentLength, is(name, b"content-length")),
            17 => (Self::TransferEncoding, is(name, b"transfer-encoding")),
            _ => return None,
        };
        same.then_some(field)
    }

    /// Returns the name in its usual spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "Host",
            Self::Connection => "Connection",
            Self::ContentLength => "Content-Length",
            Self::TransferEncoding => "Transfer-Encoding",
            Self::Expect => "Expect",
            Self::Upgrade => "Upgrade",
            Self::Te => "TE",
            Self::Trailer => "Trailer",
        }
    }
}

/// Returns `true` if the token `name` is `lower` in any case. Both have the same length. Compares
/// words instead of bytes; two words may overlap.
///
/// The bit that distinguishes the cases of a letter is set in every byte. Of the bytes of a token,
/// only letters become letters by that, and only the hyphen becomes a hyphen.
#[inline(always)]
fn is<const N: usize>(name: &[u8], lower: &[u8; N]) -> bool {
    match N {
        2 => same::<2>(name.first_chunk(), lower.first_chunk()),
        4 => same::<4>(name.first_chunk(), lower.first_chunk()),
        5..8 => {
            same::<4>(name.first_chunk(), lower.first_chunk())
                && same::<4>(name.last_chunk(), lower.last_chunk())
        }
        _ => {
            let (name_rest, lower_rest) = (name.get(8..), lower.get(8..));
            same::<8>(name.first_chunk(), lower.first_chunk())
                && same::<8>(name.last_chunk(), lower.last_chunk())
                && (N <= 16
                    || same::<8>(
                        name_rest.and_then(<[u8]>::first_chunk),
                        lower_rest.and_then(<[u8]>::first_chunk),
                    ))
        }
    }
}

/// Compares one word.
#[inline(always)]
fn same<const N: usize>(name: Option<&[u8; N]>, lower: Option<&[u8; N]>) -> bool {
    match (name, lower) {
        (Some(name), Some(lower)) => word(name) | word(&[0x20; N]) == word(lower),
        _ => false,
    }
}

/// Returns up to eight bytes as a number.
#[inline(always)]
fn word<const N: usize>(bytes: &[u8; N]) -> u64 {
    let mut padded = [0; 8];
    padded[..N].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [KnownField; KnownField::COUNT] = [
        KnownField::Host,
        KnownField::Connection,
        KnownField::ContentLength,
        KnownField::TransferEncoding,
        KnownField::Expect,
        KnownField::Upgrade,
        KnownField::Te,
        KnownField::Trailer,
    ];

    #[test]
    fn names_are_found_in_any_case() {
        for field in ALL {
            let name = field.name();
            assert_eq!(KnownField::of(name.as_bytes()), Some(field));
            assert_eq!(
                KnownField::of(name.to_ascii_uppercase().as_bytes()),
                Some(field)
            );
            assert_eq!(
                KnownField::of(name.to_ascii_lowercase().as_bytes()),
                Some(field)
            );
        }
    }

    #[test]
    fn no_other_byte_is_taken_for_a_letter() {
        for field in ALL {
            for at in 0..field.name().len() {
                for byte in 0..=255_u8 {
                    let mut name = field.name().as_bytes().to_vec();
                    let same = name[at].eq_ignore_ascii_case(&byte);
                    name[at] = byte;
                    let found = KnownField::of(&name) == Some(field);
                    assert_eq!(found, same, "{}", name.escape_ascii());
                }
            }
        }
    }
}

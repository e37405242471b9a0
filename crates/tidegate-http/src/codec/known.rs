//! The eight fields that the parser locates.
//!
//! Seven of them decide where a message ends or what becomes of the connection: `Host` (which
//! service the message is for), `Content-Length` and `Transfer-Encoding` (where the body ends),
//! `Expect` (whether the body is sent at all), `Connection` and `Upgrade` (what follows the
//! message), and `Trailer`, which announces fields after the body. `TE` says whether the peer wants
//! them. Each of the eight belongs to one connection or to one message's framing, so a proxy must
//! handle it itself.

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

/// The lengths of the eight names, as bits.
const LENGTHS: u32 = (1 << 2) | (1 << 4) | (1 << 6) | (1 << 7) | (1 << 10) | (1 << 14) | (1 << 17);

impl KnownField {
    /// The number of these fields.
    pub(super) const COUNT: usize = 8;

    /// Returns the field with this name, in any case.
    #[inline]
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        // Most names have another length than these eight.
        if name.len() > 17 || (LENGTHS >> name.len()) & 1 == 0 {
            return None;
        }
        let field = match name.len() {
            2 => Self::Te,
            4 => Self::Host,
            6 => Self::Expect,
            7 if name[0] | 0x20 == b't' => Self::Trailer,
            7 => Self::Upgrade,
            10 => Self::Connection,
            14 => Self::ContentLength,
            _ => Self::TransferEncoding,
        };
        let own = field.name().as_bytes();
        name.eq_ignore_ascii_case(own).then_some(field)
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

//! The fields that belong to one connection, and are not passed on.

use crate::codec::chars;
use crate::codec::known::KnownField;

use super::fields::{Field, Fields};
use super::table::{Info, Span};

/// The fields that belong to one connection: `Connection`, the fields that it names, `Keep-Alive`,
/// `Proxy-Connection`, `TE` and `Upgrade`.
///
/// A peer that names `Host` or a field of the framing in `Connection` does not get it removed.
pub(super) struct HopByHop<'a> {
    bytes: &'a [u8],
    /// The fields among which those with the name `Connection` are, if there are any.
    options: &'a [Span],
}

impl<'a> HopByHop<'a> {
    /// `spans` has all fields with the name `Connection`.
    pub(super) fn new(bytes: &'a [u8], spans: &'a [Span], info: &Info) -> Self {
        let options = match info.has(KnownField::Connection) {
            true => spans,
            false => &[],
        };
        Self { bytes, options }
    }

    /// Returns all other fields of a head.
    pub(super) fn without(
        head: Fields<'a>,
        info: &Info,
    ) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let own = Self::new(head.bytes, head.spans, info);
        head.iter().filter(move |field| {
            // The names of a head are tokens.
            let name = field.name.as_bytes();
            !own.contains(name, KnownField::of_token(name))
        })
    }

    /// Returns `true` if a field is one of them. Its name is a token.
    #[inline]
    pub(super) fn contains(&self, name: &[u8], known: Option<KnownField>) -> bool {
        match known {
            Some(KnownField::Connection | KnownField::Te | KnownField::Upgrade) => true,
            Some(_) => false,
            None => {
                name.eq_ignore_ascii_case(b"Keep-Alive")
                    || name.eq_ignore_ascii_case(b"Proxy-Connection")
                    || !self.options.is_empty() && self.is_named(name)
            }
        }
    }

    /// Returns `true` if `Connection` names the field.
    fn is_named(&self, name: &[u8]) -> bool {
        let is_option = |span: &&Span| {
            KnownField::of_token(span.name(self.bytes)) == Some(KnownField::Connection)
        };
        let values = self.options.iter().filter(is_option);
        let mut options = values.flat_map(|span| chars::list(span.value(self.bytes)));
        options.any(|option| option.eq_ignore_ascii_case(name))
    }
}

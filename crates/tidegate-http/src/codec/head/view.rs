//! What the heads of requests and responses have in common.

use std::fmt;
use std::marker::PhantomData;

use crate::codec::known::KnownField;
use crate::codec::version::Version;

use super::connection::{self, UPGRADE};
use super::fields::{Field, Fields};
use super::hop_by_hop::HopByHop;
use super::owned::OwnedHead;
use super::spare_copy::CopyBox;
use super::table::{HeadTable, Info, Span};

/// The messages of a client.
#[derive(Debug, Clone, Copy)]
pub enum OfRequest {}

/// The messages of a server.
#[derive(Debug, Clone, Copy)]
pub enum OfResponse {}

/// A head, borrowed from the received bytes: a [`RequestHead`](super::RequestHead) or a
/// [`ResponseHead`](super::ResponseHead).
#[derive(Clone, Copy)]
pub struct Head<'a, K> {
    pub(super) fields: Fields<'a>,
    pub(super) info: &'a Info,
    kind: PhantomData<K>,
}

impl<'a, K> Head<'a, K> {
    /// Returns the head at the start of `input`, which was parsed into `table`.
    #[inline]
    pub(in crate::codec) fn of(input: &'a [u8], table: &'a HeadTable) -> Self {
        let bytes = &input[..usize::from(table.info.len)];
        Self::new(bytes, table.spans(), &table.info)
    }

    pub(super) fn new(bytes: &'a [u8], spans: &'a [Span], info: &'a Info) -> Self {
        let fields = Fields { bytes, spans };
        let kind = PhantomData;
        Self { fields, info, kind }
    }

    /// Returns the number of received bytes that the head takes.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no head is empty")]
    pub fn len(&self) -> usize {
        usize::from(self.info.len)
    }

    /// Returns the received bytes of the head, with the empty line at its end.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        &self.fields.bytes[..self.len()]
    }

    /// Returns the version.
    #[inline]
    #[must_use]
    pub fn version(&self) -> Version {
        self.info.version
    }

    /// Returns the fields, in their original order and spelling.
    #[inline]
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        self.fields
    }

    /// Returns the fields that a proxy passes on: all but `Connection`, the fields that it names,
    /// `Keep-Alive`, `Proxy-Connection`, `TE` and `Upgrade`, which belong to one connection. `Host` and
    /// the fields of the framing are passed on, even if `Connection` names them.
    pub fn end_to_end(&self) -> impl Iterator<Item = Field<'a>> + use<'a, K> {
        HopByHop::without(self.fields, self.info)
    }

    /// Returns the value of the first field with this name, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.fields.get(name)
    }

    /// Returns the values of all fields with this name, in any case.
    pub fn get_all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n, K> {
        self.fields.get_all(name)
    }

    /// Returns the value of the first field of this kind, without a search.
    #[inline]
    #[must_use]
    pub fn known(&self, field: KnownField) -> Option<&'a [u8]> {
        self.info.known(field, self.fields.bytes, self.fields.spans)
    }

    /// Returns `true` if the peer keeps the connection open for further messages; that of a response
    /// only if the end of the body is known.
    #[inline]
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        connection::keeps_alive(self.info.version, self.info.options)
    }

    /// Returns the protocols to which the client wants to change, or the server changes or could change.
    #[inline]
    #[must_use]
    pub fn upgrade(&self) -> Option<&'a [u8]> {
        if self.info.options & UPGRADE == 0 || self.info.version != Version::Http11 {
            return None;
        }
        self.known(KnownField::Upgrade)
    }

    /// Copies the head, so that it can be kept and changed.
    #[must_use]
    pub fn to_owned(&self) -> OwnedHead<K> {
        OwnedHead::new(CopyBox::of(self.fields.bytes, self.fields.spans, self.info))
    }
}

impl<K> fmt::Debug for Head<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.fields.bytes.split(|byte| *byte == b'\r').next();
        f.debug_struct("Head")
            .field("line", &line.unwrap_or_default().escape_ascii().to_string())
            .field("fields", &self.fields)
            .finish()
    }
}

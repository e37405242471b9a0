//! A response that has not begun, at once or later, and the fixed responses of the configuration.

use tidegate::http::codec::ResponseHead;
use tidegate::http::{DeferredResponse, Response};

use crate::fields::{Ids, RequestId};

/// The id of a request, and what writes it.
pub(super) type Shown<'a> = (&'a Ids, &'a RequestId);

/// A response that has not begun.
pub(super) trait Reply: Sized {
    fn status(self, status: u16) -> Self;
    fn field(self, name: &str, value: &[u8]) -> Self;
    /// Adds the id of the request.
    fn id(self, id: Shown<'_>) -> Self;
    fn body(self, body: String);

    /// Adds the fields of a received head whose names are wanted.
    fn received(self, head: &ResponseHead<'_>, mut is_wanted: impl FnMut(&[u8]) -> bool) -> Self {
        let wanted = head.fields().iter();
        let wanted = wanted.filter(|field| is_wanted(field.name.as_bytes()));
        wanted.fold(self, |reply, field| reply.field(field.name, field.value))
    }
}

impl Reply for Response<'_> {
    fn status(self, status: u16) -> Self {
        Response::status(self, status)
    }

    fn field(self, name: &str, value: &[u8]) -> Self {
        Response::field(self, name, value)
    }

    fn id(self, (ids, id): Shown<'_>) -> Self {
        ids.write_at_once(id, self)
    }

    fn body(self, body: String) {
        Response::body(self, body);
    }
}

impl Reply for DeferredResponse {
    #[inline]
    fn status(self, status: u16) -> Self {
        DeferredResponse::status(self, status)
    }

    fn field(self, name: &str, value: &[u8]) -> Self {
        DeferredResponse::field(self, name, value)
    }

    #[inline]
    fn id(self, (ids, id): Shown<'_>) -> Self {
        ids.write(id, self)
    }

    fn body(self, body: String) {
        DeferredResponse::body(self, body);
    }

    #[inline]
    fn received(self, head: &ResponseHead<'_>, is_wanted: impl FnMut(&[u8]) -> bool) -> Self {
        self.received_fields(head, is_wanted)
    }
}

/// A fixed response of the configuration.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) body: String,
}

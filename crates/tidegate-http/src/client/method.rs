//! What the method of a request means for its response, and for a second attempt.

use crate::codec::Method;

/// Returns `true` if a request of this method can be carried out twice (RFC 9110, 9.2.2).
pub(super) fn is_idempotent(method: Method<'_>) -> bool {
    use Method::{Delete, Get, Head, Options, Put, Trace};
    matches!(method, Get | Head | Put | Delete | Options | Trace)
}

/// Returns the method by which a response is read: `HEAD` and `CONNECT` differ from all others.
pub(super) fn method_of_response(method: Method<'_>) -> Method<'static> {
    match method {
        Method::Head => Method::Head,
        Method::Connect => Method::Connect,
        _ => Method::Get,
    }
}

//! `Max-Forwards`: how often an `OPTIONS` or a `TRACE` may be passed on (RFC 9110, section 7.6.2).

use tidegate::http::Method;
use tidegate::http::codec::{EncodeError, OwnedRequestHead, RequestHead};

const MAX_FORWARDS: &str = "Max-Forwards";

/// Returns `true` if the field counts for requests with this method.
#[inline]
pub(crate) fn has_hops(method: Method<'_>) -> bool {
    matches!(method, Method::Options | Method::Trace)
}

/// Returns how often a request with such a method may be passed on. `None` if it does not say so. Of
/// several numbers the smallest one counts, and a value that is no number says nothing.
pub(crate) fn hops_left(head: &RequestHead<'_>) -> Option<u64> {
    head.get_all(MAX_FORWARDS).filter_map(number).min()
}

/// Counts one hop: the request is passed on.
///
/// # Errors
///
/// [`EncodeError::HeadTooLarge`].
#[cold]
pub(crate) fn take_hop(head: &mut OwnedRequestHead) -> Result<(), EncodeError> {
    match hops_left(&head.as_head()) {
        Some(left) => {
            let left = left.saturating_sub(1).to_string();
            head.replace(MAX_FORWARDS, left.as_bytes())
        }
        None => Ok(()),
    }
}

/// Reads a number. One that is too large stands for the largest one.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let add = |number: u64, digit: &u8| {
        let number = number.saturating_mul(10);
        number.saturating_add(u64::from(digit - b'0'))
    };
    is_number.then(|| digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    //! One row for each form of the field.

    use super::*;
    use crate::fields::forward::tests::head_of;

    #[test]
    fn each_hop_takes_one_from_the_smallest_number() {
        let rows = [
            ("", None, None),
            ("Max-Forwards: 0\r\n", Some(0), Some("0")),
            ("max-forwards: 10\r\n", Some(10), Some("9")),
            ("Max-Forwards: 007\r\n", Some(7), Some("6")),
            ("Max-Forwards: 5\r\nMax-Forwards: 2\r\n", Some(2), Some("1")),
            ("Max-Forwards: x\r\nMax-Forwards: 2\r\n", Some(2), Some("1")),
            ("Max-Forwards: -1\r\n", None, Some("-1")),
            ("Max-Forwards: 1, 2\r\n", None, Some("1, 2")),
            ("Max-Forwards:\r\n", None, Some("")),
            (
                "Max-Forwards: 99999999999999999999999\r\n",
                Some(u64::MAX),
                Some("18446744073709551614"),
            ),
        ];
        for (fields, left, after) in rows {
            let mut head = head_of(fields);
            assert_eq!(hops_left(&head.as_head()), left, "{fields}");
            take_hop(&mut head).unwrap();
            let view = head.as_head();
            assert_eq!(
                view.get("Max-Forwards"),
                after.map(str::as_bytes),
                "{fields}"
            );
            let count = usize::from(after.is_some());
            assert_eq!(view.get_all("Max-Forwards").count(), count, "{fields}");
        }
    }
}

//! Writes start lines and field lines.

use bytes::{BufMut, BytesMut};

use crate::codec::chars;
use crate::codec::framing::BodyFraming;
use crate::codec::known::KnownField;
use crate::codec::method::Method;

use super::date::HttpDate;
use super::error::EncodeError;
use super::status::reason;

/// The whole interim response that asks a client to send the body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The first line of most responses.
pub(crate) const OK_LINE: &[u8; 17] = b"HTTP/1.1 200 OK\r\n";

/// Writes `HTTP/1.1`, the status and its standard reason phrase.
///
/// # Errors
///
/// [`EncodeError::Status`] if `status` does not have three digits.
#[inline]
pub fn status_line<B: BufMut>(out: &mut B, status: u16) -> Result<(), EncodeError> {
    if status == 200 {
        put(out, &[OK_LINE]);
        return Ok(());
    }
    other_status_line(out, status)
}

fn other_status_line<B: BufMut>(out: &mut B, status: u16) -> Result<(), EncodeError> {
    if !(100..1000).contains(&status) {
        return Err(EncodeError::Status);
    }
    let digit = |unit: u16| b'0' + (status / unit % 10) as u8;
    let digits = [digit(100), digit(10), digit(1), b' '];
    put(
        out,
        &[b"HTTP/1.1 ", &digits, reason(status).as_bytes(), b"\r\n"],
    );
    Ok(())
}

/// Writes a request line with the version 1.1.
///
/// # Errors
///
/// [`EncodeError::Method`] if the method is not a token, [`EncodeError::Target`] if the target is
/// empty or has a byte that must be percent-encoded.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{Method, encode};
///
/// let mut out = Vec::new();
/// encode::request_line(&mut out, Method::Get, "/search?q=1")?;
/// assert_eq!(out, b"GET /search?q=1 HTTP/1.1\r\n");
/// # Ok::<(), tidegate_http::codec::EncodeError>(())
/// ```
pub fn request_line<B: BufMut>(
    out: &mut B,
    method: Method<'_>,
    target: &str,
) -> Result<(), EncodeError> {
    let (method, target) = (method.as_str().as_bytes(), target.as_bytes());
    if !chars::is_token(method) {
        return Err(EncodeError::Method);
    }
    if target.is_empty() || !chars::is_target(target) {
        return Err(EncodeError::Target);
    }
    put(out, &[method, b" ", target, b" HTTP/1.1\r\n"]);
    Ok(())
}

/// Writes one field.
///
/// # Errors
///
/// [`EncodeError::FieldName`] if the name is not a token, [`EncodeError::FieldValue`] if the value
/// has a control byte other than tab, [`EncodeError::FramingField`] for `Content-Length` and
/// `Transfer-Encoding`.
#[inline]
pub fn field<B: BufMut>(out: &mut B, name: &str, value: &[u8]) -> Result<(), EncodeError> {
    check_name(name.as_bytes())?;
    check_value(value)?;
    put(out, &[name.as_bytes(), b": ", value, b"\r\n"]);
    Ok(())
}

/// Writes the field that declares where the body ends: `Content-Length`, `Transfer-Encoding`, or
/// none.
#[inline]
pub fn framing<B: BufMut>(out: &mut B, framing: BodyFraming) {
    match framing {
        BodyFraming::Length(length) => {
            let mut memory = [0; 20];
            put(
                out,
                &[b"Content-Length: ", decimal(length, &mut memory), b"\r\n"],
            );
        }
        BodyFraming::Chunked => put(out, &[b"Transfer-Encoding: chunked\r\n"]),
        BodyFraming::Empty | BodyFraming::UntilClose | BodyFraming::Tunnel => {}
    }
}

/// Writes `Connection: close`.
#[inline]
pub fn connection_close<B: BufMut>(out: &mut B) {
    put(out, &[b"Connection: close\r\n"]);
}

/// Writes `Connection: keep-alive`, which an HTTP/1.0 client expects if the connection stays open.
#[inline]
pub fn connection_keep_alive<B: BufMut>(out: &mut B) {
    put(out, &[b"Connection: keep-alive\r\n"]);
}

/// Writes the field `Date`.
#[inline]
pub fn date<B: BufMut>(out: &mut B, date: &HttpDate) {
    put(out, &[b"Date: ", date.as_bytes(), b"\r\n"]);
}

/// Writes the empty line at the end of a head.
#[inline]
pub fn head_end<B: BufMut>(out: &mut B) {
    put(out, &[b"\r\n"]);
}

/// Writes the end of most heads: `Content-Length`, `Date` unless there is one already, and the empty
/// line, in one piece.
#[inline]
pub(crate) fn end_with_length(out: &mut BytesMut, length: u64, date: Option<&HttpDate>) {
    const NAME: &[u8; 16] = b"Content-Length: ";
    const DIGITS: usize = 20;
    let mut line = [0; NAME.len() + DIGITS + HttpDate::LAST_FIELD_LEN];
    line[..NAME.len()].copy_from_slice(NAME);
    // Most lengths have few digits.
    let digit = |number: u64| b'0' + (number % 10) as u8;
    let digits = match length {
        0..10 => {
            line[NAME.len()] = digit(length);
            1
        }
        10..100 => {
            line[NAME.len()..][..2].copy_from_slice(&[digit(length / 10), digit(length)]);
            2
        }
        _ => {
            let mut memory = [0; DIGITS];
            let digits = decimal(length, &mut memory);
            line[NAME.len()..][..digits.len()].copy_from_slice(digits);
            digits.len()
        }
    };
    let at = NAME.len() + digits.min(DIGITS);
    let end = match date {
        Some(date) => {
            let end = at + HttpDate::LAST_FIELD_LEN;
            line[at..end].copy_from_slice(date.as_last_field());
            end
        }
        None => {
            line[at..at + 4].copy_from_slice(b"\r\n\r\n");
            at + 4
        }
    };
    out.extend_from_slice(&line[..end]);
}

/// Checks a field name that is neither `Content-Length` nor `Transfer-Encoding`.
#[inline]
pub(in crate::codec) fn check_name(name: &[u8]) -> Result<(), EncodeError> {
    if !chars::is_token(name) {
        return Err(EncodeError::FieldName);
    }
    match KnownField::of(name) {
        Some(KnownField::ContentLength | KnownField::TransferEncoding) => {
            Err(EncodeError::FramingField)
        }
        _ => Ok(()),
    }
}

/// The longest value that is checked byte by byte: the search by words is slow near the end.
const SHORT: usize = 32;

/// Checks a field value.
#[inline]
pub(in crate::codec) fn check_value(value: &[u8]) -> Result<(), EncodeError> {
    let valid = match value.len() {
        ..=SHORT => chars::all(value, chars::VALUE),
        length => chars::value_run(value) == length,
    };
    match valid {
        true => Ok(()),
        false => Err(EncodeError::FieldValue),
    }
}

/// Writes all `parts`.
#[inline(always)]
pub(in crate::codec) fn put<B: BufMut>(out: &mut B, parts: &[&[u8]]) {
    for part in parts {
        out.put_slice(part);
    }
}

/// Returns `number` in decimal digits.
#[inline]
fn decimal(mut number: u64, memory: &mut [u8; 20]) -> &[u8] {
    let mut at = memory.len();
    for digit in memory.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        at -= 1;
        if number == 0 {
            break;
        }
    }
    &memory[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_the_same_in_one_piece() {
        let date = HttpDate::from_unix_seconds(784_111_777);
        for length in [0, 9, 10, 13, 99, 100, 4096, u64::MAX] {
            for date in [Some(&date), None] {
                let (mut whole, mut parts) = (BytesMut::new(), BytesMut::new());
                end_with_length(&mut whole, length, date);
                framing(&mut parts, BodyFraming::Length(length));
                if let Some(date) = date {
                    super::date(&mut parts, date);
                }
                head_end(&mut parts);
                assert_eq!(whole, parts);
            }
        }
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 7, 10, 99, 100, 12_345, u64::MAX] {
            let mut memory = [0; 20];
            assert_eq!(decimal(number, &mut memory), number.to_string().as_bytes());
        }
    }
}

//! Request ids, and the trace context of W3C (`traceparent`).

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::http::codec::{EncodeError, FieldLines, OwnedRequestHead, RequestHead};
use tidegate::http::{DeferredResponse, Response};

/// The field of a request id.
pub(super) const REQUEST_ID: &str = "X-Request-Id";
/// The fields of the trace context.
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// The longest request id that is kept.
const LONGEST_ID: usize = 128;
/// How many numbers a connection reserves at once.
const RESERVED: u64 = 64;

/// Makes numbers that no other request of this process has, and that others cannot guess.
#[derive(Debug)]
pub(crate) struct Ids {
    seed: u64,
    next: AtomicU64,
    /// `X-Request-Id` of a response, without its number.
    line: FieldLines,
}

impl Ids {
    pub(crate) fn new() -> Self {
        Self::seeded(RandomState::new().hash_one(0))
    }

    /// Makes the same numbers for the same seed, for tests.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            seed,
            next: AtomicU64::new(1),
            line: FieldLines::new(REQUEST_ID, NEW_ID).expect("a valid field"),
        }
    }

    /// Adds the id of a request to its response.
    #[inline]
    pub(crate) fn write(&self, id: &RequestId, back: DeferredResponse) -> DeferredResponse {
        match id {
            RequestId::Own(digits) => back.field_with(&self.line, digits),
            RequestId::Given(text) => back.field(REQUEST_ID, text.as_bytes()),
        }
    }

    /// Adds the id of a request to a response at once.
    pub(crate) fn write_at_once<'a>(&self, id: &RequestId, back: Response<'a>) -> Response<'a> {
        match id {
            RequestId::Own(digits) => back.field_with(&self.line, digits),
            RequestId::Given(text) => back.field(REQUEST_ID, text.as_bytes()),
        }
    }

    /// Returns a number that is not zero.
    pub(crate) fn next(&self) -> u64 {
        self.mixed(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns several numbers of a range. A range that has not so many is replaced by another one,
    /// so that most calls do not touch what all loops share.
    fn several<const N: usize>(&self, from: &mut Range<u64>) -> [u64; N] {
        if from.end - from.start < N as u64 {
            let first = self.next.fetch_add(RESERVED, Ordering::Relaxed);
            *from = first..first.saturating_add(RESERVED);
        }
        let first = from.start;
        from.start += N as u64;
        std::array::from_fn(|at| self.mixed(first + at as u64))
    }

    /// A step of SplitMix64: different steps have different numbers.
    fn mixed(&self, step: u64) -> u64 {
        let mixed = self
            .seed
            .wrapping_add(step.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)).max(1)
    }
}

/// The id of a request.
#[derive(Clone, Debug)]
pub(crate) enum RequestId {
    /// Of the gateway.
    Own([u8; 16]),
    /// Of a trusted peer.
    Given(Box<str>),
}

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            // Its digits are text.
            Self::Own(digits) => std::str::from_utf8(digits).unwrap_or_default(),
            Self::Given(text) => text,
        }
    }
}

/// Passes `traceparent` on if it is valid, and creates it otherwise. Keeps the request id of a
/// trusted peer, and creates one otherwise, which is also that of the span in a new `traceparent`.
/// Returns the request id.
///
/// # Errors
///
/// [`EncodeError::HeadTooLarge`].
pub(crate) fn trace(
    head: &mut OwnedRequestHead,
    trusted: bool,
    ids: &Ids,
) -> Result<RequestId, EncodeError> {
    let view = head.as_head();
    let has = |name| view.get(name).is_some();
    let (has_parent, has_own) = (has(PARENT), has(REQUEST_ID));
    let given = single(&view, REQUEST_ID).filter(|id| trusted && is_id(id));
    let given = given.map(|id| String::from_utf8_lossy(id).into());
    let id = hex(ids.next());
    if !single(&view, PARENT).is_some_and(is_parent) {
        // What belongs to another trace says nothing about this one.
        if view.get(STATE).is_some() {
            head.remove(STATE);
        }
        let mut parent = new_parent(ids);
        parent[TRACE_LOW..][..16].copy_from_slice(&hex(ids.next()));
        parent[SPAN..][..16].copy_from_slice(&id);
        set(head, PARENT, &parent, has_parent)?;
    }
    if let Some(id) = given {
        return Ok(RequestId::Given(id));
    }
    set(head, REQUEST_ID, &id, has_own)?;
    Ok(RequestId::Own(id))
}

/// The value of a new `traceparent`, and where its numbers are.
const NEW_PARENT: &[u8; 55] = b"00-00000000000000000000000000000000-0000000000000000-01";
const TRACE_HIGH: usize = 3;
const TRACE_LOW: usize = 19;
const SPAN: usize = 36;
/// The value of an `X-Request-Id` before its number is written.
const NEW_ID: &[u8; 16] = &[b'0'; 16];

/// Returns a new `traceparent` without its last two numbers.
fn new_parent(ids: &Ids) -> [u8; 55] {
    let mut parent = *NEW_PARENT;
    parent[TRACE_HIGH..][..16].copy_from_slice(&hex(ids.next()));
    parent
}

/// Returns `true` if a request with this field may belong to a trace, or has an id: [`trace`] says
/// what becomes of it.
pub(super) fn is_traced(name: &[u8]) -> bool {
    let fields = [PARENT, STATE, REQUEST_ID];
    fields
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// The numbers of requests that bring none, for one connection.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    /// The steps of the next numbers.
    reserved: Range<u64>,
}

/// How many lines [`Fresh`] adds.
pub(super) const FRESH_LINES: usize = 2;

impl Fresh {
    /// Adds the lines whose numbers are written for each request: `traceparent` and `X-Request-Id`.
    /// The traces of these requests have the first half of their number in common.
    pub(super) fn add_to(lines: FieldLines, ids: &Ids) -> Result<FieldLines, EncodeError> {
        let lines = lines.and(PARENT, &new_parent(ids))?;
        lines.and(REQUEST_ID, NEW_ID)
    }

    /// Writes new numbers into the last lines, as [`trace`] does. Returns the id of the request.
    pub(super) fn write(
        &mut self,
        lines: &mut FieldLines,
        ids: &Ids,
    ) -> Result<RequestId, EncodeError> {
        let first = lines.len() - FRESH_LINES;
        let [trace, id] = ids.several(&mut self.reserved);
        let id = hex(id);
        lines.overwrite(first, TRACE_LOW, &hex(trace))?;
        lines.overwrite(first, SPAN, &id)?;
        lines.overwrite(first + 1, 0, &id)?;
        Ok(RequestId::Own(id))
    }

    /// Returns the id of a request that is not passed on: that of a trusted peer, or a new one.
    pub(crate) fn id(&mut self, head: &RequestHead<'_>, trusted: bool, ids: &Ids) -> RequestId {
        let given = trusted.then(|| single(head, REQUEST_ID)).flatten();
        match given.filter(|id| is_id(id)) {
            Some(id) => RequestId::Given(String::from_utf8_lossy(id).into()),
            None => {
                let [id] = ids.several(&mut self.reserved);
                RequestId::Own(hex(id))
            }
        }
    }
}

/// Returns the value of a field that is there once. Of several values, servers may take another one.
fn single<'a>(head: &RequestHead<'a>, name: &str) -> Option<&'a [u8]> {
    let mut values = head.get_all(name);
    let first = values.next();
    first.filter(|_| values.next().is_none())
}

fn set(
    head: &mut OwnedRequestHead,
    name: &str,
    value: &[u8],
    is_there: bool,
) -> Result<(), EncodeError> {
    match is_there {
        true => head.replace(name, value),
        false => head.append(name, value),
    }
}

/// Returns a number as 16 hexadecimal digits.
// The steps of one number are few; mixed with those of a second one, they are many more.
#[inline(never)]
fn hex(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    let (high, low) = digits.split_at_mut(8);
    high.copy_from_slice(&eight_digits((number >> 32) as u32).to_be_bytes());
    low.copy_from_slice(&eight_digits(number as u32).to_be_bytes());
    digits
}

/// Returns the hexadecimal digits of a number, the first one in the highest byte.
fn eight_digits(number: u32) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Four bits in each byte.
    let mut digits = u64::from(number);
    digits = (digits | digits << 16) & 0x0000_FFFF_0000_FFFF;
    digits = (digits | digits << 8) & 0x00FF_00FF_00FF_00FF;
    digits = (digits | digits << 4) & (ONES * 0x0F);
    // One in each byte above 9.
    let letters = (digits + ONES * 6) >> 4 & ONES;
    digits + ONES * u64::from(b'0') + letters * u64::from(b'a' - b'9' - 1)
}

/// Returns `true` for an id of letters, digits and some marks.
fn is_id(id: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    !id.is_empty() && id.len() <= LONGEST_ID && id.iter().all(is_part)
}

/// Returns `true` for a valid `traceparent`: version, trace, span and flags, neither id all zeros.
/// Later versions may have more behind it.
fn is_parent(value: &[u8]) -> bool {
    let Some((parent, rest)) = value.split_at_checked(55) else {
        return false;
    };
    let is_hex = |part: &[u8]| {
        let digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        part.iter().all(digit)
    };
    let parts = [&parent[..2], &parent[3..35], &parent[36..52], &parent[53..]];
    let dashes = [parent[2], parent[35], parent[52]];
    let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == b'0');
    let version = parts[0];
    let fits = match version {
        b"00" => rest.is_empty(),
        b"ff" => false,
        _ => rest.is_empty() || rest.starts_with(b"-"),
    };
    fits && dashes == *b"---"
        && parts.iter().all(|part| is_hex(part))
        && !is_zero(parts[1])
        && !is_zero(parts[2])
}

#[cfg(test)]
mod tests {
    //! One row for each form.

    use std::collections::HashSet;

    use super::*;
    use crate::fields::forward::tests::head_of;

    #[test]
    fn numbers_have_sixteen_digits() {
        for number in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            assert_eq!(hex(number), format!("{number:016x}").as_bytes());
        }
    }

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_parent_is_passed_on_and_others_are_replaced() {
        let rows = [
            (VALID.to_owned(), true),
            (VALID.replacen("00", "01", 1), true),
            (format!("{}-more", VALID.replacen("00", "01", 1)), true),
            (format!("{VALID}-more"), false),
            (VALID.replacen("00", "ff", 1), false),
            (VALID.to_ascii_uppercase(), false),
            (
                VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
                false,
            ),
            (VALID.replace("00f067aa0ba902b7", &"0".repeat(16)), false),
            ("00".to_owned(), false),
            (String::new(), false),
        ];
        let ids = Ids::seeded(1);
        for (value, kept) in rows {
            let mut head = head_of(&format!("traceparent: {value}\r\ntracestate: a=b\r\n"));
            trace(&mut head, false, &ids).unwrap();
            let view = head.as_head();
            let now = view.get("traceparent").unwrap();
            assert!(is_parent(now), "{value}");
            assert_eq!(now == value.as_bytes(), kept, "{value}");
            assert_eq!(view.get("tracestate").is_some(), kept, "{value}");
        }
    }

    #[test]
    fn a_request_id_is_kept_only_from_a_trusted_peer() {
        let ids = Ids::seeded(1);
        for (trusted, value, kept) in [
            (true, "abc-1", true),
            (false, "abc-1", false),
            (true, "a b", false),
            (true, "", false),
        ] {
            let mut head = head_of(&format!("x-request-id: {value}\r\n"));
            let id = trace(&mut head, trusted, &ids).unwrap();
            let id = id.as_str();
            assert_eq!(id == value, kept, "{trusted} {value}");
            assert_eq!(head.as_head().get("X-Request-Id"), Some(id.as_bytes()));
            assert_eq!(head.as_head().get_all("X-Request-Id").count(), 1);
            // So it is for a request that is not passed on.
            let head = head_of(&format!("x-request-id: {value}\r\n"));
            let id = Fresh::default().id(&head.as_head(), trusted, &ids);
            assert_eq!(id.as_str() == value, kept, "{trusted} {value}");
            assert!(is_id(id.as_str().as_bytes()), "{trusted} {value}");
        }
    }

    #[test]
    fn several_ids_or_parents_are_replaced_by_one() {
        let ids = Ids::seeded(1);
        for trusted in [false, true] {
            let twice = format!("traceparent: {VALID}\r\nx-request-id: abc\r\n").repeat(2);
            let mut head = head_of(&format!("{twice}tracestate: a=b\r\n"));
            let at_once = Fresh::default().id(&head.as_head(), trusted, &ids);
            assert_ne!(at_once.as_str(), "abc");
            let id = trace(&mut head, trusted, &ids).unwrap();
            let view = head.as_head();
            let all = |name| view.get_all(name).collect::<Vec<_>>();
            assert_eq!(all("X-Request-Id"), [id.as_str().as_bytes()]);
            assert_ne!(id.as_str(), "abc");
            let [parent] = all("traceparent")[..] else {
                panic!("several parents");
            };
            assert!(is_parent(parent) && parent != VALID.as_bytes());
            assert!(all("tracestate").is_empty());
        }
    }

    #[test]
    fn a_new_span_has_the_id_of_a_new_request() {
        let (ids, mut fresh) = (Ids::seeded(1), Fresh::default());
        let mut lines = Fresh::add_to(FieldLines::new("A", b"1").unwrap(), &ids).unwrap();
        for _ in 0..100 {
            let (mut one, mut two) = (head_of(""), head_of(""));
            let ours = fresh.write(&mut lines, &ids).unwrap();
            two.append_lines(&lines, 1..3).unwrap();
            for (id, head) in [(trace(&mut one, true, &ids).unwrap(), &one), (ours, &two)] {
                let (view, id) = (head.as_head(), id.as_str().as_bytes());
                let parent = view.get("traceparent").unwrap();
                assert!(is_parent(parent), "{}", String::from_utf8_lossy(parent));
                assert_eq!(&parent[SPAN..][..16], id);
                assert_eq!(view.get("X-Request-Id"), Some(id));
            }
        }
        let mut head = head_of("x-request-id: given\r\n");
        assert_eq!(trace(&mut head, true, &ids).unwrap().as_str(), "given");
        assert!(is_parent(head.as_head().get("traceparent").unwrap()));
    }

    #[test]
    fn ids_differ() {
        let ids = Ids::seeded(7);
        let all: HashSet<u64> = (0..1000).map(|_| ids.next()).collect();
        assert_eq!(all.len(), 1000);
        assert!(!all.contains(&0));
    }

    #[test]
    fn numbers_of_ranges_differ_too() {
        let ids = Ids::seeded(7);
        let (mut one, mut two) = (0..0, 0..0);
        let mut all = HashSet::new();
        for _ in 0..100 {
            for range in [&mut one, &mut two] {
                let numbers: [u64; 5] = ids.several(range);
                assert!(numbers.into_iter().all(|number| all.insert(number)));
            }
            assert!(all.insert(ids.next()));
        }
    }
}

//! Heads of requests and responses: the pieces do not change the events, and a head that is accepted
//! can be copied, written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::http::{Event, requests, responses};
use tidegate_http::codec::{BodyLimits, HeadLimits, HeadTable, Method, RequestDecoder};

fuzz_target!(|data: &[u8]| {
    let Some((&size, data)) = data.split_first() else {
        return;
    };
    let pieces = || data.chunks(usize::from(size).max(1));
    assert_eq!(requests(pieces()), requests([data]));
    assert_eq!(
        responses(Method::Get, pieces()),
        responses(Method::Get, [data])
    );

    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let Ok(Some(head)) = decoder.head(data, &mut table) else {
        return;
    };
    let mut written = Vec::new();
    head.to_owned().encode(&mut written);
    // The version becomes 1.1, which demands a `Host`.
    if head.get("host").is_none() {
        return;
    }
    let (Some(Event::Head(before, fields, framing)), Some(after)) = (
        requests([data]).into_iter().next(),
        requests([&written[..]]).into_iter().next(),
    ) else {
        panic!("a copied head is not read: {}", written.escape_ascii());
    };
    // An `Expect` that HTTP/1.0 ignores is refused in HTTP/1.1.
    if before.ends_with("HTTP/1.0") && matches!(after, Event::Refused(_)) {
        return;
    }
    let line = before.replace("HTTP/1.0", "HTTP/1.1");
    match after {
        Event::Head(text, copied, again) => assert_eq!(
            (text.replace("HTTP/1.0", "HTTP/1.1"), copied, again),
            (line, fields, framing)
        ),
        other => panic!("{other:?}: {}", written.escape_ascii()),
    }
});

//! Whole connections, in both directions, within small limits: the pieces do not change the events,
//! and nothing follows a refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::http::{Event, requests_within, responses};
use tidegate_http::codec::{BodyLimits, HeadLimits, Method};

const HEAD: HeadLimits = HeadLimits {
    start_line: 40,
    head: 120,
    fields: 5,
};
const BODY: BodyLimits = BodyLimits {
    body: 30,
    trailers: 30,
    extensions: 10,
};

fuzz_target!(|data: &[u8]| {
    let Some((&size, data)) = data.split_first() else {
        return;
    };
    let pieces = || data.chunks(usize::from(size).max(1));
    let events = requests_within(HEAD, BODY, [data]);
    assert_eq!(requests_within(HEAD, BODY, pieces()), events);
    check(&events);
    for to in [Method::Get, Method::Head, Method::Connect] {
        let events = responses(to, [data]);
        assert_eq!(responses(to, pieces()), events);
        check(&events);
    }
});

/// Checks the order of events.
fn check(events: &[Event]) {
    let mut inside = false;
    for (i, event) in events.iter().enumerate() {
        match event {
            Event::Head(..) => assert!(!std::mem::replace(&mut inside, true)),
            Event::Data(_) | Event::Trailers(_) => assert!(inside),
            Event::End => assert!(std::mem::replace(&mut inside, false)),
            Event::Refused(_) => assert_eq!(i + 1, events.len()),
        }
    }
}

//! Chunked bodies: the pieces do not change the events, and the data of a body that is accepted is
//! the same after it was written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::http::{Event, requests};
use tidegate_http::codec::{BodyEncoder, BodyFraming};

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

fuzz_target!(|data: &[u8]| {
    let Some((&size, data)) = data.split_first() else {
        return;
    };
    let message = [HEAD, data].concat();
    let size = usize::from(size).max(1);
    let events = requests([&message[..]]);
    let pieces = [HEAD].into_iter().chain(data.chunks(size));
    assert_eq!(requests(pieces), events);

    let mut encoder = BodyEncoder::new(BodyFraming::Chunked);
    let mut written = HEAD.to_vec();
    for piece in data.chunks(size) {
        encoder
            .data(&mut written, piece)
            .expect("a chunk of any bytes");
    }
    encoder.finish(&mut written).expect("the end of the chunks");
    let read = requests(written.chunks(size));
    let body = match &read[1..] {
        [Event::End] => &[][..],
        [Event::Data(body), Event::End] => body,
        other => panic!("{other:?}"),
    };
    assert_eq!(body, data);
});

//! Our parser beside `httparse`: a head that ours accepts is the same head to both, and a head that
//! ours waits for is not complete to the other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_http::codec::{
    BodyLimits, Fields, HeadLimits, HeadTable, Method, RequestDecoder, ResponseDecoder, Version,
};

fuzz_target!(|data: &[u8]| {
    request(data);
    response(data);
});

fn request(data: &[u8]) {
    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let Ok(ours) = decoder.head(data, &mut table) else {
        return;
    };
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut theirs = httparse::Request::new(&mut fields);
    let status = theirs.parse(data);
    let Some(head) = ours else {
        assert!(!matches!(status, Ok(httparse::Status::Complete(_))));
        return;
    };
    assert_eq!(status, Ok(httparse::Status::Complete(head.len())));
    assert_eq!(theirs.method, Some(head.method().as_str()));
    assert_eq!(theirs.path, Some(head.target()));
    assert_eq!(theirs.version, Some(minor(head.version())));
    same(head.fields(), theirs.headers);
}

fn response(data: &[u8]) {
    let mut decoder = ResponseDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let Ok(ours) = decoder.head(data, &mut table, Method::Get) else {
        return;
    };
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut theirs = httparse::Response::new(&mut fields);
    let status = theirs.parse(data);
    let Some(head) = ours else {
        assert!(!matches!(status, Ok(httparse::Status::Complete(_))));
        return;
    };
    assert_eq!(status, Ok(httparse::Status::Complete(head.len())));
    assert_eq!(theirs.code, Some(head.status()));
    assert_eq!(theirs.version, Some(minor(head.version())));
    same(head.fields(), theirs.headers);
}

fn minor(version: Version) -> u8 {
    match version {
        Version::Http10 => 0,
        Version::Http11 => 1,
    }
}

fn same(ours: Fields<'_>, theirs: &[httparse::Header<'_>]) {
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!((ours.name, ours.value), (theirs.name, theirs.value));
    }
}

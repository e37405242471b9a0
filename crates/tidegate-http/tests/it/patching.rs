//! Copies of heads that are changed, as a proxy does.

use tidegate_http::codec::{
    BodyFraming, BodyLimits, EncodeError, FieldLines, HeadLimits, HeadTable, KnownField,
    OwnedRequestHead, RequestDecoder,
};

use crate::events::{Event, requests};

fn owned(message: &str) -> OwnedRequestHead {
    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let head = decoder.head(message.as_bytes(), &mut table);
    head.expect("accepted").expect("complete").to_owned()
}

fn text(head: &OwnedRequestHead) -> String {
    let mut out = Vec::new();
    head.encode(&mut out);
    let events = requests([&out[..]]);
    assert!(matches!(events[0], Event::Head(..)), "{events:?}");
    String::from_utf8(out).expect("it is accepted")
}

#[test]
fn unchanged_fields_keep_order_and_spelling() {
    let head = owned("GET /a HTTP/1.0\r\nhOST:  a \r\nx-B: 1\r\nX-b:2\r\n\r\n");
    assert_eq!(
        text(&head),
        "GET /a HTTP/1.1\r\nhOST: a\r\nx-B: 1\r\nX-b: 2\r\n\r\n"
    );
}

#[test]
fn fields_are_dropped_replaced_and_appended() {
    let mut head = owned("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\na: 3\r\nC: 4\r\n\r\n");
    assert_eq!(head.remove("b"), 1);
    assert_eq!(head.remove("b"), 0);
    head.replace("A", b"new").unwrap();
    head.replace("D", b"5").unwrap();
    head.append("C", b"6").unwrap();
    assert_eq!(
        text(&head),
        "GET / HTTP/1.1\r\nHost: a\r\nA: new\r\nC: 4\r\nD: 5\r\nC: 6\r\n\r\n"
    );
    let view = head.as_head();
    assert_eq!(view.get("a"), Some(&b"new"[..]));
    assert_eq!(view.get_all("c").collect::<Vec<_>>(), [b"4", b"6"]);
    // A copy of a changed head has the changes.
    assert_eq!(text(&view.to_owned()), text(&head));
}

#[test]
fn known_fields_are_located_again() {
    let mut head = owned("GET / HTTP/1.1\r\nA: 1\r\nTE: x\r\nHost: a\r\n\r\n");
    head.remove("A");
    head.replace("host", b"b:81").unwrap();
    assert_eq!(head.as_head().known(KnownField::Host), Some(&b"b:81"[..]));
    assert_eq!(head.as_head().known(KnownField::Te), Some(&b"x"[..]));
    assert_eq!(head.as_head().authority(), Some("b:81"));
}

#[test]
fn nothing_that_changes_the_framing_is_accepted() {
    let message = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
    let mut head = owned(message);
    let framing = Err(EncodeError::FramingField);
    assert_eq!(head.append("Content-Length", b"6"), framing);
    assert_eq!(head.replace("content-length", b"6"), framing);
    assert_eq!(head.append("Transfer-Encoding", b"chunked"), framing);
    assert_eq!(head.remove("Content-Length"), 0);
    assert_eq!(head.append("Host", b"b"), Err(EncodeError::FieldValue));
    assert_eq!(head.replace("Host", b"b/c"), Err(EncodeError::FieldValue));
    assert_eq!(head.append("A", b"1\r\nB: 2"), Err(EncodeError::FieldValue));
    assert_eq!(head.append("A:", b"1"), Err(EncodeError::FieldName));
    assert_eq!(text(&head), message);
}

#[test]
fn fields_of_one_connection_are_not_passed_on() {
    let message = "POST / HTTP/1.1\r\nHost: a\r\nConnection: x-mine, Host, close\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n\
         TE: trailers\r\nUpgrade: h2c\r\nProxy-Connection: x\r\nConnection: Content-Length, x-too\r\n\
         Content-Length: 5\r\nX-Too: 2\r\nX-Other: 3\r\n\r\n";
    let expected = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Other: 3\r\n\r\n";
    assert_eq!(text(&forwarded(message, |_| false)), expected);
    let passed: Vec<_> = names(&owned(message));
    assert_eq!(passed, ["Host", "Content-Length", "X-Other"]);
}

/// Returns the names of the fields that a proxy passes on.
fn names(head: &OwnedRequestHead) -> Vec<String> {
    let fields = head.as_head().end_to_end();
    fields.map(|field| field.name.to_owned()).collect()
}

/// Copies a head as a proxy does.
fn forwarded(message: &str, is_unwanted: impl FnMut(&[u8]) -> bool) -> OwnedRequestHead {
    let head = owned(message).as_head().to_forward(is_unwanted);
    head.expect("it is small")
}

#[test]
fn a_copy_to_forward_is_the_same_as_a_copy_without_the_fields_of_the_connection() {
    let rows = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a?b HTTP/1.0\r\nA:1\r\nHost:  a \r\nB: \r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nTE: x\r\nA: 1\r\nKeep-Alive: 5\r\nB: 2\r\n\r\n",
        "GET http://a/x HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, B\r\nB: 1\r\nC: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nConnection: Host, close\r\nHost: a\r\nProxy-Connection: x\r\nA: 1\r\n\
         Connection: a, Content-Length\r\nContent-Length: 5\r\nUpgrade: h2c\r\nTrailer: x\r\n\r\n",
        "PUT /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
    ];
    for message in rows {
        let mut expected = owned(message);
        let passed = names(&expected);
        let all = expected.as_head().fields();
        let all: Vec<String> = all.iter().map(|field| field.name.to_owned()).collect();
        for name in all.iter().filter(|name| !passed.contains(name)) {
            expected.remove(name);
        }
        // As it was received, and with a target and fields that were changed before.
        let mut changed = expected.clone();
        changed.set_target("/other?q").unwrap();
        changed.replace("New", b"1").unwrap();
        changed.replace("Host", b"b").unwrap();
        let again = changed.as_head().to_forward(|_| false).unwrap();
        for (head, expected) in [(forwarded(message, |_| false), expected), (again, changed)] {
            assert_eq!(text(&head), text(&expected));
            let (own, other) = (head.as_head(), expected.as_head());
            assert_eq!(own.target(), other.target(), "{message}");
            assert_eq!((own.path(), own.query()), (other.path(), other.query()));
            assert_eq!(own.method(), other.method());
            assert_eq!(own.framing(), other.framing());
            assert_eq!(own.expects_continue(), other.expects_continue());
            assert_eq!(own.authority(), other.authority());
            let known = |name: &str| KnownField::of(name.as_bytes());
            for known in ["Host", "Connection", "Content-Length", "Trailer", "TE"].map(known) {
                let known = known.expect("it is one");
                assert_eq!(own.known(known), other.known(known), "{message} {known:?}");
            }
        }
    }
}

#[test]
fn a_copy_to_forward_is_changed_like_any_other() {
    let message = "GET /a HTTP/1.1\r\nHost: a\r\nA: 1\r\nTE: x\r\nB: 2\r\n\r\n";
    let copy = || forwarded(message, |_| false);
    type Change = dyn Fn(&mut OwnedRequestHead);
    let changes: [(&str, &Change); 5] = [
        ("/a Host: a|A: 1|B: 2|C: 3", &|head| {
            head.append("C", b"3").unwrap()
        }),
        ("/a Host: a|B: 2", &|head| assert_eq!(head.remove("A"), 1)),
        ("/a Host: a|A: 1|B: 2", &|head| {
            assert_eq!(head.remove("C"), 0)
        }),
        ("/a Host: a|A: 9|B: 2", &|head| {
            head.replace("A", b"9").unwrap()
        }),
        ("/b Host: a|A: 1|B: 2", &|head| {
            head.set_target("/b").unwrap()
        }),
    ];
    for (expected, change) in &changes {
        let mut head = copy();
        change(&mut head);
        let (target, fields) = expected.split_once(' ').expect("a target and fields");
        let fields = fields.replace('|', "\r\n");
        let expected = format!("GET {target} HTTP/1.1\r\n{fields}\r\n\r\n");
        assert_eq!(text(&head), expected);
        // What is appended after a change.
        head.append("Last", b"1").unwrap();
        let expected = expected.replace("\r\n\r\n", "\r\nLast: 1\r\n\r\n");
        assert_eq!(text(&head), expected);
    }
}

#[test]
fn unwanted_fields_are_not_copied_unless_they_are_known() {
    let mut asked = Vec::new();
    let head = forwarded(
        "POST / HTTP/1.1\r\nHost: a\r\nX-Claim: 1\r\nA:2\r\nConnection: a-b\r\nA-B: 3\r\nB: 4 \r\n\
         Content-Length: 5\r\nC: 6\r\n\r\n",
        |name| {
            asked.push(String::from_utf8_lossy(name).into_owned());
            name.len() != 1
        },
    );
    let expected =
        "POST / HTTP/1.1\r\nHost: a\r\nA: 2\r\nB: 4\r\nContent-Length: 5\r\nC: 6\r\n\r\n";
    assert_eq!(text(&head), expected);
    assert_eq!(head.as_head().framing(), BodyFraming::Length(5));
    assert_eq!(asked, ["X-Claim", "A", "B", "C"]);
}

#[test]
fn a_copy_that_grows_too_large_is_refused() {
    let limits = HeadLimits {
        head: u16::MAX,
        ..HeadLimits::DEFAULT
    };
    // Each of these lines gets a space.
    let lines = format!("A:{}\r\n", "x".repeat(1_000)).repeat(60);
    let message = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let long = format!("B:{}", "x".repeat(65_535 - message.len() - 4));
    let message = message.replace("Host: a\r\n", &format!("Host: a\r\n{long}\r\n"));
    assert_eq!(message.len(), 65_535);
    let mut decoder = RequestDecoder::new(limits, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let head = decoder.head(message.as_bytes(), &mut table);
    let head = head.expect("accepted").expect("complete");
    let copied = head.to_forward(|_| false).map(|_| ());
    assert_eq!(copied, Err(EncodeError::HeadTooLarge));
}

#[test]
fn checked_lines_are_appended_as_fields() {
    let mut head = owned("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\n\r\n");
    let line = |name: &str, value: &[u8]| FieldLines::new(name, value).unwrap();
    let lines = line("Via", b"x").and("Empty", b"").unwrap();
    head.append_lines(&lines, 0..2).unwrap();
    head.append("B", b"2").unwrap();
    head.append_lines(&line("TE", b"trailers"), 0..1).unwrap();
    // A second host would change what the request is for.
    let second = head.append_lines(&line("Host", b"b"), 0..1);
    assert_eq!(second, Err(EncodeError::FieldValue));
    let expected =
        "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nVia: x\r\nEmpty: \r\nB: 2\r\nTE: trailers\r\n\r\n";
    assert_eq!(text(&head), expected);
    assert_eq!(head.as_head().get("via"), Some(&b"x"[..]));
    assert_eq!(head.as_head().known(KnownField::Te), Some(&b"trailers"[..]));
    head.remove("via");
    head.replace("b", b"3").unwrap();
    let expected = "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nEmpty: \r\nB: 3\r\nTE: trailers\r\n\r\n";
    assert_eq!(text(&head), expected);
    let mut numbered = line("Id", b"<0000>");
    numbered.overwrite(0, 1, b"12").unwrap();
    numbered.overwrite(0, 3, b"34").unwrap();
    assert_eq!(numbered.as_bytes(), b"Id: <1234>\r\n");
    assert_eq!(
        numbered.overwrite(0, 5, b"xx"),
        Err(EncodeError::FieldValue)
    );
    for (at, part) in [(0, b" "), (1, b"\r"), (1, b"\x80"), (7, b"x")] {
        let refused = numbered.overwrite(0, at, part);
        assert_eq!(refused, Err(EncodeError::FieldValue), "{at}");
    }
    assert_eq!(numbered, line("Id", b"<1234>"));
    let long = line("L", &[b'x'; 60_000]);
    head.append_lines(&long, 0..1).unwrap();
    let too_long = head.append_lines(&long, 0..1);
    assert_eq!(too_long, Err(EncodeError::HeadTooLarge));
}

#[test]
fn a_part_of_checked_lines_is_appended_as_fields() {
    let start = "GET / HTTP/1.1\r\nHost: a\r\n";
    let lines = FieldLines::new("A", b"one").unwrap();
    let lines = lines.and("Bc", b"").unwrap().and("D", b"3").unwrap();
    let rows = [
        (0..3, "A: one\r\nBc: \r\nD: 3\r\n"),
        (1..3, "Bc: \r\nD: 3\r\n"),
        (1..2, "Bc: \r\n"),
        (2..2, ""),
    ];
    for (fields, added) in rows {
        let mut head = owned(&format!("{start}\r\n"));
        head.append_lines(&lines, fields.clone()).unwrap();
        assert_eq!(text(&head), format!("{start}{added}\r\n"));
        let view = head.as_head();
        let found = [view.get("a"), view.get("bc"), view.get("d")];
        let expected = [&b"one"[..], b"", b"3"];
        for (at, expected) in expected.into_iter().enumerate() {
            let expected = Some(expected).filter(|_| fields.contains(&at));
            assert_eq!(found[at], expected, "{fields:?}");
        }
    }
}

#[test]
fn a_head_has_no_more_fields_than_positions() {
    let mut head = owned("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let two = FieldLines::new("A", b"1").unwrap().and("B", b"2").unwrap();
    let added = (0..200).take_while(|_| head.append_lines(&two, 0..2).is_ok());
    assert_eq!(added.count(), 124);
    head.append_lines(&two, 1..2).unwrap();
    let one_more = head.append_lines(&two, 0..1);
    assert_eq!(one_more, Err(EncodeError::HeadTooLarge));
    assert_eq!(head.as_head().fields().len(), 250);
}

#[test]
fn the_target_is_replaced() {
    let mut head = owned("GET http://a/x?y HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(head.set_target("x"), Err(EncodeError::Target));
    assert_eq!(head.set_target("/ x"), Err(EncodeError::Target));
    assert_eq!(head.set_target(""), Err(EncodeError::Target));
    assert_eq!(head.set_target("/\\?x"), Err(EncodeError::Target));
    head.set_target("/a|b?{c}\\").unwrap();
    assert_eq!(head.as_head().query(), Some("{c}\\"));
    head.set_target("/z?w").unwrap();
    assert_eq!(
        (head.as_head().path(), head.as_head().query()),
        ("/z", Some("w"))
    );
    assert_eq!(text(&head), "GET /z?w HTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn a_head_does_not_grow_without_bound() {
    let mut head = owned("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let value = [b'x'; 10_000];
    for _ in 0..6 {
        head.append("A", &value).unwrap();
    }
    assert_eq!(head.append("A", &value), Err(EncodeError::HeadTooLarge));
    assert_eq!(head.replace("A", &value), Err(EncodeError::HeadTooLarge));
    assert_eq!(head.as_head().fields().len(), 7);
    let mut head = owned("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let appended = (0..1000).take_while(|_| head.append("A", b"1").is_ok());
    assert!(appended.count() < 255);
}

//! Copies of heads that are changed, as a proxy does.

use tidegate_http::codec::{
    BodyFraming, BodyLimits, EncodeError, FieldLine, HeadLimits, HeadTable, KnownField, Method,
    OwnedRequestHead, RequestDecoder, ResponseDecoder,
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
    head.encode(&mut out).expect("it is accepted");
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
    assert_eq!(
        head.set_framing(BodyFraming::UntilClose),
        Err(EncodeError::Framing)
    );
    assert_eq!(text(&head), message);
}

#[test]
fn the_framing_is_replaced_as_a_whole() {
    let mut head = owned("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nA: 1\r\n\r\n");
    head.set_framing(BodyFraming::Chunked).unwrap();
    assert_eq!(
        text(&head),
        "POST / HTTP/1.1\r\nHost: a\r\nA: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    assert_eq!(head.as_head().framing(), BodyFraming::Chunked);
    head.set_framing(BodyFraming::Length(7)).unwrap();
    assert_eq!(
        text(&head),
        "POST / HTTP/1.1\r\nHost: a\r\nA: 1\r\nContent-Length: 7\r\n\r\n"
    );
    head.set_framing(BodyFraming::Empty).unwrap();
    assert_eq!(text(&head), "POST / HTTP/1.1\r\nHost: a\r\nA: 1\r\n\r\n");
}

#[test]
fn fields_of_one_connection_are_not_passed_on() {
    let mut head = owned(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: x-mine, Host, close\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n\
         TE: trailers\r\nUpgrade: h2c\r\nProxy-Connection: x\r\nConnection: Content-Length, x-too\r\n\
         Content-Length: 5\r\nX-Too: 2\r\nX-Other: 3\r\n\r\n",
    );
    head.remove_hop_by_hop();
    let expected = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Other: 3\r\n\r\n";
    assert_eq!(text(&head), expected);
}

#[test]
fn unwanted_fields_leave_with_those_of_the_connection_unless_they_are_known() {
    let mut head = owned(
        "POST / HTTP/1.1\r\nHost: a\r\nX-Claim: 1\r\nA:2\r\nConnection: a-b\r\nA-B: 3\r\nB: 4 \r\n\
         Content-Length: 5\r\nC: 6\r\n\r\n",
    );
    head.remove_hop_by_hop_and(|name| name.len() != 1);
    let expected =
        "POST / HTTP/1.1\r\nHost: a\r\nA: 2\r\nB: 4\r\nContent-Length: 5\r\nC: 6\r\n\r\n";
    assert_eq!(text(&head), expected);
    assert_eq!(head.as_head().framing(), BodyFraming::Length(5));
}

#[test]
fn checked_lines_are_appended_as_fields() {
    let mut head = owned("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\n\r\n");
    let line = |name: &str, value: &[u8]| FieldLine::new(name, value).unwrap();
    head.append_line(&line("Via", b"x")).unwrap();
    head.append_line(&line("Empty", b"")).unwrap();
    head.append("B", b"2").unwrap();
    head.append_line(&line("TE", b"trailers")).unwrap();
    // A second host would change what the request is for.
    let second = head.append_line(&line("Host", b"b"));
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
    let long = line("L", &[b'x'; 60_000]);
    head.append_line(&long).unwrap();
    assert_eq!(head.append_line(&long), Err(EncodeError::HeadTooLarge));
}

#[test]
fn the_target_is_replaced() {
    let mut head = owned("GET http://a/x?y HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(head.set_target("x"), Err(EncodeError::Target));
    assert_eq!(head.set_target("/ x"), Err(EncodeError::Target));
    assert_eq!(head.set_target(""), Err(EncodeError::Target));
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

#[test]
fn responses_are_changed_in_the_same_way() {
    let mut decoder = ResponseDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let message =
        b"HTTP/1.0 418 I'm a teapot\r\nA: 1\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n";
    let head = decoder
        .head(message, &mut table, Method::Get)
        .unwrap()
        .unwrap();
    let mut head = head.to_owned();
    head.remove_hop_by_hop();
    head.replace("a", b"2").unwrap();
    head.append("Via", b"x").unwrap();
    let mut out = Vec::new();
    head.encode(&mut out).unwrap();
    assert_eq!(
        out,
        b"HTTP/1.1 418 I'm a teapot\r\nA: 2\r\nContent-Length: 2\r\nVia: x\r\n\r\n"
    );
    assert_eq!(head.as_head().status(), 418);
}

#[test]
fn memory_without_room_stays_as_it_is() {
    let head = owned("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut memory = [0; 26];
    let mut out = &mut memory[..];
    assert_eq!(head.encode(&mut out), Err(EncodeError::Full));
    assert_eq!(memory, [0; 26]);
}

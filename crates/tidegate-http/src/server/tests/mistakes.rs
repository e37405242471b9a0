//! Services that make mistakes: exactly one response, and the connection ends.

use super::{Client, closing, get};

const FAILED: &str = "500 Internal Server Error";

#[test]
fn a_service_that_panics_is_status_500() {
    let mut client = Client::new(|request, response| {
        let _response = response.field("x", "y");
        assert!(request.path() != "/bad", "told to");
        _response.body("fine");
    });
    assert!(client.send(get("/good")).ends_with("fine"));
    let response = client.send(get("/good") + &get("/bad") + &get("/good"));
    assert!(response.ends_with(&closing(FAILED)), "{response}");
    assert_eq!(response.matches("HTTP/1.1").count(), 2, "{response}");
    assert!(client.is_lingering());
    assert_eq!(client.metrics().panics, 1);
}

#[test]
fn a_service_that_panics_after_its_response_has_responded() {
    let mut client = Client::new(|_, response| {
        response.body("fine");
        panic!("told to");
    });
    let response = client.send(get("/a") + &get("/b"));
    assert!(response.ends_with("fine"), "{response}");
    assert_eq!(response.matches("HTTP/1.1").count(), 1);
    assert!(client.is_lingering());
}

#[test]
fn a_service_that_does_not_respond_is_status_500() {
    let mut client = Client::new(|_, response| drop(response.status(201)));
    assert_eq!(client.send(get("/a")), closing(FAILED));
    assert!(!client.is_open());
    assert_eq!(client.metrics().dropped_responses, 1);
}

#[test]
fn a_response_that_cannot_be_sent_is_status_500() {
    let fields: [(&str, &[u8]); 7] = [
        ("a\r\nb", b"c"),
        ("a b", b"c"),
        ("", b"c"),
        ("a", b"b\r\nSet-Cookie: c"),
        ("a", b"b\0"),
        ("Content-Length", b"5"),
        ("Transfer-Encoding", b"chunked"),
    ];
    for (name, value) in fields {
        let mut client = Client::new(move |_, response| {
            response
                .field("first", "1")
                .field(name, value)
                .body("hello");
        });
        assert_eq!(client.send(get("/a")), closing(FAILED), "{name:?}");
        assert_eq!(client.metrics().mistakes, 1);
    }
    for status in [0, 99, 101, 1000] {
        let mut client = Client::new(move |_, response| response.status(status).body(""));
        assert_eq!(client.send(get("/a")), closing(FAILED), "{status}");
    }
}

#[test]
fn a_deferred_response_that_cannot_be_sent_is_status_500() {
    let mut client = Client::new(|_, response| response.defer().field("a", "\n").body("x"));
    assert_eq!(client.send(get("/a")), closing(FAILED));
    assert!(!client.is_open());
    let mut client = Client::new(|_, response| {
        let mut stream = response.defer().field("a", "\n").stream();
        stream.write("x");
        stream.finish();
    });
    assert_eq!(client.send(get("/a")), closing(FAILED));
    assert_eq!(client.metrics().mistakes, 1);
}

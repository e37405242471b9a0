//! Messages in pieces: the responses do not depend on where the bytes are split.

use bytes::Bytes;
use tidegate_promise::Outcome;

use super::{Client, get};
use crate::server::{Request, Response};

/// Responds with what it got, body included.
fn describe(request: Request<'_>, response: Response<'_>) {
    let head = format!("{} {}", request.method(), request.head().target());
    let later = response.defer();
    request.collect(1000).finally(move |outcome| {
        let body = match outcome {
            Outcome::Success(body) => body.clone(),
            _ => Bytes::new(),
        };
        later.body(format!("{head}: {}", String::from_utf8_lossy(&body)));
    });
}

fn messages() -> Vec<String> {
    let post = "POST /p HTTP/1.1\r\nHost: a\r\n";
    vec![
        get("/a?b") + &get("/c"),
        format!("{post}Content-Length: 5\r\n\r\nhello") + &get("/next"),
        format!(
            "{post}Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x\r\nlo\r\n0\r\nA: b\r\n\r\n"
        ) + &get("/next"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\n3\r\nhelXX") + &get("/never"),
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\nHost: a\n\n".to_owned(),
        "GET / HTTP/1.0\r\n\r\n".to_owned() + &get("/never"),
    ]
}

#[test]
fn a_message_split_at_every_byte_gets_the_same_responses() {
    for message in messages() {
        let whole = Client::new(describe).send(message.clone());
        assert!(whole.starts_with("HTTP/1.1 "), "{message:?}: {whole:?}");
        for at in 1..message.len() {
            let mut client = Client::new(describe);
            let first = client.send(message[..at].to_owned());
            let rest = client.send(message[at..].to_owned());
            assert_eq!(first + &rest, whole, "{message:?} split at {at}");
        }
    }
}

#[test]
fn a_message_in_single_bytes_gets_the_same_responses() {
    for message in messages() {
        let whole = Client::new(describe).send(message.clone());
        let mut client = Client::new(describe);
        let pieces = message.chars().map(|piece| client.send(piece.to_string()));
        assert_eq!(pieces.collect::<String>(), whole, "{message:?}");
    }
}

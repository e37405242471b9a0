//! A whole connection of a server without a socket: what a client gets for any bytes in any pieces.
//! The fuzz targets include this file.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_http::codec::{BodyEvent, BodyLimits, HeadLimits, HeadTable, Method, ResponseDecoder};
use tidegate_http::{Body, DeferredResponse, HttpServer, Limits, Request, Response};
use tidegate_promise::Outcome;

/// What a connection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The requests that reached the service, with what it read of their bodies.
    pub calls: Vec<Call>,
    /// Everything that was sent to the client.
    pub sent: Vec<u8>,
    /// The connection has ended.
    pub ended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub method: String,
    pub target: String,
    pub body: Option<Vec<u8>>,
}

type Calls = Arc<Mutex<Vec<Call>>>;
type Kept = Arc<Mutex<Vec<Later>>>;

/// A response that the service makes when all input has arrived.
struct Later {
    number: usize,
    body: Option<Body>,
    response: DeferredResponse,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends `pieces` to a connection, and lets its service and its limits of time come to an end. The
/// first letter of a path decides how the service responds.
pub fn exchange<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Exchange {
    let (calls, kept) = (Calls::default(), Kept::default());
    let (own_calls, own_kept) = (Arc::clone(&calls), Arc::clone(&kept));
    let limits = Limits::default().max_head(400).max_fields(8).max_body(300);
    let mut client = HttpServer::embedded(limits, move |request, response| {
        respond(request, response, &own_calls, &own_kept);
    });
    let mut sent = Vec::new();
    for piece in pieces {
        client.receive(piece.to_vec());
        sent.extend_from_slice(&client.sent());
    }
    // Each round makes room for more requests.
    loop {
        let round = std::mem::take(&mut *lock(&kept));
        if round.is_empty() {
            break;
        }
        // The last one first: the order of the responses is that of the requests.
        for later in round.into_iter().rev() {
            finish(later, &calls, &mut client);
        }
        client.run();
        sent.extend_from_slice(&client.sent());
    }
    for _ in 0..3 {
        client.advance(Duration::from_secs(400));
        sent.extend_from_slice(&client.sent());
    }
    let calls = std::mem::take(&mut *lock(&calls));
    Exchange {
        calls,
        sent,
        ended: !client.is_open(),
    }
}

fn respond(request: Request<'_>, response: Response<'_>, calls: &Calls, kept: &Kept) {
    let number = lock(calls).len();
    let (method, target) = (request.method().to_string(), request.head().target());
    lock(calls).push(Call {
        method,
        target: target.to_owned(),
        body: None,
    });
    match request.path().as_bytes().get(1) {
        Some(b'c') => {
            let (response, calls) = (response.defer(), Arc::clone(calls));
            request.collect(50).finally(move |outcome| {
                if let Outcome::Success(body) = outcome {
                    lock(&calls)[number].body = Some(body.to_vec());
                }
                response.body("collected");
            });
        }
        Some(b'd') => lock(kept).push(Later {
            number,
            body: None,
            response: response.defer(),
        }),
        Some(b'r') => lock(kept).push(Later {
            number,
            body: Some(request.into_body()),
            response: response.defer(),
        }),
        Some(b's') => {
            let mut stream = response.stream();
            stream.write("one");
            stream.write("two");
            stream.finish();
        }
        Some(b'x') => drop(response),
        _ => response.body("at once"),
    }
}

fn finish(later: Later, calls: &Calls, client: &mut tidegate_net::EmbeddedChannel) {
    if let Some(mut body) = later.body {
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = Vec::new();
        let mut waited = false;
        loop {
            match body.poll_next(&mut cx) {
                Poll::Ready(Some(Ok(piece))) => read.extend_from_slice(&piece),
                Poll::Ready(None) => {
                    lock(calls)[later.number].body = Some(read);
                    break;
                }
                Poll::Ready(Some(Err(_))) => break,
                // What the client has sent arrives now, if the server reads again.
                Poll::Pending if !waited => waited = true,
                Poll::Pending => break,
            }
            client.run();
        }
    }
    later.response.body("later");
}

/// Checks that the pieces change nothing, and that what was sent is a sequence of responses to the
/// requests: the last one may be a refusal or an error, the others are not.
pub fn check(data: &[u8], size: usize) {
    let whole = exchange([data]);
    let pieces = exchange(data.chunks(size.max(1)));
    assert_eq!(shown(&pieces), shown(&whole), "{}", data.escape_ascii());
    assert!(whole.ended, "no limit of time has ended it");
    let mut statuses = statuses(&whole);
    let last = statuses.pop();
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    let answered = statuses.len() + usize::from(last == Some(200));
    match last {
        None => assert_eq!(whole.calls.len(), 0),
        Some(200) => assert_eq!(answered, whole.calls.len()),
        Some(_) => assert!(answered <= whole.calls.len()),
    }
}

fn shown(exchange: &Exchange) -> (String, &[Call], bool) {
    let sent = exchange.sent.escape_ascii().to_string();
    // It may be left out once the body has come.
    let sent = sent.replace("HTTP/1.1 100 Continue\\r\\n\\r\\n", "");
    // The two runs may be in different seconds.
    let parts = sent.split("Date: ").enumerate();
    let dateless = parts.map(|(at, part)| match at {
        0 => part,
        _ => part.split_once(" GMT").map_or(part, |(_, rest)| rest),
    });
    let sent = dateless.collect();
    (sent, &exchange.calls, exchange.ended)
}

/// Reads the responses, and returns their statuses, without those that precede another one.
fn statuses(exchange: &Exchange) -> Vec<u16> {
    let mut decoder = ResponseDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let mut statuses = Vec::new();
    let mut rest = &exchange.sent[..];
    while !rest.is_empty() {
        let call = exchange.calls.get(statuses.len());
        let to = match call.map(|call| &call.method[..]) {
            Some("HEAD") => Method::Head,
            _ => Method::Get,
        };
        let head = decoder.head(rest, &mut table, to);
        let head = head.expect("a response").expect("a whole head");
        let status = head.status();
        rest = &rest[head.len()..];
        while decoder.in_body() {
            let step = decoder.body(rest).expect("a body");
            rest = &rest[step.consumed..];
            if step.event == BodyEvent::More {
                // The end of the connection ends the body.
                decoder.end_of_input().expect("a whole body");
                break;
            }
        }
        if status >= 200 {
            statuses.push(status);
        }
    }
    statuses
}

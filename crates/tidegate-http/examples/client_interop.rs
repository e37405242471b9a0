//! Our HTTP client beside other servers: `client_interop NAME URL [FEATURE…]`.
//!
//! `URL` is that of a folder with the files `small` (`hello`) and `large` (a megabyte). Features of
//! the server: `chunked` for a response of unknown length, `post` for a body that comes back,
//! `cut` for a response that ends early, `close` for a server that closes each connection.
//! `cargo xtask interop` runs it.
#![forbid(unsafe_code)]

use std::time::Duration;

use tidegate_core::{Collect, Metric, MetricVisitor};
use tidegate_http::client::{Client, ClientError, Response};
use tidegate_promise::{CancelOnDrop, WaitError};

type Result<T> = std::result::Result<T, String>;

/// The requests on connections that were used before, and on new ones.
#[derive(Default)]
struct Counts([f64; 2]);

impl MetricVisitor for Counts {
    fn counter(&mut self, _: Metric, labels: &[(&str, &str)], value: f64) {
        let is_new = labels.iter().any(|(_, value)| *value == "new");
        self.0[usize::from(is_new)] = value;
    }
    fn gauge(&mut self, _: Metric, _: &[(&str, &str)], _: f64) {}
    fn histogram(&mut self, _: Metric, _: &[(&str, &str)], _: &[(f64, u64)], _: f64) {}
}

fn check(what: &str, holds: bool) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(format!("{what}: not as expected")),
    }
}

fn head(call: CancelOnDrop<Response>, status: u16) -> Result<Response> {
    let response = call.wait().map_err(|why| why.to_string())?;
    match response.status() == status {
        true => Ok(response),
        false => Err(format!("status {}, not {status}", response.status())),
    }
}

fn body(response: Response) -> Result<Vec<u8>> {
    let body = response.collect(4 << 20).wait();
    Ok(body.map_err(|why| why.to_string())?.to_vec())
}

/// Small and large files, one after the other on one connection; heads; a file that is not there.
fn files(client: &Client, url: &str, closes: bool) -> Result<()> {
    for _ in 0..5 {
        let small = body(head(client.get(format!("{url}small")).send(), 200)?)?;
        check("the small file", small == b"hello\n")?;
    }
    let large = body(head(client.get(format!("{url}large")).send(), 200)?)?;
    let is_whole = large.len() == 1 << 20 && large.iter().all(|byte| *byte == b'x');
    check("the large file", is_whole)?;
    let only = head(client.head(format!("{url}large")).send(), 200)?;
    check("the head has no body", body(only)?.is_empty())?;
    let missing = head(client.get(format!("{url}missing")).send(), 404)?;
    body(missing)?;
    let small = body(head(client.get(format!("{url}small")).send(), 200)?)?;
    check("the small file again", small == b"hello\n")?;
    let mut counts = Counts::default();
    client.collect(&mut counts);
    let [reused, new] = counts.0;
    match closes {
        true => check("each request has a connection", reused == 0.0),
        // A server may close after an error.
        false if new <= 2.0 && reused >= 7.0 => Ok(()),
        false => Err(format!(
            "{reused} requests on reused connections, {new} on new ones"
        )),
    }
}

fn chunked(client: &Client, url: &str) -> Result<()> {
    for _ in 0..2 {
        let response = head(client.get(format!("{url}chunked")).send(), 200)?;
        check("it has no length", response.get("content-length").is_none())?;
        let expected: String = (0..100).map(|n| format!("chunk {n}\n")).collect();
        check("the chunks", body(response)? == expected.as_bytes())?;
    }
    Ok(())
}

fn post(client: &Client, url: &str) -> Result<()> {
    let large = vec![b'y'; 300_000];
    let url = format!("{url}echo");
    let whole = head(client.post(&url).body(large.clone()).send(), 200)?;
    check("a body of known length", body(whole)? == large)?;
    // Longer than a call may take: the server has to ask for the body.
    let waits = client.post(&url).expect_continue(Duration::from_secs(60));
    let asked = head(waits.body(large.clone()).send(), 200)?;
    check("a body that the server asks for", body(asked)? == large)?;
    let (mut out, call) = client.post(&url).send_stream(None);
    let sending = async {
        for piece in large.chunks(50_000) {
            out.write(piece.to_vec()).await?;
        }
        out.finish().await
    };
    let sent: std::result::Result<(), ClientError> =
        tidegate_testkit::block_on("the body", sending);
    sent.map_err(|why| why.to_string())?;
    check("a chunked body", body(head(call, 200)?)? == large)
}

/// A response that ends before its body: an error that says so, and no hang.
fn cut(client: &Client, url: &str) -> Result<()> {
    for page in ["cut", "cut-chunked", "reset"] {
        let call = client.get(format!("{url}{page}")).send();
        let ended = match call.wait() {
            Ok(response) => response.collect(1 << 20).wait().map(drop),
            Err(why) => Err(why),
        };
        match ended {
            Err(WaitError::Failed(_)) => {}
            other => return Err(format!("{page}: {other:?}")),
        }
    }
    let small = body(head(client.get(format!("{url}small")).send(), 200)?)?;
    check("the connection is replaced", small == b"hello\n")
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(_name), Some(url)) = (arguments.next(), arguments.next()) else {
        return Err("usage: client_interop NAME URL [FEATURE…]".to_owned());
    };
    let features: Vec<_> = arguments.collect();
    let has = |feature: &str| features.iter().any(|one| one == feature);
    let group = tidegate_net::pinned("io", 1).map_err(|why| why.to_string())?;
    let client = Client::builder(&group)
        .timeout(Duration::from_secs(10))
        .build();
    files(&client, &url, has("close"))?;
    if has("chunked") {
        chunked(&client, &url)?;
    }
    if has("post") {
        post(&client, &url)?;
    }
    if has("cut") {
        cut(&client, &url)?;
    }
    Ok(())
}

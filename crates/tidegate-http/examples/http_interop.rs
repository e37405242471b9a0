//! An HTTP server for other clients than ours: `http_interop`.
//!
//! Prints `http ADDRESS`, `impatient ADDRESS` for a server with short time limits, and `ready`. Ends
//! with its standard input. `cargo xtask interop` runs it.
//!
//! | path | response |
//! |---|---|
//! | `/` | `hello` |
//! | `/large` | a megabyte, of known length |
//! | `/chunked` | a hundred chunks |
//! | `/echo` | the body of the request, collected |
//! | `/stream` | the body of the request, piece by piece |
//! | `/peer` | the address of the client, which tells whether connections are used again |
//! | `/accepted` | how many connections were accepted |
#![forbid(unsafe_code)]

use std::io::Read;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tidegate_http::{Body, HttpServer, Limits, Request, Response, ResponseStream};
use tidegate_net::{ChannelOptions, NetGroup};
use tidegate_promise::Outcome;

/// The largest body that is collected.
const MAX_BODY: usize = 16 << 20;
static LARGE: [u8; 1 << 20] = [b'x'; 1 << 20];

fn respond(
    group: &NetGroup,
    server: &OnceLock<HttpServer>,
    request: Request<'_>,
    response: Response<'_>,
) {
    match request.path() {
        "/" => response.field("Content-Type", "text/plain").body("hello\n"),
        "/large" => response.body(Bytes::from_static(&LARGE)),
        "/chunked" => {
            let mut stream = response.stream();
            for number in 0..100 {
                stream.write(format!("chunk {number}\n"));
            }
            stream.finish();
        }
        "/echo" => {
            let later = response.defer();
            request.collect(MAX_BODY).finally(move |body| match body {
                Outcome::Success(body) => later.body(body.clone()),
                Outcome::Failure(why) => later.status(413).body(why.to_string()),
                Outcome::Cancelled => {}
            });
        }
        "/stream" => {
            let (body, stream) = (request.into_body(), response.stream());
            // A refused task drops the stream, which ends the connection.
            let _ = group.loops().spawn(copy(body, stream));
        }
        "/peer" => {
            let peer = request.peer_addr();
            response.body(peer.map_or_else(String::new, |peer| peer.to_string()));
        }
        "/accepted" => {
            let accepted = server.get().map_or(0, |server| server.server().accepted());
            response.body(accepted.to_string());
        }
        _ => response.status(404).body("not here\n"),
    }
}

/// Copies a body, no faster than the client takes it.
async fn copy(mut body: Body, mut stream: ResponseStream) {
    while let Some(Ok(piece)) = body.next().await {
        stream.write(piece);
        if !stream.is_writable() && stream.writable().await.is_err() {
            return;
        }
    }
    stream.finish();
}

fn serve(group: &NetGroup, limits: Limits) -> Result<HttpServer, Box<dyn std::error::Error>> {
    let server = Arc::new(OnceLock::new());
    let (seen, own) = (Arc::clone(&server), group.clone());
    // Small, so that the server sees which clients do not read.
    let options = ChannelOptions {
        send_buffer: Some(64 * 1024),
        close_timeout: Duration::ZERO,
        ..ChannelOptions::default()
    };
    let started = HttpServer::builder(group)
        .limits(limits)
        .configure(|net| net.options(options))
        .serve("127.0.0.1:0", move |request, response| {
            respond(&own, &seen, request, response);
        })
        .wait()?;
    Ok(server.get_or_init(|| started).clone())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let group = tidegate_net::pinned("http", 2)?;
    let server = serve(&group, Limits::default())?;
    let second = Duration::from_secs(1);
    let limits = Limits::default().head_time(second).idle(second);
    let impatient = serve(&group, limits.body_time(second).send_time(second))?;
    println!("http {}", server.local_addr());
    println!("impatient {}", impatient.local_addr());
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

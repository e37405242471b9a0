//! A service that blocks, on a roaming group: `http_blocking [ADDRESS]`. Another thread of the pool
//! takes over the event loop meanwhile. Without an address it sends itself requests and ends.
//!
//! `/wait` blocks its thread until `/go` is requested. On a pinned group with one loop, `/go` would
//! never be read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tidegate::http::{HttpServer, Request, Response};
use tidegate::prelude::WorkerPool;
use tidegate::signal;

/// How many requests of `/go` have come, for threads that wait for one.
#[derive(Default)]
struct Signals {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Signals {
    fn go(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Blocks until there is a signal. Returns `false` if none comes in time.
    fn wait(&self) -> bool {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = Duration::from_secs(60);
        let waited = self
            .changed
            .wait_timeout_while(count, limit, |count| *count == 0);
        let (count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *count > 0
    }
}

/// Responds, and blocks the thread where that is the simplest thing to do: a database driver without
/// futures would do the same.
fn respond(signals: &Signals, request: &Request<'_>, response: Response<'_>) {
    match request.path() {
        "/wait" if signals.wait() => response.body("waited for /go\n"),
        "/wait" => response.status(504).body("nothing came\n"),
        "/go" => {
            signals.go();
            response.body("gone\n");
        }
        _ => response.status(404).body("try /wait and /go\n"),
    }
}

/// Sends a request, and returns the connection.
fn ask(server: SocketAddr, path: &str) -> std::io::Result<TcpStream> {
    let mut client = TcpStream::connect(server)?;
    write!(
        client,
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )?;
    Ok(client)
}

/// Reads the text of the response.
fn read(mut client: TcpStream) -> std::io::Result<String> {
    let mut response = String::new();
    client.read_to_string(&mut response)?;
    let (_, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    Ok(body.trim_end().to_owned())
}

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    // At most 32 requests block at a time. One thread of these runs the event loop.
    let workers = WorkerPool::builder("workers").core(2).max(33).build()?;
    let group = tidegate::net::roaming("web", 1, &workers)?;
    let signals = Signals::default();
    let server = HttpServer::builder(&group)
        .serve(
            address.as_deref().unwrap_or("127.0.0.1:0"),
            move |request, response| respond(&signals, &request, response),
        )
        .wait()?;
    let drained = server.drain_on(signal::terminate());
    println!("http://{}/wait", server.local_addr());
    if address.is_some() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    let waiting = ask(server.local_addr(), "/wait")?;
    println!("GET /go: {}", read(ask(server.local_addr(), "/go")?)?);
    println!("GET /wait: {}", read(waiting)?);
    Ok(())
}

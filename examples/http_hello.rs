//! An HTTP/1.1 server: `http_hello [ADDRESS]`. Without an address it asks itself for three pages and
//! ends. With one it serves until `SIGTERM` or Ctrl-C; then each connection ends with its response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use tidegate::http::{HttpServer, Limits, Method, Request, Response};
use tidegate::prelude::*;
use tidegate::signal;

/// Responds to one request, on the connection's event loop. It must not block.
fn respond(request: Request<'_>, response: Response<'_>) {
    let response = response.field("Content-Type", "text/plain; charset=utf-8");
    match (request.method(), request.path()) {
        (Method::Get, "/") => response.body("ask for /hello/YOUR-NAME\n"),
        (Method::Get, path) => match path.strip_prefix("/hello/") {
            Some(name) => response.body(format!("hello, {name}\n")),
            None => response.status(404).body("there is no such page\n"),
        },
        _ => response.status(405).field("Allow", "GET").body(""),
    }
}

/// Asks for a page, and returns the status and the text.
fn ask(server: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut client = TcpStream::connect(server)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes())?;
    let mut response = String::new();
    client.read_to_string(&mut response)?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.lines().next().unwrap_or_default();
    let status = status.strip_prefix("HTTP/1.1 ").unwrap_or_default();
    Ok(format!("GET {path}: {status}, {}", body.trim_end()))
}

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    let group = tidegate::net::pinned("web", 2)?;
    let server = HttpServer::builder(&group)
        .limits(Limits::default().idle(Duration::from_secs(15)))
        .serve(address.as_deref().unwrap_or("127.0.0.1:0"), respond)
        .wait()?;
    let drained = server.drain_on(Completion::any([signal::terminate(), signal::interrupt()]));
    println!("http://{}/", server.local_addr());
    if address.is_some() {
        println!("{}", drained.wait()?);
    } else {
        for path in ["/", "/hello/Anna", "/nothing"] {
            println!("{}", ask(server.local_addr(), path)?);
        }
    }
    println!("{}", server.metrics());
    Ok(())
}

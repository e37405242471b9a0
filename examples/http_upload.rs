//! Uploads that are read as they come, in little memory: `http_upload [ADDRESS]`. Without an address
//! it sends itself a megabyte and ends. Try `curl -T FILE http://ADDRESS/upload`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use tidegate::http::{Body, BodyError, DeferredResponse, HttpServer, Limits, Method};
use tidegate::signal;

/// What the server keeps of an upload.
#[derive(Default)]
struct Summary {
    bytes: u64,
    checksum: u32,
}

impl Summary {
    fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        for byte in piece {
            let sum = self.checksum.wrapping_mul(31);
            self.checksum = sum.wrapping_add(u32::from(*byte));
        }
    }
}

/// Reads the body piece by piece. The connection reads ahead by 64 KiB at most: a client that sends
/// faster than this function reads has to wait.
async fn receive(mut body: Body) -> Result<Summary, BodyError> {
    let mut summary = Summary::default();
    while let Some(piece) = body.next().await {
        summary.add(&piece?);
    }
    Ok(summary)
}

async fn respond(body: Body, response: DeferredResponse) {
    match receive(body).await {
        Ok(Summary { bytes, checksum }) => {
            let text = format!("{bytes} bytes, checksum {checksum:08x}\n");
            response.status(201).body(text);
        }
        // If the client sent too much or too slowly, the server has responded already.
        Err(why) => response.status(400).body(format!("{why}\n")),
    }
}

/// Uploads 100 pieces of 10,000 bytes, without telling their number in advance.
fn upload(server: SocketAddr) -> std::io::Result<String> {
    let mut client = TcpStream::connect(server)?;
    let fields = "Host: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n";
    write!(client, "POST /upload HTTP/1.1\r\n{fields}\r\n")?;
    let piece = "x".repeat(10_000);
    for _ in 0..100 {
        client.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes())?;
    }
    client.write_all(b"0\r\n\r\n")?;
    let mut response = String::new();
    client.read_to_string(&mut response)?;
    let (_, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    Ok(body.trim_end().to_owned())
}

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    let group = tidegate::net::pinned("web", 2)?;
    let loops = group.loops().clone();
    let server = HttpServer::builder(&group)
        // A larger upload gets status 413 as soon as that is known.
        .limits(Limits::default().max_body(1 << 30))
        .serve(
            address.as_deref().unwrap_or("127.0.0.1:0"),
            move |request, response| match (request.method(), request.path()) {
                (Method::Post | Method::Put, "/upload") => {
                    let task = respond(request.into_body(), response.defer());
                    // If the event loop refuses the task, the response in it becomes status 500.
                    let _ = loops.next().spawn(task);
                }
                _ => response.status(404).body("send a file to /upload\n"),
            },
        )
        .wait()?;
    let drained = server.drain_on(signal::terminate());
    println!("http://{}/upload", server.local_addr());
    if address.is_some() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    println!("the server got {}", upload(server.local_addr())?);
    Ok(())
}

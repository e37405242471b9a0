//! The echo server as a future: it takes the channel over as a byte stream, on its event loop.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;

use futures_io::{AsyncRead, AsyncWrite};
use tidegate::net::{ByteStream, Server, StreamHandler};

async fn echo(mut stream: ByteStream) {
    let mut buffer = vec![0; 4096];
    loop {
        let read = poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut buffer)).await;
        let Ok(count @ 1..) = read else {
            return; // the peer has gone; dropping the stream closes the channel
        };
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, rest)).await {
                Ok(count) => rest = &rest[count..],
                Err(why) => return eprintln!("cannot reply: {why}"),
            }
        }
        let _ = poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await;
    }
}

fn main() -> tidegate::Result<()> {
    let group = tidegate::net::pinned("io", 1)?;
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", StreamHandler::new(echo)))
        .bind("127.0.0.1:0")
        .wait()?;
    let mut client = TcpStream::connect(server.local_addr())?;
    client.write_all(b"hello, future")?;
    let mut answer = [0; 13];
    client.read_exact(&mut answer)?;
    println!("{}", String::from_utf8_lossy(&answer));
    Ok(())
}

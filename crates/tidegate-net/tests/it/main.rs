//! Integration tests of `tidegate-net`: what a user of channels can rely on.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

mod bad_input;
mod changes;
mod channel;
mod decoders;
mod elsewhere;
mod ends;
mod faults;
mod framing;
mod halves;
mod handlers;
mod model;
mod pipeline;
mod registration;
mod roaming;
mod rules;
mod shaping;
mod stream;
mod tcp;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_order;
mod turns;
mod watch;

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use tidegate_net::{Assembly, Inbound, InboundContext, NetGroup, Nothing, Server};

/// Writes back what it reads.
struct Echo;

impl Inbound for Echo {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(bytes);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

fn serve(
    group: &NetGroup,
    assemble: impl Fn(Assembly) -> Assembly + Send + Sync + 'static,
) -> Server {
    let server = Server::new(group).pipeline(assemble).bind("127.0.0.1:0");
    server.wait().unwrap()
}

/// A plain blocking client.
fn dial(server: &Server) -> TcpStream {
    TcpStream::connect(server.local_addr()).unwrap()
}

/// Sends `bytes` and reads as many back.
fn round_trip(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    back
}

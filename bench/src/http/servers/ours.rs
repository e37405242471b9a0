//! Our server.

use tidegate_http::codec::FieldLines;
use tidegate_http::{HttpServer, Request, Response, ResponseStream};
use tidegate_net::ChannelPlacement;
use tidegate_net::NetGroup;
use tidegate_pool::WorkerPool;
use tidegate_promise::Outcome;

use super::{HELLO, PIECES, SERVER, STREAM, TEXT, piece};
use crate::served::{Ours, Running};

/// Threads of the pool under a roaming loop.
const POOL: usize = 32;

pub(super) fn pinned(loops: usize) -> Running {
    let group = tidegate_net::pinned("http", loops).expect("a poller");
    let server = serve(&group, true);
    Running::http(server, Ours::Pinned(group))
}

/// On a roaming loop a service may block.
pub(super) fn roaming() -> Running {
    let pool = WorkerPool::builder("workers").core(POOL).max(POOL);
    let pool = pool.build().expect("limits that agree");
    let group = tidegate_net::roaming("http", 1, &pool).expect("a poller");
    let server = serve(&group, false);
    Running::http(server, Ours::Roaming(group))
}

fn serve<P: ChannelPlacement>(group: &NetGroup<P>, non_blocking: bool) -> HttpServer {
    let mut server = HttpServer::builder(group);
    if non_blocking {
        server = server.non_blocking();
    }
    let server = server.serve("127.0.0.1:0", service()).wait();
    server.expect("a free port")
}

/// Returns the service. Its fields are checked once, and the path is compared as bytes.
fn service() -> impl Fn(Request<'_>, Response<'_>) + Send + Sync + 'static {
    let line = |name, value: &str| FieldLines::new(name, value.as_bytes()).expect("a valid field");
    let (server, text) = (line("Server", SERVER), line("Content-Type", TEXT));
    move |request, response| {
        if request.head().path_bytes() == STREAM.as_bytes() {
            return pour(response.stream(), PIECES);
        }
        response.field_lines(&server).field_lines(&text).body(HELLO);
    }
}

/// Sends pieces as long as the client takes them, and goes on when it takes more.
fn pour(mut stream: ResponseStream, pieces: usize) {
    for left in (1..=pieces).rev() {
        if !stream.is_writable() {
            let writable = stream.writable();
            writable.on_complete(move |room| {
                if let Outcome::Success(()) = room {
                    pour(stream, left);
                }
            });
            return;
        }
        stream.write(piece());
    }
    stream.finish();
}

//! Our server.

use tidegate_http::{HttpServer, Request, Response, ResponseStream};
use tidegate_net::NetGroup;
use tidegate_net::internal::ChannelPlacement;
use tidegate_pool::WorkerPool;
use tidegate_promise::Outcome;

use super::{HELLO, PIECES, SERVER, STREAM, TEXT, piece};
use crate::served::{Ours, Running};

/// Threads of the pool under a roaming loop.
const POOL: usize = 32;

pub(super) fn pinned() -> Running {
    let group = tidegate_net::pinned("http", 1).expect("a poller");
    let address = serve(&group, true);
    Running::ours(address, Ours::Pinned(group))
}

/// On a roaming loop a service may block, unless it states that it does not.
pub(super) fn roaming(non_blocking: bool) -> Running {
    let pool = WorkerPool::builder("workers").core(POOL).max(POOL);
    let pool = pool.build().expect("limits that agree");
    let group = tidegate_net::roaming("http", 1, &pool).expect("a poller");
    let address = serve(&group, non_blocking);
    Running::ours(address, Ours::Roaming(group))
}

fn serve<P: ChannelPlacement>(group: &NetGroup<P>, non_blocking: bool) -> std::net::SocketAddr {
    let mut server = HttpServer::builder(group);
    if non_blocking {
        server = server.non_blocking();
    }
    let server = server.serve("127.0.0.1:0", respond).wait();
    server.expect("a free port").local_addr()
}

fn respond(request: Request<'_>, response: Response<'_>) {
    match request.path() {
        STREAM => pour(response.stream(), PIECES),
        _ => response
            .field("Server", SERVER)
            .field("Content-Type", TEXT)
            .body(HELLO),
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

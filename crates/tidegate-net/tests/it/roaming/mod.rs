//! Channels that travel: roaming loops over a pool, on real sockets and by hand.

mod sockets;

use tidegate_exec::{Roaming, WorkerPool};
use tidegate_net::{Assembly, NetGroup, Server};

/// A pool of `threads`, and one roaming loop on it.
fn roaming(threads: usize) -> (WorkerPool, NetGroup<Roaming>) {
    let pool = WorkerPool::builder("workers").core(threads).max(threads);
    let pool = pool.build().unwrap();
    let group = tidegate_net::roaming("io", 1, &pool).unwrap();
    (pool, group)
}

fn serve(
    group: &NetGroup<Roaming>,
    assemble: impl Fn(Assembly<Roaming>) -> Assembly<Roaming> + Send + Sync + 'static,
) -> Server {
    let server = Server::new(group).pipeline(assemble).bind("127.0.0.1:0");
    server.wait().unwrap()
}

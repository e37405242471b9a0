//! Channels of roaming event loops over a pool, with real sockets and with manual clocks.

mod scarce;
mod sockets;
mod stress;

use tidegate_core::ManualClock;
use tidegate_loop::{EventLoopGroup, Roaming};
use tidegate_net::{NetGroup, PipelineBuilder, Server};
use tidegate_pool::WorkerPool;

/// Creates a pool of `threads`, and one roaming event loop on it that hands over late.
pub(crate) fn roaming(threads: usize) -> (WorkerPool, NetGroup<Roaming>) {
    roaming_with(threads, true)
}

fn roaming_with(threads: usize, late: bool) -> (WorkerPool, NetGroup<Roaming>) {
    let pool = WorkerPool::builder("workers").core(threads).max(threads);
    let pool = pool.build().unwrap();
    let group = if late {
        tidegate_net::roaming("io", 1, &pool)
    } else {
        let builder = EventLoopGroup::builder("io").loops(1).roaming();
        NetGroup::build_over(builder, &pool, None)
    };
    (pool, group.unwrap())
}

/// Creates a pool of `threads`, and one roaming event loop on it with a manual clock.
fn roaming_by(threads: usize) -> (WorkerPool, NetGroup<Roaming>, ManualClock) {
    let pool = WorkerPool::builder("workers").core(threads).max(threads);
    let pool = pool.build().unwrap();
    let clock = ManualClock::new();
    let builder = EventLoopGroup::builder("io").loops(1).clock(&clock);
    let group = NetGroup::build_over(builder.roaming(), &pool, None).unwrap();
    (pool, group, clock)
}

pub(crate) fn serve(
    group: &NetGroup<Roaming>,
    assemble: impl Fn(PipelineBuilder<Roaming>) -> PipelineBuilder<Roaming> + Send + Sync + 'static,
) -> Server {
    let server = Server::builder(group)
        .pipeline(assemble)
        .bind("127.0.0.1:0");
    server.wait().unwrap()
}

//! Channels of roaming event loops over a pool, with real sockets and with manual clocks.

mod scarce;
mod sockets;
mod stress;

use std::sync::Arc;

use tidegate_core::ManualClock;
use tidegate_loop::{Roaming, RoamingConfig};
use tidegate_net::{NetGroup, PipelineBuilder, Server};
use tidegate_pool::WorkerPool;

/// Creates a pool of `threads`, and one roaming event loop on it that hands over late.
pub(crate) fn roaming(threads: usize) -> (WorkerPool, NetGroup<Roaming>) {
    roaming_with(threads, true)
}

/// Returns the configuration of loops on `pool` that hand over eagerly.
pub(crate) fn eager(pool: &WorkerPool) -> RoamingConfig {
    RoamingConfig::new(Arc::new(pool.clone()))
}

fn roaming_with(threads: usize, late: bool) -> (WorkerPool, NetGroup<Roaming>) {
    let pool = WorkerPool::builder("workers").core(threads).max(threads);
    let pool = pool.build().unwrap();
    let group = if late {
        tidegate_net::roaming("io", 1, &pool)
    } else {
        let builder = NetGroup::builder("io").loops(1);
        builder.build_roaming_with_config(&eager(&pool))
    };
    (pool, group.unwrap())
}

/// Creates a pool of `threads`, and one roaming event loop on it with a manual clock.
fn roaming_by(threads: usize) -> (WorkerPool, NetGroup<Roaming>, ManualClock) {
    let pool = WorkerPool::builder("workers").core(threads).max(threads);
    let pool = pool.build().unwrap();
    let clock = ManualClock::new();
    let builder = NetGroup::builder("io").loops(1).clock(&clock);
    let group = builder.build_roaming_with_config(&eager(&pool)).unwrap();
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

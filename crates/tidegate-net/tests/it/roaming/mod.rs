//! Channels of roaming event loops over a pool, with real sockets and with manual clocks.

mod own_channel;
mod own_strategy;
mod scarce;
mod sockets;
mod source_faults;
mod sources;
mod strategies;
mod stress;

use std::sync::Arc;

use tidegate_core::ManualClock;
use tidegate_loop::{Roaming, RoamingConfig};
use tidegate_net::{NetGroup, NetGroupBuilder, Server};
use tidegate_pool::WorkerPool;
use tidegate_pool::strategy::{
    Adaptive, EatWhatYouKill, ExecuteProduceConsume, ProduceConsume, ProduceExecuteConsume,
};

/// The strategies, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pc,
    Pec,
    Epc,
    Ewyk,
    Eager,
    Late,
}

const KINDS: [Kind; 6] = [
    Kind::Pc,
    Kind::Pec,
    Kind::Epc,
    Kind::Ewyk,
    Kind::Eager,
    Kind::Late,
];

/// The strategies under which a handler that blocks does not stop the loop, given enough threads.
const HAND_OVER: [Kind; 5] = [Kind::Pec, Kind::Epc, Kind::Ewyk, Kind::Eager, Kind::Late];

impl Kind {
    fn choose(self, builder: NetGroupBuilder) -> NetGroupBuilder {
        match self {
            Kind::Pc => builder.strategy(|producer, pool| ProduceConsume::new(producer, pool)),
            Kind::Pec => {
                builder.strategy(|producer, pool| ProduceExecuteConsume::new(producer, pool))
            }
            Kind::Epc => {
                builder.strategy(|producer, pool| ExecuteProduceConsume::new(producer, pool))
            }
            Kind::Ewyk => builder.strategy(EatWhatYouKill::new),
            Kind::Eager => builder.strategy(Adaptive::new),
            Kind::Late => builder,
        }
    }
}

/// Creates a pool of `threads`, and one roaming event loop on it that hands over late.
pub(crate) fn roaming(threads: usize) -> (WorkerPool, NetGroup<Roaming>) {
    roaming_with(Kind::Late, threads)
}

/// Returns the configuration of loops on `pool` that hand over eagerly.
pub(crate) fn eager(pool: &WorkerPool) -> RoamingConfig {
    RoamingConfig::new(Arc::new(pool.clone()))
}

pub(crate) fn roaming_with(kind: Kind, threads: usize) -> (WorkerPool, NetGroup<Roaming>) {
    roaming_from(NetGroup::builder("io"), kind, threads)
}

fn roaming_from(
    builder: NetGroupBuilder,
    kind: Kind,
    threads: usize,
) -> (WorkerPool, NetGroup<Roaming>) {
    let pool = WorkerPool::builder("workers").core(threads).max(threads);
    let pool = pool.build().unwrap();
    let group = kind.choose(builder.loops(1)).build_roaming(&pool);
    (pool, group.unwrap())
}

/// Creates a pool of `threads`, and one roaming event loop on it with a manual clock.
fn roaming_by(kind: Kind, threads: usize) -> (WorkerPool, NetGroup<Roaming>, ManualClock) {
    let clock = ManualClock::new();
    let builder = NetGroup::builder("io").clock(&clock);
    let (pool, group) = roaming_from(builder, kind, threads);
    (pool, group, clock)
}

//! The servers: the same pipeline under each strategy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tidegate_loop::{Quiet, Roaming, RoamingConfig};
use tidegate_net::{
    Blocking, Inbound, InboundContext, IoMetrics, NetGroup, Nothing, PipelineBuilder, Server,
};
use tidegate_pool::WorkerPool;
use tidegate_pool::strategy::{
    EatWhatYouKill, ExecuteProduceConsume, Monitor, ProduceExecuteConsume, StrategyMetrics,
};

use super::super::work::burn;

/// Threads of the pool of a roaming loop: enough that blocking messages never use them up.
const POOL: usize = 32;
/// A message that begins with this byte makes its handler block.
pub(super) const BLOCKS: u8 = b'!';
/// How long the handler blocks.
const BLOCKED: Duration = Duration::from_millis(10);

/// The strategy that decides which thread runs a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The loop's own thread.
    Pc,
    /// Always a thread of the pool.
    Pec,
    /// The thread that found the message, while a helper takes the loop over.
    Epc,
    /// As `Epc`, or as `Pec` while the pool is low on threads.
    Ewyk,
    /// Adaptive, with eager hand-over.
    Eager,
    /// Adaptive, with late hand-over.
    Late,
}

/// A running server.
pub(super) struct Served {
    pub(super) address: SocketAddr,
    monitor: Option<Monitor>,
    loops: Loops,
}

enum Loops {
    Pinned(NetGroup),
    Roaming(NetGroup<Roaming>, WorkerPool),
}

/// The counters of a server so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) io: IoMetrics,
    pub(super) counts: StrategyMetrics,
    pub(super) monitor: Duration,
}

impl Served {
    /// Starts one loop whose handlers do `units` of work for each message of `size` bytes. Its
    /// threads inherit the CPU affinity of this thread.
    pub(super) fn start(way: Way, size: usize, units: u64) -> Self {
        let handler = move || WorkHandler {
            size,
            units,
            at: 0,
            blocks: false,
        };
        if way == Way::Pc {
            let group = tidegate_net::pinned("served", 1).expect("a poller");
            let server = Server::builder(&group)
                .pipeline(move |p: PipelineBuilder| p.add("works", handler()));
            let server = server.bind("127.0.0.1:0").wait().expect("a free port");
            return Self {
                address: server.local_addr(),
                monitor: None,
                loops: Loops::Pinned(group),
            };
        }
        let pool = WorkerPool::builder("workers").core(POOL).max(POOL);
        let pool = pool.reserved(POOL).build().expect("limits that agree");
        pool.prestart();
        let monitor = (way == Way::Late).then(|| Monitor::start("served").expect("a thread"));
        let config = RoamingConfig::new(Arc::new(pool.clone()));
        let config = match (&monitor, way) {
            (Some(monitor), _) => config.late(monitor),
            (None, Way::Pec) => {
                config.strategy(|loops, pool| ProduceExecuteConsume::new(loops, pool))
            }
            (None, Way::Epc) => {
                config.strategy(|loops, pool| ExecuteProduceConsume::new(loops, pool))
            }
            (None, Way::Ewyk) => config.strategy(EatWhatYouKill::new),
            (None, Way::Pc | Way::Eager | Way::Late) => config,
        };
        let group = NetGroup::builder("served").loops(1);
        let group = group.build_roaming_with_config(&config).expect("a poller");
        let server = Server::builder(&group).pipeline(move |p| p.add("works", handler()));
        let server = server.bind("127.0.0.1:0").wait().expect("a free port");
        Self {
            address: server.local_addr(),
            monitor,
            loops: Loops::Roaming(group, pool),
        }
    }

    pub(super) fn tally(&self) -> Tally {
        let monitor = self.monitor.as_ref().map(Monitor::cpu_time);
        let (io, counts) = match &self.loops {
            Loops::Pinned(group) => (group.io_metrics(), Vec::new()),
            Loops::Roaming(group, _) => (group.io_metrics(), group.metrics()),
        };
        Tally {
            io: io.first().copied().unwrap_or_default(),
            counts: counts.first().copied().unwrap_or_default(),
            monitor: monitor.unwrap_or_default(),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let quiet = Quiet::none(Duration::from_secs(5));
        match &self.loops {
            Loops::Pinned(group) => drop(group.shutdown(quiet).wait()),
            Loops::Roaming(group, pool) => {
                drop(group.shutdown(quiet).wait());
                drop(pool.shutdown(Duration::from_secs(5)).wait());
            }
        }
    }
}

/// A handler that does some work for each message, blocks if the message asks for it, and echoes
/// it.
struct WorkHandler {
    size: usize,
    units: u64,
    /// Bytes received of the current message, and whether it asks to block.
    at: usize,
    blocks: bool,
}

impl Inbound for WorkHandler {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::May;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let mut rest = &bytes[..];
        while let Some(first) = rest.first() {
            if self.at == 0 {
                self.blocks = *first == BLOCKS;
            }
            let more = rest.len().min(self.size - self.at);
            self.at += more;
            rest = &rest[more..];
            if self.at == self.size {
                self.at = 0;
                if self.blocks {
                    thread::sleep(BLOCKED);
                }
                burn(self.units);
            }
        }
        ctx.write(bytes);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

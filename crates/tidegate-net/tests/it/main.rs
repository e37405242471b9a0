//! Integration tests of `tidegate-net`: the behaviour that users of channels can rely on.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

mod accepting;
mod acts;
mod announcing;
mod backlog;
mod bad_input;
mod block_on;
mod cancels;
mod changes;
mod channel;
mod clients;
mod closing;
mod datagrams;
mod deadlines;
mod decoders;
mod dump;
mod echo;
mod endless;
mod ends;
mod faults;
mod files;
mod framing;
mod halves;
mod handed_back;
mod handle_guarantees;
mod handler_lifecycle;
mod handlers;
mod hang_ups;
#[cfg(unix)]
mod hostile_sources;
#[cfg(feature = "tls")]
mod input_ends;
mod lingering;
mod local_network;
mod local_stream;
mod memory;
mod model;
mod named;
mod neighbours;
mod output;
mod pass;
#[cfg(unix)]
mod passed;
mod payloads;
mod pipeline;
#[cfg(unix)]
mod rallies;
mod registration;
#[cfg(unix)]
mod releases;
mod roaming;
mod rules;
mod server_ends;
mod servers;
mod shaping;
mod sizes;
mod slow_peers;
mod sources;
mod stream;
mod tcp;
mod timers;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_order;
mod transports;
mod turns;
mod unhandled_errors;

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use tidegate_core::ManualClock;
use tidegate_net::ChannelPlacement;
use tidegate_net::{
    Channel, ChannelOptions, Inbound, InboundContext, NetGroup, Nothing, PipelineBuilder, ReadSize,
    Server, WaterMarks,
};
use tidegate_testkit::Log;

use self::echo::Echo;

/// Logs what it reads.
struct LogReads(Log<Bytes>);

impl Inbound for LogReads {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
        self.0.push(bytes);
    }
}

/// Logs the channel of each connection, for the test to use.
struct LogChannel(Log<Channel>);

impl Inbound for LogChannel {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.0.push(ctx.channel());
        ctx.fire_active();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }
}

/// Returns options with these water marks and this bound.
fn marks(low: usize, high: usize, cap: usize) -> ChannelOptions {
    ChannelOptions {
        marks: WaterMarks::new(low, high, cap).unwrap(),
        ..ChannelOptions::default()
    }
}

fn half_closure() -> ChannelOptions {
    ChannelOptions {
        half_closure: true,
        ..ChannelOptions::default()
    }
}

fn no_auto_read() -> ChannelOptions {
    ChannelOptions {
        auto_read: false,
        ..ChannelOptions::default()
    }
}

fn reading(read_size: ReadSize) -> ChannelOptions {
    ChannelOptions {
        read_size,
        ..ChannelOptions::default()
    }
}

/// Creates a group of pinned event loops, `io-0` and so on.
fn group(loops: usize) -> NetGroup {
    tidegate_net::pinned("io", loops).unwrap()
}

/// Creates a group of one pinned event loop with a manual clock.
fn group_by(clock: &ManualClock) -> NetGroup {
    let loops = NetGroup::builder("io").loops(1).clock(clock);
    loops.build().unwrap()
}

fn serve<P: ChannelPlacement>(
    group: &NetGroup<P>,
    assemble: impl Fn(PipelineBuilder<P>) -> PipelineBuilder<P> + Send + Sync + 'static,
) -> Server {
    let server = Server::builder(group)
        .pipeline(assemble)
        .bind("127.0.0.1:0");
    server.wait().unwrap()
}

/// Creates a server that only logs its channels.
fn giving(group: &NetGroup) -> (Server, Log<Channel>) {
    let (log, own) = Log::pair();
    let server = serve(group, move |p| p.add("gives", LogChannel(own.clone())));
    (server, log)
}

/// Returns the first channel of the log.
fn first(log: &Log<Channel>) -> Channel {
    log.wait_for(1);
    log.take().remove(0)
}

/// Connects a blocking client.
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

//! A server whose handler blocks now and then, on a pinned loop and on a roaming one.
//!
//! On the pinned loop a handler that blocks delays all others. On the roaming loop another thread
//! continues with the event loop. The last rows choose other strategies for the roaming loop.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tidegate::Blocking;
use tidegate::net::{Bytes, Inbound, InboundContext, NetGroup, Nothing, Server};
use tidegate::prelude::{Clock, WorkerPool};
use tidegate::strategy::{EatWhatYouKill, ProduceExecuteConsume};

const CONNECTIONS: u64 = 16;
const MESSAGES: u64 = 100;

/// Echoes; one message in a hundred waits for something slow first.
struct Sometimes;

impl Inbound for Sometimes {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::May;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if bytes.starts_with(b"slow") {
            std::thread::park_timeout(Duration::from_millis(10)); // a database, say
        }
        ctx.write(bytes);
        ctx.flush();
    }
}

/// Sends one message after the other on each connection. Returns the total time and the longest
/// wait of a fast message.
fn load(address: SocketAddr) -> tidegate::Result<(Duration, Duration)> {
    let clock = Clock::system();
    let began = clock.nanos();
    let talk = &|number: u64| -> std::io::Result<u64> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut longest_quick = 0;
        for message in 0..MESSAGES {
            let slow = message == number * MESSAGES / CONNECTIONS;
            let sent = clock.nanos();
            stream.write_all(if slow { b"slow" } else { b"fast" })?;
            stream.read_exact(&mut [0; 4])?;
            if !slow {
                longest_quick = longest_quick.max(clock.nanos() - sent);
            }
        }
        Ok(longest_quick)
    };
    let waits = std::thread::scope(|scope| {
        let talks: Vec<_> = (0..CONNECTIONS)
            .map(|number| scope.spawn(move || talk(number)))
            .collect();
        let joined = talks.into_iter().map(|talk| talk.join());
        joined.collect::<Vec<_>>()
    });
    let mut longest = 0;
    for wait in waits {
        longest = longest.max(wait.map_err(|_| "a connection panicked")??);
    }
    let took = clock.nanos() - began;
    Ok((Duration::from_nanos(took), Duration::from_nanos(longest)))
}

fn row(shape: &str, address: SocketAddr) -> tidegate::Result<()> {
    let (took, longest) = load(address)?;
    let rate = (CONNECTIONS * MESSAGES) as f64 / took.as_secs_f64();
    println!("{shape:<10} {rate:>12.0} {longest:>22.1?}");
    Ok(())
}

fn main() -> tidegate::Result<()> {
    println!(
        "{:<10} {:>12} {:>22}",
        "loop", "messages/s", "longest quick reply"
    );
    let pinned = tidegate::net::pinned("pinned", 1)?;
    let server = Server::builder(&pinned).pipeline(|p| p.add("sometimes", Sometimes));
    row("pinned", server.bind("127.0.0.1:0").wait()?.local_addr())?;

    let workers = WorkerPool::builder("workers").core(4).max(32).build()?;
    let roaming = tidegate::net::roaming("roaming", 1, &workers)?;
    let server = Server::builder(&roaming).pipeline(|p| p.add("sometimes", Sometimes));
    row("roaming", server.bind("127.0.0.1:0").wait()?.local_addr())?;
    println!("the roaming loop chose: {}", roaming.metrics()[0]);

    let gives_away = NetGroup::builder("gives-away")
        .loops(1)
        .strategy(|producer, pool| ProduceExecuteConsume::new(producer, pool));
    let eats = NetGroup::builder("eats")
        .loops(1)
        .strategy(EatWhatYouKill::new);
    for (name, builder) in [("PEC", gives_away), ("EWYK", eats)] {
        let group = builder.build_roaming(&workers)?;
        let server = Server::builder(&group).pipeline(|p| p.add("sometimes", Sometimes));
        row(name, server.bind("127.0.0.1:0").wait()?.local_addr())?;
        println!("{name} chose: {}", group.metrics()[0]);
    }
    Ok(())
}

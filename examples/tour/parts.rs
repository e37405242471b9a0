//! The parts of the tour for pools, strategies, a server and isolation.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};

use tidegate::Result;
use tidegate::isolate::{Command, Isolation};
use tidegate::net::handlers::LineFrames;
use tidegate::net::{Inbound, InboundContext, Nothing, Server, pinned};
use tidegate::prelude::*;

use super::{Lines, line};

pub(crate) fn pool() -> Result<Lines> {
    let workers = WorkerPool::builder("workers")
        .core(1)
        .max(1)
        .queue(2)
        .build()?;
    let (go, gate) = mpsc::channel::<()>();
    let busy = workers.submit(move || gate.recv().is_err())?;
    let waiting = [workers.submit(|| 1)?, workers.submit(|| 2)?];
    let refused = workers
        .submit(|| 3)
        .map(drop)
        .expect_err("two places, both taken");
    let mut limits = workers.limits();
    limits.queue = 3;
    workers.resize(limits)?;
    let third = workers.submit(|| 3)?;
    drop(go);
    busy.wait()?;
    let mut answers = Vec::new();
    for answer in waiting.into_iter().chain([third]) {
        answers.push(answer.wait()?);
    }
    let report = workers.shutdown(Duration::from_secs(5)).wait()?;
    Ok(vec![
        line("a job into a full pool of one thread", refused),
        line(
            "one more place in the queue while it runs; then shut down",
            format!(
                "answers {answers:?}, {} jobs handed back",
                report.handed_back.len()
            ),
        ),
    ])
}

/// Reports the number of each task that runs. One task waits for a later one.
pub(crate) fn strategy() -> Result<Lines> {
    const TASKS: u32 = 1_000;
    let workers = WorkerPool::builder("workers")
        .core(2)
        .max(4)
        .reserved(1)
        .build()?;
    let monitor = Monitor::start("monitor")?;
    let (say, said) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let (mut gate, mut open) = (Some(gate), Some(open));
    let mut next = 0;
    let producer = move || {
        next += 1;
        let (number, say) = (next, say.clone());
        // The tenth task blocks until the last one runs.
        let waits = (number == 10).then(|| gate.take()).flatten();
        let opens = (number == TASKS).then(|| open.take()).flatten();
        (number <= TASKS).then(|| {
            Task::new(move || {
                drop(opens);
                if let Some(gate) = waits {
                    let _ = gate.recv();
                }
                let _ = say.send(number);
            })
        })
    };
    let strategy = Adaptive::builder(producer, Arc::new(workers))
        .late(&monitor)
        .build();
    strategy.produce();
    let ran = said.iter().take(TASKS as usize).count();
    Ok(vec![
        line(
            "1,000 tasks from one producer; the tenth waits for the last",
            format!("{ran} ran"),
        ),
        line("choices of the strategy", strategy.metrics()),
    ])
}

struct Shout;

impl Inbound for Shout {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(line.to_ascii_uppercase());
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

pub(crate) fn server() -> Result<Lines> {
    let group = pinned("io", 2)?;
    let server = Server::builder(&group)
        .pipeline(|p| p.add("lines", LineFrames::max(1024)).add("shout", Shout))
        .bind("127.0.0.1:0")
        .wait()?;
    let mut client = TcpStream::connect(server.local_addr())?;
    client.write_all(b"hello\n")?;
    let mut answer = [0; 5];
    client.read_exact(&mut answer)?;
    drop(client);
    server.stop_accepting().wait()?;
    Ok(vec![line(
        "a line over TCP through a pipeline of two handlers",
        format!("`{}`", String::from_utf8_lossy(&answer)),
    )])
}

pub(crate) fn bulkhead() -> Result<Lines> {
    let isolation = Isolation::builder().build()?;
    let prices: Command<u32, std::io::Error> = Command::builder("prices")
        .group("catalog")
        .permits(1)
        .build(&isolation)?;
    let inner = prices.clone();
    let (say, said) = mpsc::channel();
    prices.run(move |_| {
        let refused = inner.run(|_| Ok(1)).expect_err("the permit is taken");
        let _ = say.send(refused.to_string());
        Ok(1)
    })?;
    let refused = said.recv()?;
    let down = prices.run(|_| Err(std::io::Error::other("the price server is down")));
    let down = down.expect_err("it failed");
    Ok(vec![
        line("a second call while the only permit is taken", refused),
        line("a call that fails", down),
        line("snapshot of the command", prices.snapshot()),
    ])
}

//! A service that ends in order, from the outside in, and reports what it could not finish.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use tidegate::net::handlers::{LineFrames, Strings};
use tidegate::net::{Draining, UserEvent};
use tidegate::prelude::*;
use tidegate::signal;

/// Counts the lines of a connection, and says goodbye when the server ends.
#[derive(Default)]
struct Count(u32);

impl Inbound for Count {
    type In = String;
    type Out = Nothing;
    type Write = String;

    fn read(&mut self, _line: String, ctx: &mut InboundContext<'_, Self>) {
        self.0 += 1;
        ctx.write(format!("{}\n", self.0));
        ctx.flush();
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast::<Draining>().is_ok() {
            ctx.write("goodbye\n".to_owned());
            ctx.close_when_flushed();
        }
    }
}

fn main() -> tidegate::Result<()> {
    let workers = WorkerPool::builder("workers").max(4).build()?;
    let isolation = Isolation::builder().build()?;
    let mail: Command<(), std::io::Error> = Command::builder("mail")
        .group("office")
        .threads(PoolConfig::default())
        .build(&isolation)?;
    let group = tidegate::net::pinned("io", 1)?;
    group
        .next()
        .add_shutdown_hook("flush the log", || println!("the log is flushed"))?;
    let server = Server::builder(&group)
        .pipeline(|p| {
            p.add("lines", LineFrames::max(1024))
                .add_duplex("text", Strings::lossy())
                .add("count", Count::default())
        })
        .bind("127.0.0.1:0")
        .wait()?;
    let mut client = BufReader::new(TcpStream::connect(server.local_addr())?);
    client.get_mut().write_all(b"hello\n")?;
    let mut answer = String::new();
    client.read_line(&mut answer)?;
    let report = workers.submit(|| "the report is written")?;
    let sent = mail.queue(|_cancel| Ok(()));

    // After the signal: no new connections, and the open ones end.
    let drained = server.drain_on(signal::terminate());
    // What a service manager does.
    let kill = format!("kill -TERM {}", std::process::id());
    std::process::Command::new("sh")
        .args(["-c", &kill])
        .status()?;
    client.read_line(&mut answer)?;
    println!("the client read: {answer:?}");
    println!("server: {}", drained.wait()?);

    // Accepted calls end, new ones are refused.
    let ended = isolation.shutdown(Duration::from_secs(5)).wait()?;
    println!(
        "calls: clean {}, mail sent {}",
        ended.is_clean(),
        sent.wait().is_ok()
    );

    // The loops run what they have accepted, and their hooks.
    let ended = group.shutdown(Quiet::none(Duration::from_secs(5))).wait()?;
    println!("loops: {} tasks handed back", ended.handed_back.len());

    // The pool last: handlers and calls may have used it.
    let ended = workers.shutdown(Duration::from_secs(5)).wait()?;
    println!(
        "pool: {} jobs handed back, {} stuck",
        ended.handed_back.len(),
        ended.stuck.len()
    );
    println!("{}", report.wait()?);
    println!(
        "a late job: {}",
        workers.execute(|| ()).expect_err("it has ended")
    );
    Ok(())
}

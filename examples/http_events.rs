//! Server-sent events: serves `/hystrix.stream`, which the page of the Hystrix dashboard reads.
//! `http_events [ADDRESS]`. Without an address it reads one event of its own stream and ends. With
//! one it serves until `SIGTERM` or Ctrl-C.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use tidegate::http::{HttpServer, Request, Response, ResponseStream};
use tidegate::isolate::{Command, Isolation, PoolConfig};
use tidegate::loops::EventLoop;
use tidegate::metrics::HystrixStream;
use tidegate::promise::Completion;
use tidegate::{CancelToken, signal};

/// Sends a sample now and after each period, until the client leaves. A client that does not read
/// misses samples.
fn send_samples(home: EventLoop, mut samples: HystrixStream, mut client: ResponseStream) {
    if client.is_closed() {
        return;
    }
    if client.is_writable() {
        client.write(samples.sample(SystemTime::now()));
    }
    let again = home.clone();
    // An error means that the event loop is ending.
    let _ = home.schedule(HystrixStream::PERIOD, move || {
        send_samples(again, samples, client);
    });
}

/// Simulates calls to three dependencies: one is fast, one fails, one is slower than its timeout.
fn call_dependencies(home: EventLoop, commands: [Command<u32, String>; 3]) {
    for (at, command) in commands.iter().enumerate() {
        // The results are not needed: the stream shows the counts.
        drop(command.queue(move |cancel: &CancelToken| {
            let (me, slow) = (std::thread::current(), at == 2);
            let _hook = cancel.on_cancel(move || me.unpark());
            std::thread::park_timeout(Duration::from_millis(if slow { 5_000 } else { 3 }));
            if at == 1 {
                Err("not there".to_owned())
            } else {
                Ok(1)
            }
        }));
    }
    let again = home.clone();
    let _ = home.schedule(Duration::from_millis(10), move || {
        call_dependencies(again, commands);
    });
}

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    let isolation = Isolation::builder().build()?;
    let build = |name: &str| {
        Command::<u32, String>::builder(name)
            .group("shop")
            .pool(format!("{name}-pool"))
            .threads(PoolConfig::default())
            .timeout(Duration::from_millis(100))
            .build(&isolation)
    };
    let commands = [build("prices")?, build("stock")?, build("reviews")?];
    let calls = EventLoop::builder("calls").build()?;
    call_dependencies(calls.clone(), commands);

    let group = tidegate::net::pinned("web", 1)?;
    let respond = move |request: Request<'_>, response: Response<'_>| match request.path() {
        "/hystrix.stream" => {
            let response = response
                .field("content-type", HystrixStream::CONTENT_TYPE)
                .field("cache-control", HystrixStream::CACHE_CONTROL);
            let samples = HystrixStream::new(&isolation);
            send_samples(calls.clone(), samples, response.stream());
        }
        _ => response.status(404).body("try /hystrix.stream\n"),
    };
    let server = HttpServer::builder(&group)
        .serve(address.as_deref().unwrap_or("127.0.0.1:0"), respond)
        .wait()?;
    let drained = server.drain_on(Completion::any([signal::terminate(), signal::interrupt()]));
    println!("events at http://{}/hystrix.stream", server.local_addr());
    if address.is_some() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    let mut client = TcpStream::connect(server.local_addr())?;
    client.write_all(b"GET /hystrix.stream HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    for line in BufReader::new(client).lines() {
        let line = line?;
        if line.contains("HystrixThreadPool") {
            println!("{}…", line.get(..60).unwrap_or(&line));
            break;
        }
    }
    Ok(())
}

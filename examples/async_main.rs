//! A server and a client in one `async fn main`, on one thread.

use std::time::Duration;

use tidegate::net::{Bytes, Client, Inbound, InboundContext, NetGroup, Nothing, Server};
use tidegate::promise::{SharedPromise, promise};
use tidegate::timeout;

struct Shout;

impl Inbound for Shout {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(bytes.to_ascii_uppercase());
        ctx.flush();
    }
}

/// Completes a promise with the answer of the server.
struct Answer(SharedPromise<Bytes>);

impl Inbound for Answer {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let _ = self.0.try_succeed(bytes);
        ctx.close();
    }
}

#[tidegate::main]
async fn main() -> tidegate::Result<()> {
    let here = NetGroup::current().ok_or("`main` runs on an event loop with I/O")?;
    let server = Server::builder(&here)
        .pipeline(|p| p.add("shout", Shout))
        .bind("127.0.0.1:0")
        .await?;

    let (promise, answer) = promise();
    let promise = promise.share();
    let client = Client::builder(&here)
        .pipeline(move |p| p.add("answer", Answer(promise.clone())))
        .build();
    let channel = client.connect(server.local_addr()).await?;
    channel.write_and_flush("hello, main");

    let answer = timeout(Duration::from_secs(5), answer).await??;
    println!("{}", String::from_utf8_lossy(&answer));
    println!("{}", server.drain(Duration::from_secs(5)).await?);
    Ok(())
}

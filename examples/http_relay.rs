//! Relays a streamed body from one server to another: each piece is written when the second server
//! takes it, so the first one is read no faster, and memory stays small.

use tidegate::http::client::Client;
use tidegate::http::{HttpServer, Limits};
use tidegate::prelude::*;
use tidegate::promise::Outcome;

/// The length of the body: more than all buffers together.
const SIZE: usize = 4 << 20;

/// Reads the body at `from` and sends it to `to`. Returns the response of the second server.
async fn relay(client: &Client, from: &str, to: &str) -> tidegate::Result<String> {
    let mut source = client.get(from).send().await?.into_body();
    let (mut body, response) = client.post(to).send_stream(None);
    while let Some(piece) = source.next().await {
        if !body.write(piece?).await? {
            break; // the server has responded already
        }
    }
    body.finish().await?;
    let text = response.await?.collect(1024).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn main() -> tidegate::Result<()> {
    let group = tidegate::net::pinned("io", 2)?;
    let server = HttpServer::builder(&group)
        .limits(Limits::default().max_body(2 * SIZE as u64))
        .serve("127.0.0.1:0", |request, response| {
            if request.path() == "/source" {
                return response.body(vec![b'x'; SIZE]);
            }
            let response = response.defer();
            request.collect(2 * SIZE).finally(move |body| match body {
                Outcome::Success(body) => response.body(format!("{} bytes", body.len())),
                _ => response.status(400).body(""),
            });
        })
        .wait()?;
    let client = Client::builder(&group)
        .timeout(Duration::from_secs(20))
        .build();
    let url = |path: &str| format!("http://{}{path}", server.local_addr());
    let (from, to) = (url("/source"), url("/sink"));
    let relayed = group.spawn(async move { relay(&client, &from, &to).await.ok() });
    match relayed.ok().map(Completion::wait).transpose()?.flatten() {
        Some(text) => println!("relayed: {text}"),
        None => println!("it failed"),
    }
    Ok(())
}

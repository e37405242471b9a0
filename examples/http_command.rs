//! Fetches pages at once, each behind a command: its permits limit how many calls are in flight, and
//! a server that fails opens its breaker. The permit is held until the last byte of the body.

use std::sync::Arc;

use tidegate::http::client::Client;
use tidegate::isolate::{Command, Isolation};

/// Fetches a page behind `pages`. Returns its number of bytes.
async fn fetch(client: &Client, pages: &Command, url: String) -> tidegate::Result<usize> {
    let entry = match pages.admit() {
        Ok(entry) => entry,
        Err(why) => return Err(format!("not admitted: {why}").into()),
    };
    let response = match client.get(&url).send().await {
        Ok(response) => response,
        Err(why) => {
            entry.verdict(false);
            return Err(why.into());
        }
    };
    // The head decides: a client that reads slowly is not the server's fault.
    entry.verdict(response.status() < 500);
    let mut body = response.into_body();
    let mut count = 0;
    while let Some(piece) = body.next().await {
        count += piece?.len();
    }
    drop(entry); // after the last byte
    Ok(count)
}

fn main() -> tidegate::Result<()> {
    let group = tidegate::net::pinned("io", 2)?;
    let server = tidegate::http::serve(&group, "127.0.0.1:0", |request, response| {
        response.body(request.path().repeat(1000));
    });
    let server = server.wait()?;
    let isolation = Isolation::builder().build()?;
    let pages: Arc<Command> = Arc::new(
        Command::builder("pages")
            .group("web")
            .permits(4)
            .build(&isolation)?,
    );
    let client = Client::builder(&group).max_connections(4).build();
    let mut calls = Vec::new();
    for page in 0..8 {
        let url = format!("http://{}/{page}", server.local_addr());
        let (client, pages) = (client.clone(), Arc::clone(&pages));
        calls.extend(
            group
                .spawn(async move { fetch(&client, &pages, url).await.ok() })
                .ok(),
        );
    }
    let mut fetched = 0;
    for call in calls {
        fetched += usize::from(call.wait()?.is_some());
    }
    // At most four at once; the others were rejected without a wait.
    println!(
        "at least one page: {}, at most all: {}",
        fetched >= 1,
        fetched <= 8
    );
    Ok(())
}

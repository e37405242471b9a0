//! Fetches pages over HTTP, all at once: `http_fetch [URL]...`. Without a URL it serves some pages
//! itself, and shows what a caller learns from a call that fails.

use tidegate::http::client::{Client, ClientError};
use tidegate::prelude::*;
use tidegate::tls::TlsClient;

/// The largest page that is collected.
const MOST: usize = 8 << 20;

/// Fetches a page: its status, and the number of its bytes.
async fn fetch(client: &Client, url: &str) -> tidegate::Result<(u16, usize)> {
    let call = client.get(url).field("Accept", "*/*").send();
    let response = call.await?;
    let status = response.status();
    let mut body = response.into_body();
    let mut count = 0;
    // The server is not read faster than this loop takes the pieces.
    while let Some(piece) = body.next().await {
        count += piece?.len();
        if count > MOST {
            break; // dropping the body closes the connection
        }
    }
    Ok((status, count))
}

fn main() -> tidegate::Result<()> {
    let group = tidegate::net::pinned("io", 2)?;
    let client = Client::builder(&group)
        .max_connections(4) // to each host, over all event loops
        .timeout(Duration::from_secs(20))
        .tls(TlsClient::with_native_roots()?)
        .build();
    let mut urls: Vec<String> = std::env::args().skip(1).collect();
    let mut server = None;
    if urls.is_empty() {
        let own = tidegate::http::serve(&group, "127.0.0.1:0", |request, response| {
            response.body(request.path().repeat(1000));
        });
        let own = own.wait()?;
        urls = (1..=3)
            .map(|page| format!("http://{}/{page}", own.local_addr()))
            .collect();
        urls.push("http://127.0.0.1:1/nothing-listens-here".to_owned());
        server = Some(own);
    }
    let mut calls = Vec::new();
    for url in urls {
        let client = client.clone();
        let call = group.spawn(async move {
            match fetch(&client, &url).await {
                Ok((status, count)) => println!("{url}: {status}, {count} bytes"),
                Err(why) => println!("{why}"),
            }
        });
        calls.extend(call.ok());
    }
    for call in calls {
        call.wait()?;
    }
    if server.is_some() {
        let call = client.get("http://127.0.0.1:1/").send();
        if let Err(WaitError::Failed(why)) = call.wait()
            && let Some(why) = why.downcast_ref::<ClientError>()
        {
            println!(
                "connect: {}, safe to retry: {}",
                why.is_connect(),
                why.is_safe_to_retry()
            );
        }
    }
    Ok(())
}

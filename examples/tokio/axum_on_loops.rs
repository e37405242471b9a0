//! An `axum::Router` on Tidegate's event loops. Each connection is served on one loop; tokio's
//! runtime is not needed for it.
//!
//! * `/price/{article}` runs on the loops alone.
//! * `/page/{article}` asks another server with reqwest, which needs tokio's reactor: a runtime with
//!   one thread has it, and the handler enters that runtime while it is polled.
//! * The drain at the end closes idle connections at once and waits for requests in flight.
//!
//! Run it with `cargo run --manifest-path examples/tokio/Cargo.toml --example axum_on_loops`.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use http::StatusCode;
use tidegate::hyper::serve;
use tokio::runtime::{Builder, Handle, Runtime};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What the pages need.
#[derive(Clone)]
struct Shop {
    tokio: Handle,
    client: reqwest::Client,
    prices: SocketAddr,
}

/// Returns a router that needs nothing of tokio.
fn prices() -> Router {
    let price = |Path(article): Path<u32>| async move { (article * 100).to_string() };
    Router::new().route("/price/{article}", get(price))
}

/// Returns a router whose handlers need tokio's reactor.
fn pages(tokio: &Handle, prices: SocketAddr) -> Result<Router, Error> {
    let shop = Shop {
        tokio: tokio.clone(),
        client: client()?,
        prices,
    };
    Ok(Router::new()
        .route("/page/{article}", get(page))
        .with_state(shop))
}

async fn page(
    State(shop): State<Shop>,
    Path(article): Path<u32>,
) -> Result<String, (StatusCode, String)> {
    let url = format!("http://{}/price/{article}", shop.prices);
    let ask = async { shop.client.get(url).send().await?.text().await };
    let price = with_reactor(&shop.tokio, ask).await;
    let price = price.map_err(|why| (StatusCode::BAD_GATEWAY, why.to_string()))?;
    Ok(format!("article {article} costs {price} cents"))
}

/// Gives `future` the reactor and the timer of `tokio`, which wake it. It runs where it is awaited.
async fn with_reactor<F: Future>(tokio: &Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let _entered = tokio.enter();
        future.as_mut().poll(cx)
    })
    .await
}

fn client() -> Result<reqwest::Client, Error> {
    Ok(reqwest::Client::builder().no_proxy().build()?)
}

/// Creates the runtime that holds the reactor.
fn reactor() -> Result<Runtime, Error> {
    Ok(Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?)
}

fn main() -> Result<(), Error> {
    let tokio = reactor()?;
    let group = tidegate::net::pinned("http", 2)?;
    let prices = serve(&group, "127.0.0.1:0", prices()).wait()?;
    let routes = pages(tokio.handle(), prices.local_addr())?;
    let pages = serve(&group, "127.0.0.1:0", routes).wait()?;

    let url = format!("http://{}/page/7", pages.local_addr());
    let client = client()?;
    let text = tokio.block_on(async { client.get(url).send().await?.text().await })?;
    println!("{text}");

    for server in [pages, prices] {
        println!("{}", server.drain(Duration::from_secs(10)).wait()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::net::{NetGroup, pinned};
    use tokio::task::JoinSet;

    /// Sends `count` requests at once and returns how many had the expected text.
    async fn load(client: &reqwest::Client, url: &str, expected: &str, count: usize) -> usize {
        let mut requests = JoinSet::new();
        for _ in 0..count {
            let request = client.get(url).send();
            requests.spawn(async move { request.await?.text().await });
        }
        let texts = requests.join_all().await.into_iter();
        texts
            .filter(|text| matches!(text, Ok(text) if text == expected))
            .count()
    }

    #[test]
    fn a_router_runs_as_it_is_and_its_handlers_may_use_reqwest() {
        let (tokio, group): (_, NetGroup) = (reactor().unwrap(), pinned("http", 2).unwrap());
        let prices = serve(&group, "127.0.0.1:0", prices()).wait().unwrap();
        let routes = pages(tokio.handle(), prices.local_addr()).unwrap();
        let pages = serve(&group, "127.0.0.1:0", routes).wait().unwrap();
        let (client, url) = (
            client().unwrap(),
            format!("http://{}/page/7", pages.local_addr()),
        );
        let expected = "article 7 costs 700 cents";
        assert_eq!(tokio.block_on(load(&client, &url, expected, 200)), 200);
        let missing = format!("http://{}/none", pages.local_addr());
        let missing = tokio.block_on(async { client.get(missing).send().await });
        assert_eq!(missing.unwrap().status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn a_drain_does_not_wait_for_idle_connections_of_a_client() {
        let (tokio, group) = (reactor().unwrap(), pinned("http", 1).unwrap());
        let server = serve(&group, "127.0.0.1:0", prices()).wait().unwrap();
        // The client keeps its connections.
        let (client, url) = (
            client().unwrap(),
            format!("http://{}/price/7", server.local_addr()),
        );
        assert_eq!(tokio.block_on(load(&client, &url, "700", 20)), 20);
        let drained = server.drain(Duration::from_secs(3600)).wait().unwrap();
        assert!(drained.closed_at_deadline.is_empty(), "{drained}");
        assert_eq!(server.connections(), 0);
    }
}

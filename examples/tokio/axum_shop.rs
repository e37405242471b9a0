//! A shop on axum that asks three services for each page. One of them hangs, one of them blocks its
//! threads. Behind commands, neither slows the page down by more than its timeout.
//!
//! * `prices` is asked with reqwest. A failing request is retried, within a budget.
//! * `stock` is asked with reqwest and never answers. Its timeout ends the first calls; then its
//!   breaker opens.
//! * `reviews` has a driver that blocks. It runs on threads of its own.
//!
//! Run it with `cargo run --manifest-path examples/tokio/Cargo.toml --example axum_shop`.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tidegate::isolate::Retry;
use tidegate::prelude::*;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt, service_fn};

type Error = Box<dyn std::error::Error + Send + Sync>;
/// Takes a path and returns the text of the response.
type Upstream = BoxCloneSyncService<String, String, Error>;

/// The commands of the shop, and the clients behind them.
#[derive(Clone)]
struct Shop {
    pages: Command,
    prices: Command,
    stock: Command,
    reviews: Command<String, io::Error>,
    ask_prices: Upstream,
    ask_stock: Upstream,
}

impl Shop {
    fn new(isolation: &Isolation, upstream: SocketAddr) -> Result<Self, Error> {
        let pages = Command::builder("pages")
            .group("shop")
            .permits(200)
            .timeout(Duration::from_secs(5));
        let prices = Command::builder("prices")
            .group("catalog")
            .permits(200)
            .build(isolation)?;
        let stock = Command::builder("stock")
            .group("catalog")
            .permits(10)
            .timeout(Duration::from_millis(100))
            .breaker(BreakerConfig {
                min_calls: 10,
                ..BreakerConfig::default()
            })
            .build(isolation)?;
        let reviews = Command::builder("reviews")
            .group("catalog")
            .threads(PoolConfig {
                core: 2,
                queue: 8,
                ..PoolConfig::default()
            })
            .fallback(|_why| Ok("no reviews today".to_owned()))
            .build(isolation)?;
        let client = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self {
            pages: pages.build(isolation)?,
            ask_prices: upstream_behind(&prices, &client, upstream),
            ask_stock: upstream_behind(&stock, &client, upstream),
            prices,
            stock,
            reviews,
        })
    }

    /// Returns the routes. A page that finds no permit is answered with 503.
    fn routes(&self) -> Router {
        Router::new()
            .route("/page/{article}", get(page))
            .layer(self.pages.layer().respond())
            .with_state(self.clone())
    }
}

/// Returns a service that asks `upstream` for a path, with reqwest, behind a command and with
/// retries.
fn upstream_behind(command: &Command, client: &reqwest::Client, upstream: SocketAddr) -> Upstream {
    let client = client.clone();
    // reqwest's client as a service with the types of `http`.
    let send = service_fn(move |request: Request<String>| {
        let client = client.clone();
        async move {
            let response = client.execute(request.try_into()?).await?;
            Ok::<_, reqwest::Error>(Response::<reqwest::Body>::from(response))
        }
    });
    let service = ServiceBuilder::new()
        .layer(command.retry_layer(Retry::attempts(2)))
        .layer(command.layer())
        .service(send);
    BoxCloneSyncService::new(service_fn(move |path: String| {
        let service = service.clone();
        async move {
            let request = Request::get(format!("http://{upstream}{path}")).body(String::new())?;
            let response = service.oneshot(request).await?;
            if !response.status().is_success() {
                return Err(response.status().to_string().into());
            }
            // The permit goes back with the last byte.
            let body = response.into_body().collect().await?.to_bytes();
            Ok(String::from_utf8_lossy(&body).into_owned())
        }
    }))
}

/// Asks all three services at once. A page without stock or reviews is better than no page.
async fn page(
    State(shop): State<Shop>,
    Path(article): Path<u32>,
) -> Result<String, (StatusCode, String)> {
    let price = shop.ask_prices.oneshot(format!("/price/{article}"));
    let stock = shop.ask_stock.oneshot(format!("/stock/{article}"));
    // A blocking driver: `queue` returns at once, and the result is awaited. `run` would block a
    // worker of tokio, and is refused here.
    let reviews = shop.reviews.queue(move |_cancel| read_reviews(article));
    let (price, stock, reviews) = tokio::join!(price, stock, reviews);
    let price = price.map_err(|why| (StatusCode::BAD_GATEWAY, why.to_string()))?;
    let stock = stock.unwrap_or_else(|_why| "unknown".to_owned());
    let reviews = reviews.unwrap_or_else(|why| why.to_string());
    Ok(format!(
        "{article}: {price} cents, stock {stock}, {reviews}"
    ))
}

/// A driver that blocks its thread.
fn read_reviews(article: u32) -> io::Result<String> {
    Ok(format!("{} reviews", article % 7))
}

/// The services that the shop depends on.
fn dependencies() -> Router {
    Router::new()
        .route(
            "/price/{article}",
            get(|Path(n): Path<u32>| async move { (n * 100).to_string() }),
        )
        .route("/stock/{article}", get(|| pending::<String>()))
}

async fn listen(app: Router) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

/// Requests many pages at once, and returns how many were complete enough to show.
async fn load(shop: SocketAddr, pages: u32) -> Result<usize, Error> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut requests = JoinSet::new();
    for article in 0..pages {
        let request = client.get(format!("http://{shop}/page/{article}")).send();
        requests.spawn(async move { request.await?.error_for_status()?.text().await });
    }
    let answers = requests.join_all().await;
    let shown = |text: &String| text.contains("cents") && text.contains("stock unknown");
    Ok(answers.iter().flatten().filter(|text| shown(text)).count())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let isolation = Isolation::builder().build()?;
    let shop = Shop::new(&isolation, listen(dependencies()).await?)?;
    let address = listen(shop.routes()).await?;
    for _ in 0..5 {
        let shown = load(address, 100).await?;
        println!("{shown} of 100 pages were shown");
    }
    for command in [&shop.pages, &shop.prices, &shop.stock] {
        println!("{}", command.snapshot());
    }
    println!("{}", shop.reviews.snapshot());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    use tidegate::isolate::{CallStage, Event};
    use tower::Layer;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn a_dependency_that_hangs_costs_no_page() {
        let isolation = Isolation::builder().build().unwrap();
        runtime().block_on(async {
            let upstream = listen(dependencies()).await.unwrap();
            let shop = Shop::new(&isolation, upstream).unwrap();
            // However slow this machine is, only `stock` times out, and its breaker stays open.
            let slow = Some(Duration::from_secs(300));
            shop.pages.configure(|c| c.timeout = slow).unwrap();
            shop.prices.configure(|c| c.timeout = slow).unwrap();
            let sleep = Duration::from_secs(300);
            shop.stock.configure(|c| c.breaker.sleep = sleep).unwrap();
            let address = listen(shop.routes()).await.unwrap();
            // The breaker looks at its window now and then; until it opens, permits and timeouts
            // protect the pages.
            let mut rounds = 0;
            while !shop.stock.snapshot().is_open {
                assert_eq!(load(address, 100).await.unwrap(), 100);
                rounds += 1;
                assert!(rounds < 100, "{}", shop.stock.snapshot());
            }
            let before = shop.stock.snapshot();
            assert!(before.peak <= 10, "{before}");
            assert!(before.totals[Event::Timeout] >= 1, "{before}");
            assert!(before.totals[Event::PermitsRejected] >= 1, "{before}");
            assert_eq!(load(address, 100).await.unwrap(), 100);
            let after = shop.stock.snapshot();
            let (before, after) = (before.totals, after.totals);
            assert_eq!(
                after[Event::ShortCircuited] - before[Event::ShortCircuited],
                100
            );
            for command in [&shop.pages, &shop.prices, &shop.stock] {
                let snapshot = command.snapshot();
                assert_eq!(snapshot.active, 0, "{snapshot}");
            }
            let prices = shop.prices.snapshot().totals[Event::Success];
            assert_eq!(prices, 100 * (rounds + 1));
        });
    }

    #[test]
    fn a_page_without_a_permit_is_answered_with_503() {
        let isolation = Isolation::builder().build().unwrap();
        runtime().block_on(async {
            let upstream = listen(dependencies()).await.unwrap();
            let shop = Shop::new(&isolation, upstream).unwrap();
            shop.pages.configure(|c| c.permits.limit = 1).unwrap();
            let held = shop.pages.admit().unwrap();
            let address = listen(shop.routes()).await.unwrap();
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let ask = || client.get(format!("http://{address}/page/7")).send();
            assert_eq!(ask().await.unwrap().status(), 503);
            drop(held);
            assert_eq!(ask().await.unwrap().status(), 200);
        });
    }

    #[test]
    fn a_runtime_that_is_dropped_in_the_middle_of_calls_gives_all_permits_back() {
        let (tell, mut started) = tokio::sync::mpsc::unbounded_channel();
        let isolation = Isolation::builder().hook(move |stage, _| {
            if stage == CallStage::ExecutionStart {
                let _ = tell.send(());
            }
            Ok(())
        });
        let isolation = isolation.build().unwrap();
        let runtime = runtime();
        let shop = runtime.block_on(async {
            let upstream = listen(dependencies()).await.unwrap();
            let shop = Shop::new(&isolation, upstream).unwrap();
            shop.stock.configure(|c| c.timeout = None).unwrap();
            for _ in 0..10 {
                tokio::spawn(shop.ask_stock.clone().oneshot("/stock/7".to_owned()));
            }
            for _ in 0..10 {
                started.recv().await.unwrap();
            }
            assert_eq!(shop.stock.snapshot().active, 10);
            shop
        });
        drop(runtime);
        assert_eq!(shop.stock.snapshot().active, 0);
    }

    #[test]
    fn clients_of_hyper_and_reqwest_are_services_as_they_are() {
        let isolation = Isolation::builder().build().unwrap();
        runtime().block_on(async {
            let upstream = listen(dependencies()).await.unwrap();
            let url = format!("http://{upstream}/price/7");
            let prices: Command = Command::builder("prices")
                .group("catalog")
                .timeout(Duration::from_secs(300))
                .build(&isolation)
                .unwrap();

            let client = Client::builder(TokioExecutor::new()).build_http();
            let request = Request::get(&url).body(String::new()).unwrap();
            let response = prices.layer().layer(client).oneshot(request).await.unwrap();
            let body = response.into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes(), "700");

            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let request = client.get(&url).build().unwrap();
            let response = prices.plain_layer().layer(client).oneshot(request).await;
            assert_eq!(response.unwrap().text().await.unwrap(), "700");
            let snapshot = prices.snapshot();
            assert_eq!((snapshot.active, snapshot.totals[Event::Success]), (0, 2));
        });
    }

    #[test]
    fn a_blocking_call_on_a_worker_of_tokio_is_refused() {
        let isolation = Isolation::builder().build().unwrap();
        runtime().block_on(async {
            let shop = Shop::new(&isolation, ([127, 0, 0, 1], 9).into()).unwrap();
            let (blocks, moves) = (shop.reviews.clone(), shop.reviews.clone());
            let cause = move || async move {
                let refused = blocks
                    .call()
                    .fallback(|_why| Err(io::ErrorKind::Other.into()));
                let refused = refused.run(move |_cancel| read_reviews(7)).unwrap_err();
                refused.cause().to_string()
            };
            let elsewhere = move || async move {
                let run = move || moves.run(move |_cancel| read_reviews(7));
                let reviews = tokio::task::spawn_blocking(run).await;
                reviews.unwrap().unwrap()
            };
            let routes = Router::new()
                .route("/run", get(cause))
                .route("/spawn_blocking", get(elsewhere))
                .layer(shop.pages.layer().respond());
            let address = listen(routes).await.unwrap();
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let ask = async |path: &str| {
                let response = client.get(format!("http://{address}{path}")).send().await;
                response.unwrap().text().await.unwrap()
            };
            let refused = ask("/run").await;
            assert!(refused.contains("must not wait"), "{refused}");
            assert_eq!(ask("/spawn_blocking").await, "0 reviews");
        });
    }
}

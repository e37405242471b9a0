//! A gRPC service on tonic with a bulkhead for each method. The method `Report` is slow. Its calls
//! cannot use more than their two permits, so `Price` answers as before.
//!
//! * A call beyond the limit ends at once with `UNAVAILABLE`.
//! * The deadline that a client states in `grpc-timeout` is the timeout of the call on the server.
//!   When it passes, the work is dropped and its permit is free again.
//!
//! Run it with `cargo run --manifest-path examples/tokio/Cargo.toml --example tonic_shop`.

mod messages;

use std::future::pending;
use std::time::Duration;

use axum::Router;
use messages::{Amount, Article, PRICE, REPORT, Shop, ShopClient, ShopServer};
use tidegate::prelude::*;
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Status};
use tower::Layer;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The commands of the service, one for each method.
#[derive(Clone)]
struct Commands {
    price: Command,
    report: Command,
}

impl Commands {
    fn new(isolation: &Isolation) -> Result<Self, Error> {
        let price = Command::builder("Price").group("shop").permits(100);
        let report = Command::builder("Report").group("shop").permits(2);
        Ok(Self {
            price: price.timeout(Duration::from_secs(30)).build(isolation)?,
            report: report.timeout(Duration::from_secs(30)).build(isolation)?,
        })
    }

    /// Returns the routes of the service: each method behind its own command.
    fn routes(&self) -> Router {
        let shop = ShopServer::new(Slow);
        Router::new()
            .route_service(PRICE, self.price.layer().respond().layer(shop.clone()))
            .route_service(REPORT, self.report.layer().respond().layer(shop))
    }
}

/// A shop whose reports are never finished.
struct Slow;

impl Shop for Slow {
    async fn price(&self, article: Article) -> Result<Amount, Status> {
        let cents = u64::from(article.id) * 100;
        Ok(Amount { cents })
    }

    async fn report(&self, _article: Article) -> Result<Amount, Status> {
        pending().await
    }
}

/// Serves the routes, and returns the address.
async fn listen(routes: Router) -> Result<String, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let server = Server::builder().add_routes(Routes::from(routes));
    let incoming = TcpIncoming::from(listener);
    tokio::spawn(async move { server.serve_with_incoming(incoming).await });
    Ok(address)
}

fn article(id: u32) -> Request<Article> {
    Request::new(Article { id })
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let isolation = Isolation::builder().build()?;
    let commands = Commands::new(&isolation)?;
    let channel = Endpoint::try_from(listen(commands.routes()).await?)?
        .connect()
        .await?;
    let mut client = ShopClient::new(channel);

    let mut slow = article(7);
    slow.set_timeout(Duration::from_millis(100));
    println!("report: {}", client.report(slow).await.unwrap_err());
    println!("price: {:?}", client.price(article(7)).await?);
    println!(
        "{}\n{}",
        commands.price.snapshot(),
        commands.report.snapshot()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::isolate::{CallStage, Event};
    use tokio::sync::mpsc::unbounded_channel;
    use tonic::Code;

    #[tokio::test]
    async fn a_method_that_hangs_does_not_harm_the_other() {
        let (tell, mut started) = unbounded_channel();
        let (say, mut cancelled) = unbounded_channel();
        let isolation = Isolation::builder()
            .hook(move |stage, _| {
                let is_start = stage == CallStage::ExecutionStart;
                let _ = is_start.then(|| tell.send(()));
                Ok(())
            })
            .on_event(move |_, event| {
                let _ = (event == Event::Cancelled).then(|| say.send(()));
            })
            .build()
            .unwrap();
        let commands = Commands::new(&isolation).unwrap();
        let address = listen(commands.routes()).await.unwrap();
        let channel = Endpoint::try_from(address)
            .unwrap()
            .connect()
            .await
            .unwrap();
        let mut client = ShopClient::new(channel);
        let hanging: Vec<_> = (0..2)
            .map(|id| {
                let mut client = client.clone();
                tokio::spawn(async move { client.report(article(id)).await })
            })
            .collect();
        for _ in 0..2 {
            started.recv().await.unwrap();
        }
        let refused = client.report(article(3)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        for id in 0..50 {
            let price = client.price(article(id)).await.unwrap();
            assert_eq!(price.cents, u64::from(id) * 100);
        }
        assert_eq!(commands.price.snapshot().totals[Event::Success], 50);
        // Clients that leave give their permits back.
        hanging.iter().for_each(tokio::task::JoinHandle::abort);
        for _ in 0..2 {
            cancelled.recv().await.unwrap();
        }
        assert_eq!(commands.report.snapshot().active, 0);
    }

    #[tokio::test]
    async fn the_routes_run_on_event_loops_as_they_are() {
        let isolation = Isolation::builder().build().unwrap();
        let commands = Commands::new(&isolation).unwrap();
        let group = tidegate::net::pinned("grpc", 1).unwrap();
        let routes = Routes::from(commands.routes());
        let server = tidegate::hyper::serve(&group, "127.0.0.1:0", routes);
        let server = server.await.unwrap();
        let address = format!("http://{}", server.local_addr());
        let channel = Endpoint::try_from(address).unwrap().connect().await;
        let mut client = ShopClient::new(channel.unwrap());
        for id in 0..50 {
            let price = client.price(article(id)).await.unwrap();
            assert_eq!(price.cents, u64::from(id) * 100);
        }
        let mut slow = article(7);
        slow.set_timeout(Duration::from_millis(50));
        client.report(slow).await.unwrap_err();
        // The connection is idle, and its client is told of the end.
        let drained = server.drain(Duration::from_secs(3600)).await.unwrap();
        assert!(drained.closed_at_deadline.is_empty(), "{drained}");
    }

    /// Without a network in between, only the command looks at the deadline.
    #[tokio::test]
    async fn the_deadline_of_the_client_ends_the_work() {
        let isolation = Isolation::builder().build().unwrap();
        let commands = Commands::new(&isolation).unwrap();
        let mut client = ShopClient::new(commands.routes());
        let mut slow = article(7);
        slow.set_timeout(Duration::from_millis(50));
        let late = client.report(slow).await.unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded, "{late}");
        let report = commands.report.snapshot();
        assert_eq!((report.active, report.totals[Event::Timeout]), (0, 1));
    }

    #[tokio::test]
    async fn a_command_also_protects_a_client() {
        let isolation = Isolation::builder().build().unwrap();
        let commands = Commands::new(&isolation).unwrap();
        let outgoing: Command = Command::builder("outgoing")
            .group("shop")
            .timeout(Duration::from_secs(300))
            .build(&isolation)
            .unwrap();
        let address = listen(commands.routes()).await.unwrap();
        let channel = Endpoint::try_from(address)
            .unwrap()
            .connect()
            .await
            .unwrap();
        let mut client = ShopClient::new(outgoing.layer().layer(channel));
        assert_eq!(client.price(article(7)).await.unwrap().cents, 700);
        let short = Some(Duration::from_millis(50));
        outgoing.configure(|c| c.timeout = short).unwrap();
        let late = client.report(article(7)).await.unwrap_err();
        assert!(late.message().contains("timed out"), "{late}");
        let snapshot = outgoing.snapshot();
        assert_eq!((snapshot.active, snapshot.totals[Event::Timeout]), (0, 1));
        assert_eq!(snapshot.totals[Event::Success], 1);
    }
}

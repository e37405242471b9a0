//! `tidegate::block_on` on the threads of a runtime of tokio.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use tidegate::net::NetGroup;
use tidegate::prelude::*;
use tokio::runtime::Builder;
use tokio::task::block_in_place;
use tower::{ServiceBuilder, ServiceExt, service_fn};

use crate::tokio;

const MOMENT: Duration = Duration::from_millis(1);

/// Uses timers, I/O and other futures of the loop.
async fn work() -> u32 {
    tidegate::sleep(MOMENT).await.unwrap();
    let group = NetGroup::current().unwrap();
    let server = tidegate::hyper::serve(&group, "127.0.0.1:0", Router::new());
    let server = server.await.unwrap();
    server.drain(Duration::ZERO).await.unwrap();
    let home = EventLoop::current().unwrap();
    home.spawn_local(async { 7 }).unwrap().await.unwrap()
}

#[test]
fn a_worker_drives_a_loop_and_goes_on_as_a_worker() {
    let runtime = tokio();
    let current = Builder::new_current_thread().enable_all().build().unwrap();
    let both = async || {
        let answer = tidegate::block_on(work()).unwrap();
        // The thread is a worker again.
        ::tokio::time::sleep(MOMENT).await;
        answer
    };
    assert_eq!(runtime.block_on(runtime.spawn(both())).unwrap(), 7);
    assert_eq!(current.block_on(both()), 7);
    let nested = async { tidegate::block_on(async { tidegate::block_on(async {}).is_err() }) };
    assert!(runtime.block_on(runtime.spawn(nested)).unwrap().unwrap());
}

#[test]
fn in_block_in_place_a_future_may_await_tasks_of_the_runtime() {
    let runtime = tokio();
    let done = runtime.spawn(async {
        block_in_place(|| {
            tidegate::block_on(async {
                ::tokio::time::sleep(MOMENT).await;
                ::tokio::spawn(async { 7 }).await.unwrap()
            })
        })
    });
    assert_eq!(runtime.block_on(done).unwrap().unwrap(), 7);
}

#[test]
fn on_the_only_thread_of_a_runtime_its_tasks_wait_for_the_end() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let task = ::tokio::spawn(async { 7 });
        let late = tidegate::block_on(async {
            let mut task = task;
            (tidegate::timeout(MOMENT, &mut task).await.map(|_| ()), task)
        });
        let (late, task) = late.unwrap();
        assert!(late.is_err());
        assert_eq!(task.await.unwrap(), 7);
    });
}

#[test]
fn behind_a_layer_it_is_refused() {
    let isolation = Isolation::builder().build().unwrap();
    let prices: Command = Command::builder("prices")
        .group("catalog")
        .build(&isolation)
        .unwrap();
    let blocks = service_fn(async |(): ()| {
        Ok::<_, Infallible>(tidegate::block_on(async {}).map_err(|why| why.to_string()))
    });
    let service = ServiceBuilder::new()
        .layer(prices.plain_layer())
        .service(blocks);
    let answer = tokio().block_on(service.oneshot(())).unwrap();
    let why = answer.unwrap_err();
    assert!(why.contains("block"), "{why}");
}

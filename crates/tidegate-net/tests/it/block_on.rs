//! `block_on` with I/O: servers and clients on the thread that calls it.

use std::future::{Future, poll_fn};
use std::io::Read;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::thread::{self, ThreadId};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::ManualClock;
use tidegate_loop::{BlockOnError, EventLoop, sleep};
use tidegate_net::{Client, NetGroup, Server, block_on};
use tidegate_promise::{SharedPromise, promise};
use tidegate_testkit::Gate;

use crate::acts::Acts;
use crate::{Echo, dial, group, round_trip, serve};

/// Completes a promise with the first bytes, and with the thread that read them.
fn hears(promise: SharedPromise<(Bytes, ThreadId)>) -> Acts {
    Acts::on_read(move |bytes, _| {
        let _ = promise.try_succeed((bytes, thread::current().id()));
    })
}

/// Completes a promise when its connection is open.
fn opens(promise: SharedPromise<()>) -> Acts {
    Acts::on_read(|_, _| ()).on_active(move |_| {
        let _ = promise.try_succeed(());
    })
}

/// Connects to `server` from the event loop of `here`, and returns what the server sends back.
async fn ask(here: &NetGroup, server: &Server) -> (Bytes, ThreadId) {
    let (promise, heard) = promise();
    let promise = promise.share();
    let client = Client::builder(here)
        .pipeline(move |p| p.add("hears", hears(promise.clone())))
        .build();
    let channel = client.connect(server.local_addr()).await.unwrap();
    channel.write_and_flush("hello");
    let heard = heard.await.unwrap();
    channel.close().await.unwrap();
    heard
}

#[test]
fn a_server_and_a_client_share_the_calling_thread() {
    let (bytes, thread) = block_on(async {
        let here = NetGroup::current().unwrap();
        let server = Server::builder(&here).pipeline(|p| p.add("echo", Echo));
        let server = server.bind("127.0.0.1:0").await.unwrap();
        let heard = ask(&here, &server).await;
        let report = server.drain(Duration::from_secs(5)).await.unwrap();
        assert!(report.closed_at_deadline.is_empty());
        heard
    })
    .unwrap();
    assert_eq!(
        (&bytes[..], thread),
        (&b"hello"[..], thread::current().id())
    );
}

#[test]
fn a_future_that_always_wakes_itself_does_not_stop_its_own_io() {
    let bytes = block_on(async {
        let here = NetGroup::current().unwrap();
        let server = Server::builder(&here).pipeline(|p| p.add("echo", Echo));
        let server = server.bind("127.0.0.1:0").await.unwrap();
        let mut asks = pin!(ask(&here, &server));
        let (bytes, _) = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            asks.as_mut().poll(cx)
        })
        .await;
        bytes
    });
    assert_eq!(bytes.unwrap(), "hello");
}

#[test]
fn a_server_of_another_group_can_be_asked() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let (bytes, _) = block_on(async {
        let here = NetGroup::current().unwrap();
        ask(&here, &server).await
    })
    .unwrap();
    assert_eq!(bytes, "hello");
    assert_eq!(round_trip(&mut dial(&server), b"still here"), b"still here");
}

#[test]
fn at_the_end_servers_and_connections_are_closed() {
    let (mut peer, address, here) = block_on(async {
        let here = NetGroup::current().unwrap();
        let (promise, opened) = promise();
        let promise = promise.share();
        let server = Server::builder(&here)
            .pipeline(move |p| p.add("opens", opens(promise.clone())))
            .bind("127.0.0.1:0")
            .await
            .unwrap();
        // The system completes the connection before the server accepts it.
        let peer = TcpStream::connect(server.local_addr()).unwrap();
        opened.await.unwrap();
        (peer, server.local_addr(), here)
    })
    .unwrap();
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
    assert!(TcpStream::connect(address).is_err());
    assert!(here.submit(|| ()).is_err(), "its event loop has ended");
    let late = Client::builder(&here).connect(address).wait();
    assert!(late.is_err());
}

#[test]
fn the_group_is_known_inside_only() {
    assert!(NetGroup::current().is_none());
    let (here, elsewhere) = block_on(async {
        let group = group(1);
        let elsewhere = group.submit(|| NetGroup::current().is_none()).unwrap();
        let name = NetGroup::current().unwrap().next().name().to_owned();
        let same = EventLoop::current().unwrap().name() == name;
        (same, elsewhere.await.unwrap())
    })
    .unwrap();
    assert!(here && elsewhere);
    assert!(NetGroup::current().is_none());
}

#[test]
fn nested_use_and_use_on_a_loop_are_error_values() {
    let nested = block_on(async { block_on(async { 1 }) }).unwrap();
    assert!(matches!(nested, Err(BlockOnError::OnLoop { .. })));
    let inner = block_on(async { tidegate_loop::block_on(async { 1 }) }).unwrap();
    assert!(matches!(inner, Err(BlockOnError::OnLoop { .. })));
    let group = group(1);
    let refused = group.submit(|| block_on(async { 1 }).map_err(|why| why.to_string()));
    let text = refused.unwrap().wait().unwrap().unwrap_err();
    assert!(text.contains("the event loop `io-0`"), "{text}");
}

#[test]
fn a_panic_of_the_future_resumes_and_leaves_nothing_behind() {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        block_on(async {
            let here = NetGroup::current().unwrap();
            let server = Server::builder(&here).pipeline(|p| p.add("echo", Echo));
            let server = server.bind("127.0.0.1:0").await.unwrap();
            if server.connections() == 0 {
                panic!("{}", server.local_addr());
            }
        })
    }));
    let payload = caught.unwrap_err();
    let address = payload.downcast_ref::<String>().unwrap();
    assert!(TcpStream::connect(address).is_err());
    assert!(NetGroup::current().is_none() && EventLoop::current().is_none());
    assert_eq!(block_on(async { 1 }).unwrap(), 1);
}

#[test]
fn settings_of_the_builder_apply() {
    let (clock, done) = (ManualClock::new(), Gate::new());
    let slept = thread::scope(|scope| {
        let (at, over) = (clock.clone(), done.clone());
        scope.spawn(move || {
            tidegate_testkit::until("the sleep to be over", || {
                at.advance(Duration::from_secs(3600));
                over.is_open()
            });
        });
        let builder = NetGroup::builder("main").loops(7).clock(&clock);
        let slept = builder.block_on(async {
            sleep(Duration::from_secs(3600)).await.unwrap();
            NetGroup::current().unwrap().len()
        });
        done.open();
        slept
    });
    assert_eq!(slept.unwrap(), 1, "one event loop, on the calling thread");
}

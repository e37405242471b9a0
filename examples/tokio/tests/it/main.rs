//! What happens beside tokio that no program should do: drains of routers in hostile states, and
//! `block_on` on the threads of a runtime.

mod axum_drains;
mod block_on;
mod stream_shop;
mod tonic_drains;

use std::time::Duration;

use tidegate::net::Server;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// A runtime for clients.
fn tokio() -> Runtime {
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap()
}

/// Drains a server whose connections do not end by themselves. Returns how many were cut off.
fn cut(server: &Server) -> usize {
    let report = server.drain(Duration::ZERO).wait().unwrap();
    assert_eq!(server.connections(), 0);
    assert_eq!(report.still_running, 0, "{report}");
    report.closed_at_deadline.len()
}

/// Sends a message when it is dropped.
struct OnDrop(Option<oneshot::Sender<()>>);

impl OnDrop {
    fn new() -> (Self, oneshot::Receiver<()>) {
        let (send, dropped) = oneshot::channel();
        (Self(Some(send)), dropped)
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(send) = self.0.take() {
            let _ = send.send(());
        }
    }
}

//! hyper's client on an event loop, against servers that close.

use std::io::Write;
use std::net::TcpListener;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http1::handshake;
use tidegate_hyper::{LoopExecutor, LoopIo};
use tidegate_net::{Client, LocalStream, StreamHandler};
use tidegate_testkit::Log;

use crate::group;

/// Asks once and logs the body, or that there was an error.
async fn ask(stream: LocalStream, log: Log<String>) {
    let outcome = async {
        let (mut sender, connection) = handshake(LoopIo::new(stream)).await?;
        hyper::rt::Executor::execute(&LoopExecutor, async {
            let _ = connection.await;
        });
        let request = Request::get("/").header("host", "a");
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = sender.send_request(request).await?;
        let body = response.into_body().collect().await?;
        Ok::<_, hyper::Error>(body.to_bytes())
    };
    log.push(match outcome.await {
        Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
        Err(_) => "an error".to_owned(),
    });
}

#[test]
fn a_server_that_closes_ends_the_request() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    let group = group();
    for (sent, expected) in [
        (String::new(), "an error"),
        ("HTTP/1.1 20".to_owned(), "an error"),
        ("no http\r\n\r\n".to_owned(), "an error"),
        (head.to_owned(), "an error"),
        (format!("{head}hel"), "an error"),
        (format!("{head}hello"), "hello"),
        (format!("{head}hello, and more"), "hello"),
        ("HTTP/1.1 200 OK\r\n\r\nto the end".to_owned(), "to the end"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let log = Log::new();
        let own = log.clone();
        let client = Client::builder(&group).pipeline(move |p| {
            let own = own.clone();
            p.add("ask", StreamHandler::local(|stream| ask(stream, own)))
        });
        let connected = client.connect(listener.local_addr().unwrap());
        let (mut server, _) = listener.accept().unwrap();
        let channel = connected.wait().unwrap();
        // A socket that is closed with unread bytes would be reset.
        crate::read_until(&mut server, "\r\n\r\n");
        server.write_all(sent.as_bytes()).unwrap();
        drop(server);
        log.wait_for(1);
        assert_eq!(log.take(), [expected], "{sent:?}");
        channel.closed().wait().unwrap();
    }
}

//! Files over real sockets: large ones, in order, to slow clients.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_http::{Files, HttpServer, Router};

use crate::{Client, get, start};

const LARGE: usize = 6 * 1024 * 1024;
const SECOND: Duration = Duration::from_secs(1);

/// A directory with one large file, removed at the end of its test.
pub(crate) struct TestDir(pub(crate) PathBuf);

impl TestDir {
    pub(crate) fn new(name: &str) -> Self {
        let dir = format!("tidegate-http-{}-{name}", std::process::id());
        let dir = Self(std::env::temp_dir().join(dir));
        fs::create_dir_all(&dir.0).unwrap();
        fs::write(dir.0.join("large.txt"), content()).unwrap();
        fs::write(dir.0.join("small.txt"), "small").unwrap();
        dir
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn content() -> String {
    "0123456789abcdef".repeat(LARGE / 16)
}

#[test]
fn large_files_are_sent_in_order_with_other_responses() {
    let dir = TestDir::new("order");
    let files = Files::builder(&dir.0).prefix("/files").build().unwrap();
    let router = Router::builder()
        .get("/hello/{name}", |request, response| {
            response.body(format!("hello {}", request.param("name").unwrap()));
        })
        .mount("/files", move |request, response| {
            files.respond(request, response)
        })
        .build()
        .unwrap();
    let group = tidegate_net::pinned("web", 2).unwrap();
    let server = HttpServer::builder(&group)
        .serve_with("127.0.0.1:0", move || router.clone())
        .wait()
        .unwrap();
    let mut client = Client::of(&server);
    let paths = [
        "/hello/a",
        "/files/large.txt",
        "/files/small.txt",
        "/nothing",
    ];
    client.send(paths.map(get).concat());
    client.send(get("/files/large.txt"));
    let whole = content();
    assert_eq!(client.response(), (200, "hello a".to_owned()));
    assert!(client.response() == (200, whole.clone()));
    assert_eq!(client.response(), (200, "small".to_owned()));
    assert_eq!(client.response(), (404, "not found\n".to_owned()));
    assert!(client.response() == (200, whole));
    server.drain(SECOND).wait().unwrap();
}

#[test]
fn a_large_file_is_sent_whole_before_the_connection_ends() {
    let dir = TestDir::new("close");
    let files = Files::new(&dir.0).unwrap();
    let server = start(move |request, response| {
        files.respond(request, response);
    });
    let mut client = Client::of(&server);
    client.send("GET /large.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let all = client.rest();
    assert!(all.ends_with(&content()) && all.len() < LARGE + 1000);

    let mut client = Client::of(&server);
    client.send("GET /large.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=16-31\r\n\r\n");
    assert_eq!(client.response(), (206, "0123456789abcdef".to_owned()));
    server.drain(SECOND).wait().unwrap();
}

#[test]
fn a_file_that_is_truncated_ends_the_connection_and_not_the_server() {
    let dir = TestDir::new("truncated");
    let path = dir.0.join("large.txt");
    let files = Files::new(&dir.0).unwrap();
    let group = tidegate_net::pinned("web", 1).unwrap();
    let server = HttpServer::builder(&group)
        .serve_with("127.0.0.1:0", move || files.clone())
        .wait()
        .unwrap();
    let mut client = Client::of(&server);
    client.send(get("/large.txt"));
    let mut first = [0; 1000];
    client.stream.read_exact(&mut first).unwrap();
    // The socket is full: most of the file is not sent yet.
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(10).unwrap();
    assert!(client.rest().len() < LARGE);
    let mut client = Client::of(&server);
    client.ask("/small.txt", "small");
    server.drain(SECOND).wait().unwrap();
}

//! A server of static files beside a route of its own: `http_files [DIRECTORY ADDRESS]`. Without
//! arguments it serves a small directory to itself and ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use tidegate::http::{Files, HttpServer, Router};
use tidegate::prelude::*;
use tidegate::signal;

/// Returns the routes: the files of `directory` below `/static`, and a page that names them.
fn routes(directory: &Path) -> tidegate::Result<Router> {
    let files = Files::builder(directory)
        .prefix("/static")
        .cache_control("max-age=60")
        .build()?;
    let router = Router::builder()
        .get("/", |_, response| {
            response.body("the files are below /static/\n")
        })
        .mount("/static", move |request, response| {
            files.respond(request, response)
        })
        .build()?;
    Ok(router)
}

/// Makes a directory with two files.
fn sample() -> std::io::Result<PathBuf> {
    let directory = std::env::temp_dir().join(format!("http_files-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("index.html"), "<h1>hello</h1>\n")?;
    std::fs::write(directory.join("numbers.txt"), "0123456789\n")?;
    Ok(directory)
}

/// Sends a request with a field, and returns the status and the text.
fn ask(server: SocketAddr, path: &str, field: &str) -> std::io::Result<String> {
    let mut client = TcpStream::connect(server)?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n");
    client.write_all(format!("{head}{field}\r\n").as_bytes())?;
    let mut response = String::new();
    client.read_to_string(&mut response)?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.lines().next().unwrap_or_default();
    let status = status.strip_prefix("HTTP/1.1 ").unwrap_or_default();
    Ok(format!("GET {path}: {status}, {}", body.trim_end()))
}

fn main() -> tidegate::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let given = arguments.next().zip(arguments.next());
    let (directory, address) = match &given {
        Some((directory, address)) => (PathBuf::from(directory), address.as_str()),
        None => (sample()?, "127.0.0.1:0"),
    };
    let group = tidegate::net::pinned("web", 2)?;
    let router = routes(&directory)?;
    let server = HttpServer::builder(&group)
        .serve_with(address, move || router.clone())
        .wait()?;
    let drained = server.drain_on(Completion::any([signal::terminate(), signal::interrupt()]));
    println!("http://{}/static/", server.local_addr());
    if given.is_some() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    for (path, field) in [
        ("/static/", ""),
        ("/static/numbers.txt", "Range: bytes=2-4\r\n"),
        ("/static/../Cargo.toml", ""),
    ] {
        println!("{}", ask(server.local_addr(), path, field)?);
    }
    server.drain(Duration::from_secs(1)).wait()?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

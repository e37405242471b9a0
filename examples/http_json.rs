//! A JSON service with routes, parameters and bodies: `http_json [ADDRESS]`. Without an address it
//! sends itself two requests and ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate::http::{DeferredResponse, HttpServer, Router};
use tidegate::prelude::*;
use tidegate::signal;

#[derive(Clone, Serialize, Deserialize)]
struct Note {
    text: String,
}

/// The notes, numbered from 0. The lock is held for a moment only, so that no event loop waits.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Note>>>);

impl Notes {
    fn add(&self, note: Note) -> usize {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(note);
        notes.len() - 1
    }

    fn get(&self, id: &str) -> Option<Note> {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.get(id.parse::<usize>().ok()?).cloned()
    }
}

/// Responds with a value as JSON.
fn send(response: DeferredResponse, status: u16, value: &impl Serialize) {
    let json = serde_json::to_vec(value).expect("notes and numbers are valid JSON");
    let response = response.field("Content-Type", "application/json");
    response.status(status).body(json);
}

fn routes(notes: &Notes) -> tidegate::Result<Router> {
    let (stored, added) = (notes.clone(), notes.clone());
    let router = Router::builder()
        .get("/notes/{id}", move |request, response| {
            match stored.get(&request.param("id").unwrap_or_default()) {
                Some(note) => send(response.defer(), 200, &note),
                None => response.status(404).body("there is no such note\n"),
            }
        })
        .post("/notes", move |request, response| {
            let (response, notes) = (response.defer(), added.clone());
            // At most 16 KiB. Runs on the connection's event loop, when the body is complete.
            request.collect(16 * 1024).finally(move |body| match body {
                Outcome::Success(body) => match serde_json::from_slice(body) {
                    Ok(note) => send(response, 201, &notes.add(note)),
                    Err(why) => response.status(400).body(format!("{why}\n")),
                },
                Outcome::Failure(why) => response.status(413).body(format!("{why}\n")),
                Outcome::Cancelled => {}
            });
        })
        .build()?;
    Ok(router)
}

/// Sends a request, and returns the status and the text.
fn ask(server: SocketAddr, line: &str, body: &str) -> std::io::Result<String> {
    let mut client = TcpStream::connect(server)?;
    let fields = format!("Connection: close\r\nContent-Length: {}", body.len());
    let request = format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
    client.write_all(request.as_bytes())?;
    let mut response = String::new();
    client.read_to_string(&mut response)?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    Ok(format!("{line}: {}, {}", &head[9..12], body.trim_end()))
}

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    let group = tidegate::net::pinned("web", 2)?;
    let router = routes(&Notes::default())?;
    let listen = address.as_deref().unwrap_or("127.0.0.1:0");
    let server = HttpServer::builder(&group)
        .serve_with(listen, move || router.clone())
        .wait()?;
    let drained = server.drain_on(signal::terminate());
    println!("http://{}/notes", server.local_addr());
    if address.is_some() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    let note = r#"{"text":"buy milk"}"#;
    println!("{}", ask(server.local_addr(), "POST /notes", note)?);
    println!("{}", ask(server.local_addr(), "GET /notes/0", "")?);
    Ok(())
}

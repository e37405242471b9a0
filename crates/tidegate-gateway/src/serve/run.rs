//! The command `run`: starts a gateway, and does what signals ask for.
//!
//! | signal | what happens |
//! |---|---|
//! | SIGHUP | the configuration is read again; if it has mistakes, the old one stays in force |
//! | SIGTERM, SIGINT | announces the end, stops accepting, finishes requests, exits with 0 |
//! | a second one | exits at once, with 1 |

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tidegate::isolate::Isolation;
use tidegate::loops::Quiet;
use tidegate::promise::{Completion, Outcome};
use tidegate::signal;
use tidegate_loop::signal::Received;

use super::gateway::{Gateway, Summary};
use crate::config::Config;

/// What the gateway waits for.
enum Event {
    Signal(Received),
    /// The drain has ended.
    Drained(Option<Summary>),
}

/// Runs a gateway until it is asked to end. `read` reads its configuration, or returns the mistakes.
/// Returns the status of the process.
pub(crate) fn run(mut read: impl FnMut() -> Result<Config, String>, out: &mut dyn Write) -> u8 {
    // Before anything listens, so that no signal is lost.
    let (send, events) = channel();
    for signal in [signal::terminate(), signal::interrupt(), signal::hangup()] {
        pass_on(signal, send.clone());
    }
    let config = match read() {
        Ok(config) => config,
        Err(mistakes) => {
            say(out, mistakes.trim_end());
            return 1;
        }
    };
    let has_admin = config.admin.is_some();
    let (gateway, group) = match start(config) {
        Ok(started) => started,
        Err(why) => {
            say(out, &why);
            return 1;
        }
    };
    for (name, address) in gateway.addresses() {
        say(out, &format!("{name} listens on {address}"));
    }
    if has_admin {
        say(
            out,
            "listen.admin: this version has no listener for operators yet",
        );
    }
    let status = until_end(&gateway, &mut read, &events, &send, out);
    drop(gateway);
    let quiet = Quiet::none(Duration::from_secs(1));
    // What is left has no time any more: the process ends.
    let _ = group.loops().shutdown(quiet).wait();
    status
}

/// Starts the gateway on as many loops as the machine has processors.
fn start(config: Config) -> Result<(Gateway, tidegate::net::NetGroup), String> {
    let loops = thread::available_parallelism().map_or(1, usize::from);
    let group = tidegate::net::pinned("gateway", loops).map_err(|why| why.to_string())?;
    let isolation = Isolation::builder()
        .build()
        .map_err(|why| why.to_string())?;
    let gateway = Gateway::start(config, &group, &isolation).map_err(|why| why.to_string())?;
    Ok((gateway, group))
}

/// Does what signals ask for, until the end. Returns the status of the process.
fn until_end(
    gateway: &Gateway,
    read: &mut dyn FnMut() -> Result<Config, String>,
    events: &Receiver<Event>,
    send: &Sender<Event>,
    out: &mut dyn Write,
) -> u8 {
    let mut draining = false;
    while let Ok(event) = events.recv() {
        match event {
            Event::Signal(received) if received.name() == "SIGHUP" => {
                say(out, &reload(gateway, read));
            }
            Event::Signal(received) if draining => {
                say(out, &format!("{received} again: ends at once"));
                return 1;
            }
            Event::Signal(received) => {
                draining = true;
                let (announce, deadline) = gateway.drain_times();
                say(
                    out,
                    &format!("{received}: announces the end, then finishes requests"),
                );
                let send = send.clone();
                gateway.drain(announce, deadline).finally(move |outcome| {
                    let summary = match outcome {
                        Outcome::Success(summary) => Some(summary.clone()),
                        _ => None,
                    };
                    let _ = send.send(Event::Drained(summary));
                });
            }
            Event::Drained(summary) => {
                let summary = summary.map(|summary| summary.to_string());
                say(out, &format!("ended; {}", summary.unwrap_or_default()));
                return 0;
            }
        }
    }
    0
}

/// Reads the configuration again. Returns what to say about it.
fn reload(gateway: &Gateway, read: &mut dyn FnMut() -> Result<Config, String>) -> String {
    let notes = read().and_then(|config| gateway.reload(config).map_err(|why| why.to_string()));
    match notes {
        Ok(notes) if notes.is_empty() => "reloaded".to_owned(),
        Ok(notes) => format!("reloaded; {}", notes.join("; ")),
        Err(why) => format!(
            "{}\nnot reloaded: the old configuration stays",
            why.trim_end()
        ),
    }
}

/// Sends a signal, and each further one of its kind, as an event.
fn pass_on(signal: Completion<Received>, to: Sender<Event>) {
    signal.finally(move |outcome| {
        if let Outcome::Success(received) = outcome {
            let next = received.next();
            if to.send(Event::Signal(received.clone())).is_ok() {
                pass_on(next, to);
            }
        }
    });
}

/// Prints a line. A reader that has left is not a failure.
fn say(out: &mut dyn Write, line: &str) {
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

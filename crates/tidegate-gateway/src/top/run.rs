//! Asks the listener for operators, and draws the answer.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use clap::Args;
use tidegate::http::client::Client;
use tidegate::net::NetGroup;
use tidegate::signal;
use tidegate_core::ThreadBuilder;

use super::table::lines;
use crate::screen::{KeyMode, Painter, Size, too_narrow};
use crate::signals;

/// The time between two snapshots.
const PERIOD: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest snapshot.
const LARGEST: usize = 64 << 20;
/// The variable with the token.
const TOKEN: &str = "TIDEGATE_TOKEN";

/// The options of the command `top`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TopArguments {
    /// The address of the listener for operators, such as `127.0.0.1:9090` or `unix:/run/admin.sock`. The variable `TIDEGATE_TOKEN` has the token, if
    /// reading needs one.
    #[arg(default_value = "127.0.0.1:9090")]
    pub(crate) admin: String,
    /// Prints the state once, for scripts.
    #[arg(long)]
    pub(crate) once: bool,
}

/// What the command waits for.
enum Event {
    /// The user wants to end.
    End,
    /// The gateway has answered, or not in time.
    Answer(Result<Vec<String>, String>),
}

/// Runs the command. Returns the status of the process: 0, or 1 if there is no answer.
pub(crate) fn top(
    arguments: &TopArguments,
    variables: &dyn Fn(&str) -> Option<String>,
    out: &mut dyn Write,
) -> u8 {
    // Before the mode of the terminal is changed, so that no signal leaves it changed.
    let (send, events) = channel();
    for signal in [signal::interrupt(), signal::terminate(), signal::hangup()] {
        let send = send.clone();
        signals::each(signal, move || send.send(Event::End).is_ok());
    }
    let source = match Source::new(&arguments.admin, variables(TOKEN)) {
        Ok(source) => source,
        Err(why) => return failed(&why),
    };
    // The user need not wait for a gateway that does not answer.
    let ask = match asker(source, send.clone()) {
        Ok(ask) => ask,
        Err(why) => return failed(&why),
    };
    let first = match events.recv() {
        Ok(Event::Answer(Ok(lines))) => lines,
        Ok(Event::Answer(Err(why))) => return failed(&why),
        Ok(Event::End) | Err(_) => return 0,
    };
    if arguments.once || Size::of_output().is_none() {
        // A reader that left early, such as `head`, is not a failure.
        let _ = writeln!(out, "{}", first.join("\n")).and_then(|()| out.flush());
        return 0;
    }
    let _keys = KeyMode::start(quits(send));
    live(first, &events, &ask, out);
    0
}

/// Draws answers in place until the user ends it.
fn live(first: Vec<String>, events: &Receiver<Event>, ask: &Sender<()>, out: &mut dyn Write) {
    let (mut painter, mut shown) = (Painter::default(), first);
    while let Some(size) = Size::of_output() {
        let drawn = too_narrow(size).unwrap_or_else(|| shown.clone());
        let text = painter.paint(&drawn, size);
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if written.is_err() {
            // The reader has left.
            return;
        }
        match events.recv_timeout(PERIOD) {
            Err(RecvTimeoutError::Timeout) => drop(ask.send(())),
            _ => return,
        }
        shown = match events.recv() {
            // A gateway that restarts is back soon.
            Ok(Event::Answer(answer)) => answer.unwrap_or_else(|why| vec![why]),
            _ => return,
        };
    }
}

/// Asks now, and again each time it is told to, on a thread of its own that ends with the process.
fn asker(source: Source, send: Sender<Event>) -> Result<Sender<()>, String> {
    let (again, told) = channel();
    let thread = ThreadBuilder::new("ask").detached();
    let started = thread.spawn(move || {
        while send.send(Event::Answer(source.ask())).is_ok() && told.recv().is_ok() {}
    });
    started.map(|_| again).map_err(|why| why.to_string())
}

/// Sends an event for the key `q`.
fn quits(send: Sender<Event>) -> impl FnMut(u8) + Send + 'static {
    move |key| {
        if matches!(key, b'q' | b'Q' | 4) {
            let _ = send.send(Event::End);
        }
    }
}

/// Says why there is no table. Scripts read standard output.
fn failed(why: &str) -> u8 {
    let _ = writeln!(std::io::stderr(), "{why}");
    1
}

/// Where snapshots come from.
struct Source {
    admin: String,
    url: String,
    token: Option<String>,
    client: Client,
    _group: NetGroup,
}

impl Source {
    fn new(admin: &str, token: Option<String>) -> Result<Self, String> {
        let group = tidegate::net::pinned("top", 1).map_err(|why| why.to_string())?;
        let client = Client::builder(&group);
        let base = admin.strip_prefix("http://").unwrap_or(admin);
        let base = base.trim_end_matches('/');
        let (client, host) = match admin.strip_prefix("unix:") {
            Some(path) => (client.unix_socket(path), "localhost"),
            None => (client, base),
        };
        Ok(Self {
            admin: base.to_owned(),
            url: format!("http://{host}/api/snapshot"),
            token,
            client: client.build(),
            _group: group,
        })
    }

    /// Asks for a snapshot. Returns its lines, or a sentence.
    fn ask(&self) -> Result<Vec<String>, String> {
        let says = |why: String| format!("{}: {why}", self.admin);
        let mut request = self.client.get(self.url.as_str()).timeout(PATIENCE);
        if let Some(token) = &self.token {
            request = request.field("Authorization", format!("Bearer {token}"));
        }
        let response = request.send().wait().map_err(|why| {
            says(format!(
                "the gateway does not answer ({why}); is `listen.admin` there?"
            ))
        })?;
        let status = response.status();
        let body = response.collect(LARGEST).wait();
        let body = body.map_err(|why| says(format!("its answer is not complete: {why}")))?;
        match status {
            200 => lines(&String::from_utf8_lossy(&body)).map_err(says),
            401 | 403 => Err(says(format!(
                "reading needs a token; set the variable {TOKEN}"
            ))),
            status => Err(says(format!(
                "status {status}; is this the listener for operators?"
            ))),
        }
    }
}

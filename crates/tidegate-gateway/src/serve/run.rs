//! The command `run`: starts a gateway, and does what signals ask for.
//!
//! | signal | what happens |
//! |---|---|
//! | SIGHUP | the configuration is read again; if it has mistakes, the old one stays in force |
//! | SIGUSR1 | the file of the access log is opened again |
//! | SIGTERM, SIGINT | announces the end, stops accepting, finishes requests, exits with 0 |
//! | a second one | exits at once, with 1 |
//!
//! The thread that handles signals reads no file, so that none of them waits for a reload or a disk.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use tidegate::isolate::{Isolation, Properties};
use tidegate::net::NetGroup;
use tidegate::promise::{Completion, Outcome};
use tidegate::signal;
use tidegate::{Clock, ThreadBuilder};
use tidegate_core::Unhandled;
use tidegate_core::internal::contain;
use tidegate_loop::signal::Received;

use super::gateway::Summary;
use super::operation::Operation;
use super::parts::OperationParts;
use super::reloads::Reloads;
use crate::config::ConfigFile;
use crate::lines::{Lines, LinesEnd};
use crate::notify::Notifier;
use crate::reports::Reports;
use crate::resolver::Resolver;

/// How long the last reports may take.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// What the gateway waits for.
enum Event {
    Signal(Received),
    /// The gateway listens, or why it does not.
    Started(Result<Option<Box<Operation>>, String>),
    /// The files of the configuration have changed.
    Changed,
    /// A reload has ended, with this to say.
    Reloaded(String),
    /// The drain has ended.
    Drained(Option<Summary>),
}

/// How a gateway has ended.
enum Ended {
    /// It has drained.
    Drained(Option<Summary>),
    /// It was asked twice, or could not start.
    Failed,
}

impl Ended {
    /// Returns the status of the process, and its last line.
    fn into_status(self) -> (u8, String) {
        match self {
            Self::Drained(Some(summary)) => (0, format!("ended; {summary}\n")),
            Self::Drained(None) => (0, "ended\n".to_owned()),
            Self::Failed => (1, String::new()),
        }
    }
}

/// Runs a gateway until it is asked to end. Returns the status of the process. Nothing is printed after
/// the summary.
pub(crate) fn run(file: ConfigFile, out: &mut dyn Write) -> u8 {
    let Some(end) = report_lines() else {
        let (status, last) = run_until_end(file, out).into_status();
        let _ = out.write_all(last.as_bytes()).and_then(|()| out.flush());
        return status;
    };
    // A reader of standard error that has stopped must not delay signals.
    let (status, last) = run_until_end(file, &mut end.writer()).into_status();
    end.end(&last, LAST_WAIT);
    status
}

/// Writes reports to standard error from now on, unless the process has another subscriber.
fn report_lines() -> Option<LinesEnd> {
    let lines = Lines::start(std::io::stderr(), Arc::new(SystemTime::now));
    let (lines, end) = lines.ok()?;
    let is_first = tracing::subscriber::set_global_default(lines).is_ok();
    is_first.then_some(end)
}

fn run_until_end(file: ConfigFile, out: &mut dyn Write) -> Ended {
    // Before anything listens, so that no signal is lost.
    let (send, events) = channel();
    let signals = [
        signal::terminate(),
        signal::interrupt(),
        signal::hangup(),
        signal::user1(),
    ];
    for signal in signals {
        pass_on(signal, send.clone());
    }
    let parts = match parts() {
        Ok(parts) => parts,
        Err(why) => {
            say(out, &why.to_string());
            return Ended::Failed;
        }
    };
    let notifier = Arc::clone(&parts.notifier);
    let operation: Arc<Operation> = match start(file, parts, (&send, &events), out) {
        Ok(operation) => operation.into(),
        Err(ended) => return ended,
    };
    for (name, address) in operation.addresses() {
        say(out, &format!("{name} listens on {address}"));
    }
    let changed = send.clone();
    let watched = operation.watch(move || drop(changed.send(Event::Changed)));
    if let Err(why) = watched {
        say(
            out,
            &format!("reload.watch: the files are not watched: {why}"),
        );
    }
    let reloads = match reloads(&operation, &send) {
        Ok(reloads) => reloads,
        Err(why) => {
            say(out, &format!("there is no thread for reloads: {why}"));
            operation.cut();
            return Ended::Failed;
        }
    };
    notifier.ready();
    let ended = until_end(&operation, &reloads, &events, &send, out);
    match ended {
        Ended::Drained(_) => operation.close(),
        Ended::Failed => operation.cut(),
    }
    ended
}

/// Starts the gateway on a thread of its own: it reads files and finds addresses, which may take long, and
/// signals do not wait. A signal that comes when the listeners are being opened counts as one after the
/// start, because clients may be there.
///
/// # Errors
///
/// It could not start, or was asked to end before.
fn start(
    file: ConfigFile,
    parts: OperationParts,
    (send, events): (&Sender<Event>, &Receiver<Event>),
    out: &mut dyn Write,
) -> Result<Box<Operation>, Ended> {
    let started = send.clone();
    // Set by the first of two: the signal that ends the process before the start, and the start.
    let is_decided = Arc::new(AtomicBool::new(false));
    let opens = Arc::clone(&is_decided);
    let goes_on = move || !opens.swap(true, Ordering::Relaxed);
    let thread = ThreadBuilder::new("start").detached();
    let spawned = thread.spawn(move || {
        let operation =
            contain(|| Operation::start_if(file, parts, goes_on)).unwrap_or_else(|panic| {
                let why = panic.message();
                Err(format!("the start has failed, which is a defect: {why}"))
            });
        // Nobody receives it after the end.
        let _ = started.send(Event::Started(operation.map(|some| some.map(Box::new))));
    });
    if let Err(why) = spawned {
        say(out, &format!("there is no thread for the start: {why}"));
        return Err(Ended::Failed);
    }
    let (mut later, mut is_asked) = (Vec::new(), false);
    loop {
        match events.recv() {
            Ok(Event::Started(Ok(None))) => return Err(Ended::Drained(None)),
            Ok(Event::Started(Ok(Some(operation)))) => {
                // The files may have been read before the signal.
                later.into_iter().for_each(|event| drop(send.send(event)));
                return Ok(operation);
            }
            Ok(Event::Started(Err(why))) => {
                say(out, why.trim_end());
                // After a signal, there is nothing left to end.
                return Err(match is_asked {
                    true => Ended::Drained(None),
                    false => Ended::Failed,
                });
            }
            Ok(Event::Signal(received)) if matches!(received.name(), "SIGTERM" | "SIGINT") => {
                if !is_decided.swap(true, Ordering::Relaxed) {
                    say(out, &format!("{received}: ends before the start"));
                    return Err(Ended::Drained(None));
                }
                if std::mem::replace(&mut is_asked, true) {
                    say(out, &format!("{received} again: ends at once"));
                    cut_started(events);
                    return Err(Ended::Failed);
                }
                later.push(Event::Signal(received));
            }
            Ok(event) => later.push(event),
            Err(_) => return Err(Ended::Failed),
        }
    }
}

/// Cuts the requests of a gateway that is being opened. Nothing that may block is left of its start.
fn cut_started(events: &Receiver<Event>) {
    let started = std::iter::from_fn(|| events.recv_timeout(LAST_WAIT).ok());
    let operation = started.into_iter().find_map(|event| match event {
        Event::Started(started) => Some(started.ok().flatten()),
        _ => None,
    });
    if let Some(operation) = operation.flatten() {
        operation.cut();
    }
}

/// Returns what a gateway runs on: as many loops as the machine has processors, and one more for
/// operators.
fn parts() -> tidegate::Result<OperationParts> {
    let reports = Reports::new(Clock::system());
    let group = |name: &str, loops: usize| {
        let problems = Arc::clone(&reports.problems);
        let report = move |home: &str, why: &Unhandled<'_>| {
            let kind = match why {
                Unhandled::ChannelError { .. } => "connection",
                _ => "unhandled",
            };
            problems.report(kind, format!("{home}: {why}"));
        };
        NetGroup::builder(name)
            .loops(loops)
            .on_unhandled(report)
            .build()
    };
    let loops = thread::available_parallelism().map_or(1, usize::from);
    let properties = Properties::new();
    Ok(OperationParts {
        group: group("gateway", loops)?,
        own: group("operate", 1)?,
        isolation: reports
            .events
            .observe(
                Isolation::builder().properties(properties.clone()),
                &reports.wall,
            )
            .build()?,
        properties,
        reports,
        resolver: Resolver::system(),
        notifier: Arc::new(Notifier::new(std::env::var_os("NOTIFY_SOCKET").as_deref())),
    })
}

/// Starts the thread of reloads. It sends what each has to say, and has the operation only meanwhile.
fn reloads(operation: &Arc<Operation>, send: &Sender<Event>) -> std::io::Result<Reloads> {
    let (operation, send) = (Arc::downgrade(operation), send.clone());
    Reloads::start(move |origin| {
        if let Some(operation) = operation.upgrade() {
            let said = reload(&operation, origin);
            // Nobody receives it after the end.
            let _ = send.send(Event::Reloaded(said));
        }
    })
}

/// Does what signals ask for, until the end.
fn until_end(
    operation: &Operation,
    reloads: &Reloads,
    events: &Receiver<Event>,
    send: &Sender<Event>,
    out: &mut dyn Write,
) -> Ended {
    let mut draining = false;
    while let Ok(event) = events.recv() {
        match event {
            Event::Signal(received) if received.name() == "SIGHUP" => {
                ask(reloads, "SIGHUP", out);
            }
            Event::Signal(received) if received.name() == "SIGUSR1" => {
                operation.reopen_log();
                say(out, "the access log is opened again");
            }
            Event::Changed => ask(reloads, "file change", out),
            Event::Reloaded(said) => say(out, &said),
            Event::Signal(received) if draining => {
                say(out, &format!("{received} again: ends at once"));
                return Ended::Failed;
            }
            Event::Signal(received) => {
                draining = true;
                // Who reads the line can rely on it: `/ready` returns 503 before.
                let drained = operation.drain();
                say(
                    out,
                    &format!("{received}: announces the end, then finishes requests"),
                );
                let send = send.clone();
                drained.finally(move |outcome| {
                    let summary = match outcome {
                        Outcome::Success(summary) => Some(summary.clone()),
                        _ => None,
                    };
                    let _ = send.send(Event::Drained(summary));
                });
            }
            Event::Drained(summary) => return Ended::Drained(summary),
            // It has started before.
            Event::Started(_) => {}
        }
    }
    Ended::Drained(None)
}

/// Asks for a reload.
fn ask(reloads: &Reloads, origin: &'static str, out: &mut dyn Write) {
    if !reloads.ask(origin) {
        say(out, "not reloaded: a reload has failed before; restart");
    }
}

/// Reads the configuration again. Returns what to say about it.
fn reload(operation: &Operation, origin: &str) -> String {
    match operation.reload(origin) {
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
    // In one piece, so that it stays one among the reports.
    let _ = out
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| out.flush());
}

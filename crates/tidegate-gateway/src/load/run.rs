//! The command `bench`: connects, samples while the load runs, and writes the result.
//!
//! SIGINT and SIGTERM end the load early; the summary is of what was sent until then. A second one
//! does not wait for the responses that are missing.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tidegate::loops::Quiet;
use tidegate::net::{Client, NetGroup};
use tidegate::signal;

use super::arguments::BenchArguments;
use super::lane::{Lane, LaneSettings};
use super::plot::plot;
use super::ramp::{Ramp, Verdict};
use super::report::report;
use super::result::{RunResult, Sample};
use super::schedule::{Dispatch, Shape, nanos};
use super::summary::{progress, summary};
use super::tally::{Counts, Tally};
use super::target::Target;
use crate::screen::{Size, repaint};
use crate::signals;

/// The time between two samples, except in a ramp, where it is a stage.
const SAMPLE: Duration = Duration::from_millis(500);
/// What is shown when the user has ended the load.
const ENDING: &str = "ending: waits for the responses that are missing; Ctrl-C does not";
/// How long the loops may take to end.
const END: Duration = Duration::from_secs(1);

/// What the command waits for.
enum Event {
    /// All requests of a loop have ended.
    Done,
    /// The user wants to end.
    Stop,
}

/// The load that runs.
struct Load {
    group: NetGroup,
    lanes: Vec<Arc<Lane>>,
    start: u64,
    /// Until when requests are sent.
    until: u64,
    samples: Vec<Sample>,
    /// The end of the last sample.
    sampled: u64,
    ramp: Ramp,
    ended: Option<&'static str>,
}

/// Runs the command. Returns the status of the process: 0, or 1 if the server cannot be reached or
/// a file cannot be written, or 2 if an option is wrong.
pub(crate) fn bench(arguments: &BenchArguments, out: &mut dyn Write) -> u8 {
    let (text, failure) = match measured(arguments) {
        Err(failure) => (String::new(), Some(failure)),
        Ok(result) => match written(arguments, &result) {
            Err(why) => (summary(&result), Some((1, why))),
            Ok(true) => (report(&result), None),
            Ok(false) => (summary(&result), None),
        },
    };
    // A reader that left early, such as `head`, is not a failure.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    let Some((status, why)) = failure else {
        return 0;
    };
    // Scripts read standard output.
    let _ = writeln!(std::io::stderr(), "{why}");
    status
}

/// Writes the files. Returns `true` if the JSON is to be printed.
fn written(arguments: &BenchArguments, result: &RunResult) -> Result<bool, String> {
    let write = |path: &Path, text: String| {
        std::fs::write(path, text)
            .map_err(|why| format!("{}: cannot be written: {why}", path.display()))
    };
    if let Some(path) = &arguments.plot {
        write(path, plot(result))?;
    }
    match &arguments.json {
        Some(path) if path.as_os_str() == "-" => Ok(true),
        Some(path) => write(path, report(result)).map(|()| false),
        None => Ok(false),
    }
}

/// Runs the load. Returns the status and a sentence if it cannot run.
fn measured(arguments: &BenchArguments) -> Result<RunResult, (u8, String)> {
    let body = arguments.body.as_bytes();
    let target = Target::new(&arguments.url, &arguments.method, &arguments.headers, body);
    let target = target.map_err(|why| (2, why))?;
    let loops = arguments.threads.min(arguments.connections);
    let group = tidegate::net::pinned("bench", loops).map_err(|why| (1, why.to_string()))?;
    let address = reached(&group, &target).map_err(|why| (1, why))?;
    let (send, events) = channel();
    for signal in [signal::interrupt(), signal::terminate()] {
        let send = send.clone();
        signals::each(signal, move || send.send(Event::Stop).is_ok());
    }
    let mut load = Load::start(arguments, &target, address, &group, &send);
    let busy = load.busy();
    load.wait(arguments, &events);
    Ok(load.end(arguments, &busy))
}

/// Makes one connection, and returns the address of the server.
fn reached(group: &NetGroup, target: &Target) -> Result<SocketAddr, String> {
    let client = Client::builder(group).build();
    let at = (target.host.as_str(), target.port);
    let channel = client
        .connect(at)
        .wait()
        .map_err(|why| format!("cannot reach {}:{}: {why}", target.host, target.port))?;
    let address = channel.peer_addr();
    drop(channel.close());
    address.ok_or_else(|| "the connection ended at once".to_owned())
}

impl Load {
    fn start(
        arguments: &BenchArguments,
        target: &Target,
        address: SocketAddr,
        group: &NetGroup,
        send: &Sender<Event>,
    ) -> Self {
        let loops = group.loops();
        let count = loops.iter().count();
        let start = loops.next().clock().nanos();
        let end = start.saturating_add(nanos(arguments.duration));
        let lanes = loops.iter().enumerate().map(|(at, home)| {
            let dispatch = Dispatch::new(
                arguments.shape(),
                (at, count),
                start,
                end,
                arguments.timeout,
            );
            let settings = LaneSettings {
                targets: vec![target.clone()],
                address,
                connections: share(arguments.connections, at, count),
                timeout: arguments.timeout,
                within: arguments.within,
            };
            let send = send.clone();
            let done = move || drop(send.send(Event::Done));
            Lane::start(settings, dispatch, group, home, Box::new(done))
        });
        Self {
            lanes: lanes.collect(),
            group: group.clone(),
            start,
            until: end,
            samples: Vec::new(),
            sampled: start,
            ramp: Ramp::default(),
            ended: None,
        }
    }

    /// Samples until all requests have ended.
    fn wait(&mut self, arguments: &BenchArguments, events: &Receiver<Event>) {
        let shape = arguments.shape();
        let period = match shape {
            Shape::Ramp { stage, .. } => stage,
            _ => SAMPLE,
        };
        let mut shows = false;
        let (mut left, mut stopped) = (self.lanes.len(), false);
        while left > 0 {
            let next = self.sampled.saturating_add(nanos(period));
            let pause = Duration::from_nanos(next.saturating_sub(self.now()));
            match events.recv_timeout(pause) {
                Ok(Event::Done) => left -= 1,
                Ok(Event::Stop) if stopped => break,
                Ok(Event::Stop) => {
                    stopped = true;
                    self.stop();
                }
                Err(RecvTimeoutError::Timeout) => {
                    let sample = self.sample(shape);
                    if let Some(size) = Size::of_errors() {
                        shows = true;
                        let line = match stopped {
                            true => ENDING.to_owned(),
                            false => progress(&sample),
                        };
                        show(&repaint(&line, size));
                    }
                    self.judge(shape, &sample);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if self.now().saturating_sub(self.sampled) > nanos(period) / 2 {
            self.sample(shape);
        }
        if shows {
            show("\r\x1b[K");
        }
    }

    /// Takes a sample.
    fn sample(&mut self, shape: Shape) -> Sample {
        let mut recent = Counts::default();
        for lane in &self.lanes {
            lane.take_recent().iter().for_each(|one| recent.add(one));
        }
        let now = self.now();
        let seconds = (now.saturating_sub(self.sampled) as f64 / 1e9).max(1e-9);
        let planned = Duration::from_nanos(self.sampled - self.start);
        let sample = Sample {
            at: (now - self.start) as f64 / 1e9,
            rate: shape.rate_at(planned),
            requests: recent.requests as f64 / seconds,
            good: recent.good as f64 / seconds,
            p50: recent.response.value_at_percentile(50.0),
            p99: recent.response.value_at_percentile(99.0),
        };
        self.sampled = match shape {
            // Stages follow each other without a gap.
            Shape::Ramp { stage, .. } => self.sampled.saturating_add(nanos(stage)).min(now),
            _ => now,
        };
        self.samples.push(sample);
        sample
    }

    /// Ends a ramp that has gone too far.
    fn judge(&mut self, shape: Shape, sample: &Sample) {
        let (Shape::Ramp { .. }, Some(rate), None) = (shape, sample.rate, self.ended) else {
            return;
        };
        self.ended = match self.ramp.stage(rate, sample.good) {
            Verdict::Continue => return,
            Verdict::Falls => Some("then goodput fell"),
            Verdict::Flat => Some("then most requests had no good response"),
        };
        self.stop();
    }

    fn stop(&mut self) {
        self.until = self.until.min(self.now());
        self.lanes.iter().for_each(Lane::stop);
    }

    /// Ends the load and returns its result.
    fn end(self, arguments: &BenchArguments, busy: &[Duration]) -> RunResult {
        let until = self.until.min(self.now());
        let elapsed = Duration::from_nanos(until - self.start);
        let all = Duration::from_nanos(self.now() - self.start);
        let shares = self.busy().into_iter().zip(busy).map(|(after, before)| {
            after.saturating_sub(*before).as_secs_f64() / all.as_secs_f64().max(1e-9)
        });
        let busy = shares.fold(0.0, f64::max).min(1.0);
        let mut tally = Tally::new(arguments.within);
        for lane in &self.lanes {
            lane.close();
            lane.tallies().iter().for_each(|one| tally.add(one));
        }
        // What is left has no time any more.
        let _ = self.group.loops().shutdown(Quiet::none(END)).wait();
        RunResult {
            url: arguments.url.clone(),
            shape: arguments.shape(),
            connections: arguments.connections,
            loops: self.lanes.len(),
            elapsed,
            within: arguments.within,
            tally,
            samples: self.samples,
            busy,
            best: self.ramp.best(),
            ended: self.ended,
        }
    }

    /// Returns how long each loop was busy.
    fn busy(&self) -> Vec<Duration> {
        let loops = self.group.loops().iter();
        loops.map(|home| home.metrics().busy).collect()
    }

    fn now(&self) -> u64 {
        self.group.loops().next().clock().nanos()
    }
}

/// Shows progress. Nothing depends on a terminal that is gone.
fn show(text: &str) {
    let mut errors = std::io::stderr();
    let _ = errors
        .write_all(text.as_bytes())
        .and_then(|()| errors.flush());
}

/// Returns the share of loop `at` of `count`.
fn share(connections: usize, at: usize, count: usize) -> usize {
    connections / count + usize::from(at < connections % count)
}

//! A run of a load generator: `tidegate bench`, which is this program again, or wrk. Both have one
//! thread, on the second CPU.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::child;
use crate::cpus::{pin, unpin};
use crate::machine::waited_time;

/// The connections of a run, and the rate; without one it is a closed loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) connections: usize,
    pub(super) rate: Option<u32>,
    pub(super) seconds: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) requests: f64,
    pub(super) per_second: f64,
}

/// A load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generator {
    Ours,
    Wrk,
}

impl Generator {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "tidegate bench",
            Self::Wrk => "wrk",
        }
    }

    /// Returns `true` if wrk is installed.
    pub(super) fn has_wrk() -> bool {
        let mut wrk = Command::new("wrk");
        let wrk = wrk.arg("-v").stdout(Stdio::null()).stderr(Stdio::null());
        wrk.status().is_ok()
    }

    /// Runs the generator. Returns what it found, and its CPU time in nanoseconds.
    pub(super) fn run(self, address: SocketAddr, shape: Shape) -> Result<(Found, f64), String> {
        let url = format!("http://{address}/");
        let before = waited_time();
        let found = self.start_at(&url, shape)?.wait()?;
        let cpu = waited_time().saturating_sub(before);
        Ok((found, cpu.as_nanos() as f64))
    }

    /// Starts the generator.
    pub(super) fn start_at(self, url: &str, shape: Shape) -> Result<Running, String> {
        let mut command = self.command(url, shape)?;
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        pin(1);
        let child = command.stderr(Stdio::inherit()).spawn();
        unpin();
        let child = child.map_err(|why| format!("{}: {why}", self.name()))?;
        Ok(Running {
            generator: self,
            child,
        })
    }

    fn command(self, url: &str, shape: Shape) -> Result<Command, String> {
        let Shape {
            connections,
            rate,
            seconds,
        } = shape;
        match (self, rate) {
            (Self::Ours, rate) => {
                let rate = rate.map_or(String::new(), |rate| format!(" --rate {rate}"));
                let words = format!("bench {url} -c {connections} -d {seconds}s --json -{rate}");
                let mut command = child::command()?;
                command.args(["--tidegate", &words]);
                Ok(command)
            }
            (Self::Wrk, None) => {
                let mut command = Command::new("wrk");
                command.arg("-t1");
                command.arg(format!("-c{connections}"));
                command.arg(format!("-d{seconds}s")).arg(url);
                Ok(command)
            }
            (Self::Wrk, Some(_)) => Err("wrk has no rate".to_owned()),
        }
    }
}

/// A generator that runs. It ends by itself after its time.
pub(super) struct Running {
    generator: Generator,
    child: Child,
}

impl Running {
    /// Returns the id of the process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it early. Returns what it found until then. Fails if it has ended before.
    pub(super) fn stop(mut self) -> Result<Found, String> {
        if self
            .child
            .try_wait()
            .map_err(|why| why.to_string())?
            .is_some()
        {
            return Err("the load has ended too early".to_owned());
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::INT).map_err(|why| why.to_string())?;
        }
        self.wait()
    }

    /// Waits for its end. Returns what it found.
    fn wait(self) -> Result<Found, String> {
        let name = self.generator.name();
        let output = self.child.wait_with_output();
        let output = output.map_err(|why| format!("{name}: {why}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let found = match self.generator {
            Generator::Ours => ours(&text),
            Generator::Wrk => wrk(&text),
        };
        found.ok_or_else(|| format!("{name} printed {text:?}"))
    }
}

/// Reads the JSON of ours.
fn ours(text: &str) -> Option<Found> {
    let number = |name: &str| {
        let (_, rest) = text.split_once(&format!("\"{name}\":"))?;
        rest.split([',', '}']).next()?.parse().ok()
    };
    Some(Found {
        requests: number("requests")?,
        per_second: number("requests_per_second")?,
    })
}

/// Reads the summary of wrk.
fn wrk(text: &str) -> Option<Found> {
    let rate = |line: &str| {
        line.trim()
            .strip_prefix("Requests/sec:")?
            .trim()
            .parse()
            .ok()
    };
    let requests = text.lines().find(|line| line.contains(" requests in "))?;
    Some(Found {
        requests: requests.split_whitespace().next()?.parse().ok()?,
        per_second: text.lines().find_map(rate)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_summaries_are_read() {
        let text = "Running 2s test @ http://127.0.0.1:1/\n  1 threads and 64 connections\n  \
            Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
            Latency     1.20ms  300.00us  9.00ms   91.00%\n    \
            Req/Sec    52.10k     1.20k   53.00k    90.00%\n  \
            Latency Distribution\n     50%  950.00us\n     75%    1.30ms\n     90%    1.50ms\n     \
            99%    2.10ms\n  104300 requests in 2.00s, 14.00MB read\nRequests/sec:  52123.40\n";
        let found = wrk(text).unwrap();
        assert_eq!((found.requests, found.per_second), (104_300.0, 52_123.4));
        let text = "{\"version\":1,\"requests\":200,\"requests_per_second\":99.5,\"good\":1,\
            \"response_ms\":{\"count\":200,\"mean\":1.5,\"p50\":1.25,\"p99\":7},\
            \"service_ms\":{\"p50\":1,\"p99\":2}}\n";
        let found = ours(text).unwrap();
        assert_eq!((found.requests, found.per_second), (200.0, 99.5));
        assert_eq!((wrk(""), ours("")), (None, None));
    }
}

//! The clients. Each runs in a process of its own: this program again, with the hidden option
//! `--call CLIENT,ADDRESS`.
//!
//! The process connects, prints `ready`, and makes as many requests as each line that it reads says.
//! Its reply is their number, the time in nanoseconds, and its CPU time in nanoseconds.
//!
//! | file | contents |
//! |---|---|
//! | `ours` | calls, and exchanges |
//! | `peers` | hyper with the pool of hyper-util, on tokio |
//! | `raw` | the lower bound: a bare epoll loop with httparse |

mod ours;
mod peers;
mod raw;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::CONNECTIONS;
use crate::child::ChildProcess;
use crate::cpus::pin;
use crate::machine::{count_in, count_out, cpu_time};

/// Makes so many requests on each connection, and returns when all responses have come.
type Caller = Box<dyn FnMut(u64)>;

fn start(name: &str, to: SocketAddr) -> Option<Caller> {
    Some(match name {
        "ours" => ours::calls(to),
        "ours-exchange" => ours::exchanges(to),
        "hyper" => peers::hyper(to),
        "raw" => raw::start(to),
        _ => return None,
    })
}

/// Runs as the child.
pub(crate) fn child(what: &str) -> ExitCode {
    pin(1);
    let parsed = what.split_once(',');
    let parsed = parsed.and_then(|(name, to)| Some((name, to.parse().ok()?)));
    let Some(mut caller) = parsed.and_then(|(name, to)| start(name, to)) else {
        eprintln!("{what:?} is not CLIENT,ADDRESS");
        return ExitCode::from(2);
    };
    // Makes the connections.
    caller(1);
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap_or_default();
        let counted = line.strip_prefix("count ");
        let Ok(requests) = counted.unwrap_or(&line).parse::<u64>() else {
            return ExitCode::from(2);
        };
        let each = requests.div_ceil(CONNECTIONS);
        if counted.is_some() {
            // Under callgrind, which has no CPU time to read.
            caller(each);
            continue;
        }
        let (began, cpu) = (Instant::now(), cpu_time());
        caller(each);
        let (elapsed, cpu) = (began.elapsed(), cpu_time() - cpu);
        println!(
            "{} {} {}",
            each * CONNECTIONS,
            elapsed.as_nanos(),
            cpu.as_nanos()
        );
    }
    // Clients have no end of their own: exit without waiting for their threads.
    std::process::exit(0)
}

/// The result of a run.
pub(super) struct Run {
    pub(super) requests: u64,
    pub(super) elapsed: Duration,
    pub(super) cpu: Duration,
}

/// A client in a child process, which ends when this is dropped.
pub(super) struct CallerProcess {
    child: ChildProcess,
}

impl CallerProcess {
    pub(super) fn start(name: &str, to: SocketAddr) -> Result<Self, String> {
        let mut child = ChildProcess::start(&["--call", &format!("{name},{to}")])?;
        count_in(child.id());
        match child.read_line()?.as_str() {
            "ready" => Ok(Self { child }),
            other => Err(format!("{other:?} instead of `ready`")),
        }
    }

    pub(super) fn run(&mut self, requests: u64) -> Result<Run, String> {
        self.child.send_line(&requests.to_string())?;
        let line = self.child.read_line()?;
        let numbers: Vec<u64> = line.split(' ').flat_map(str::parse).collect();
        let [requests, elapsed, cpu] = numbers[..] else {
            return Err(format!("{line:?} is not a result"));
        };
        Ok(Run {
            requests,
            elapsed: Duration::from_nanos(elapsed),
            cpu: Duration::from_nanos(cpu),
        })
    }
}

impl Drop for CallerProcess {
    fn drop(&mut self) {
        count_out(self.child.id());
    }
}

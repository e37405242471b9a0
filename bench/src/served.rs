//! A server in a process of its own: this program again, with the hidden option `--serve SERVER`.
//!
//! It prints its address, and replies to each line that it reads with a number: to `cpu` with its
//! CPU time in nanoseconds, to `calls` with the system calls that our reactors counted, to `drain`
//! with the nanoseconds that its drain took, and to any other line with its resident memory in KiB. It
//! ends with its input.
//!
//! The same child allows a tool to observe a server alone. The following compares the reactor's
//! counters with those of the kernel:
//!
//! ```text
//! strace -f -c -o calls.txt tidegate-bench --serve ours
//! tidegate-bench --idle "load 127.0.0.1:PORT 50 200000"
//! ```

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidegate_http::HttpServer;
use tidegate_loop::Roaming;
use tidegate_net::NetGroup;

use crate::child::ChildProcess;
use crate::machine::{count_in, count_out, cpu_time};

/// The number of descriptors that a process of this program may need.
const DESCRIPTORS: u64 = 51_000;
/// When a drain cuts the connections that are still open.
const DRAIN_DEADLINE: Duration = Duration::from_secs(60);

/// A running server. It runs until the process ends.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    ours: Option<Ours>,
    /// The server that can be drained.
    http: Option<HttpServer>,
}

/// Our event loops, which keep a server alive.
pub(crate) enum Ours {
    Pinned(NetGroup),
    Roaming(NetGroup<Roaming>),
}

impl Running {
    pub(crate) fn peer(address: SocketAddr) -> Self {
        Self {
            address,
            ours: None,
            http: None,
        }
    }

    pub(crate) fn ours(address: SocketAddr, group: Ours) -> Self {
        Self {
            address,
            ours: Some(group),
            http: None,
        }
    }

    /// A server of ours for HTTP, which can be drained.
    pub(crate) fn http(server: HttpServer, group: Ours) -> Self {
        Self {
            address: server.local_addr(),
            ours: Some(group),
            http: Some(server),
        }
    }

    /// Drains the server, and returns how long that took until the last connection was closed, in
    /// nanoseconds.
    fn drain(&self) -> Option<u64> {
        let server = self.http.as_ref()?;
        let began = Instant::now();
        let report = server.drain(DRAIN_DEADLINE).wait().ok()?;
        let took = began.elapsed();
        let closed = report.closed_at_deadline.is_empty() && report.still_running == 0;
        closed.then(|| u64::try_from(took.as_nanos()).ok())?
    }

    /// Returns the number of system calls so far, if the server is ours.
    pub(crate) fn calls(&self) -> Option<u64> {
        let all = match self.ours.as_ref()? {
            Ours::Pinned(group) => group.io_metrics(),
            Ours::Roaming(group) => group.io_metrics(),
        };
        Some(all.iter().map(|io| io.polls + io.reads + io.writes).sum())
    }
}

/// Runs as the child: serves, and replies to each line with a number.
pub(crate) fn child(name: &str, start: impl FnOnce(&str) -> Option<Running>) -> ExitCode {
    raise_limit();
    let Some(running) = start(name) else {
        eprintln!("there is no server {name:?}");
        return ExitCode::from(2);
    };
    println!("{}", running.address);
    for line in std::io::stdin().lines() {
        let number = match line.as_deref().unwrap_or_default() {
            "cpu" => u64::try_from(cpu_time().as_nanos()).ok(),
            "calls" => running.calls(),
            "drain" => running.drain(),
            _ => resident_of("self"),
        };
        match number {
            Some(number) => println!("{number}"),
            None => return ExitCode::FAILURE,
        }
    }
    // Servers have no end of their own: exit without waiting for their threads.
    std::process::exit(0)
}

/// A server in a child process, which ends when this is dropped.
pub(crate) struct ServerProcess {
    child: ChildProcess,
    pub(crate) address: SocketAddr,
}

impl ServerProcess {
    pub(crate) fn start(name: &str) -> Result<Self, String> {
        let mut child = ChildProcess::start(&["--serve", name])?;
        let address = child.read_line()?;
        let address = address
            .parse()
            .map_err(|_| format!("{address:?} is no address"))?;
        count_in(child.id());
        Ok(Self { child, address })
    }

    /// Returns the CPU time of the process.
    pub(crate) fn cpu(&mut self) -> Result<Duration, String> {
        self.ask("cpu").map(Duration::from_nanos)
    }

    /// Returns the resident memory of the process, in KiB.
    pub(crate) fn resident(&mut self) -> Result<u64, String> {
        self.ask("memory")
    }

    /// Drains the server, and returns how long that took.
    pub(crate) fn drain(&mut self) -> Result<Duration, String> {
        self.ask("drain").map(Duration::from_nanos)
    }

    fn ask(&mut self, what: &str) -> Result<u64, String> {
        self.child.send_line(what)?;
        let number = self.child.read_line()?;
        number
            .parse()
            .map_err(|_| format!("{number:?} is no number"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        count_out(self.child.id());
    }
}

/// Raises the limit on descriptors as far as allowed and returns it.
pub(crate) fn raise_limit() -> usize {
    let now = getrlimit(Resource::Nofile);
    let higher = |current, maximum| Rlimit {
        current: Some(current),
        maximum: Some(maximum),
    };
    let maximum = now.maximum.unwrap_or(u64::MAX);
    // Tries to raise the hard limit too; if that is not permitted, goes up to the hard limit.
    let raised = setrlimit(
        Resource::Nofile,
        higher(DESCRIPTORS, maximum.max(DESCRIPTORS)),
    );
    if raised.is_err() {
        let _ = setrlimit(Resource::Nofile, higher(maximum.min(DESCRIPTORS), maximum));
    }
    let current = getrlimit(Resource::Nofile).current;
    usize::try_from(current.unwrap_or(DESCRIPTORS)).unwrap_or(usize::MAX)
}

/// Returns the resident memory of a process in KiB, counted page by page.
pub(crate) fn resident_of(process: &str) -> Option<u64> {
    kib(&rollup(process)?, "Rss:")
}

/// Returns the resident memory that no other process has, in KiB.
pub(crate) fn private_of(process: &str) -> Option<u64> {
    let rollup = rollup(process)?;
    let parts = ["Private_Clean:", "Private_Dirty:"].map(|name| kib(&rollup, name));
    parts.into_iter().sum()
}

fn rollup(process: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()
}

fn kib(rollup: &str, name: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::kib;

    #[test]
    fn the_resident_line_is_found_and_nothing_else() {
        let text =
            "5566-7788 ---p 00000000 00:00 0 [rollup]\nRss:                1844 kB\nPss:  540 kB\n";
        assert_eq!(kib(text, "Rss:"), Some(1844));
        assert_eq!(kib("Pss: 1 kB\n", "Rss:"), None);
    }
}

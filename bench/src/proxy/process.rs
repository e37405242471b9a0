//! A proxy in processes of its own, and what the kernel says about them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::child;
use crate::cpus::{pin, unpin};
use crate::machine::{count_in, count_out};
use crate::served::{private_of, resident_of};

/// How long a proxy may take to listen, or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running proxy, which ends when this is dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The process and its children.
    ids: Vec<u32>,
}

impl Process {
    /// Starts this program as a proxy, on the first CPU.
    pub(super) fn own(server: &str) -> Result<Self, String> {
        let mut command = child::command()?;
        command.args(["--serve", server]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = start(&mut command)?;
        let output = child.stdout.as_mut().expect("it is piped");
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        let address = read.ok().and_then(|_| line.trim().parse().ok());
        match address {
            Some(address) => Ok(Self::with(child, address)),
            None => {
                end(&mut child);
                Err(format!("it printed {line:?} and no address"))
            }
        }
    }

    /// Starts another program, which will listen on `address`, on the first CPU.
    pub(crate) fn peer(command: &mut Command, address: SocketAddr) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = start(command.stderr(Stdio::null()))?;
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = child.try_wait().ok().flatten();
            if ended.is_some() || began.elapsed() > PATIENCE {
                end(&mut child);
                return Err("it does not listen".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self::with(child, address))
    }

    fn with(child: Child, address: SocketAddr) -> Self {
        let mut ids = vec![child.id()];
        for task in tasks(child.id()) {
            let text = fs::read_to_string(format!("{task}/children")).unwrap_or_default();
            ids.extend(
                text.split_whitespace()
                    .filter_map(|id| id.parse::<u32>().ok()),
            );
        }
        ids.iter().copied().for_each(count_in);
        Self {
            child,
            address,
            ids,
        }
    }

    /// Returns the CPU time of its threads.
    pub(crate) fn cpu(&self) -> Duration {
        let tasks = self.ids.iter().flat_map(|id| tasks(*id));
        let read = |task: String| {
            let text = fs::read_to_string(format!("{task}/schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        };
        Duration::from_nanos(tasks.filter_map(read).sum())
    }

    /// Returns the resident memory of its processes, in KiB.
    pub(super) fn resident(&self) -> u64 {
        let resident = |id: &u32| resident_of(&id.to_string()).unwrap_or(0);
        self.ids.iter().map(resident).sum()
    }

    /// Returns the resident memory if what its processes share counts once, in KiB: what each has alone,
    /// and the largest part that is shared.
    pub(super) fn resident_once(&self) -> u64 {
        let sizes = self.ids.iter().map(|id| {
            let id = id.to_string();
            let private = private_of(&id).unwrap_or(0);
            (private, resident_of(&id).unwrap_or(private) - private)
        });
        let (private, shared): (Vec<_>, Vec<_>) = sizes.unzip();
        private.iter().sum::<u64>() + shared.into_iter().max().unwrap_or(0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.ids.iter().copied().for_each(count_out);
        end(&mut self.child);
    }
}

/// Returns an address that is free at the moment.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound")
}

fn start(command: &mut Command) -> Result<Child, String> {
    pin(0);
    let child = command.spawn();
    unpin();
    child.map_err(|why| format!("cannot start it: {why}"))
}

/// Asks a process to end, so that it ends its own children. Ends it if it does not.
fn end(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the folders of a process's threads.
fn tasks(id: u32) -> Vec<String> {
    let all = fs::read_dir(format!("/proc/{id}/task"));
    let all = all.into_iter().flatten().flatten();
    all.map(|task| task.path().to_string_lossy().into_owned())
        .collect()
}

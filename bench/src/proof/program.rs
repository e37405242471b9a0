//! The gateway in a process of its own: this program again, with the hidden option `--gateway FILE`,
//! which then behaves like `tidegate run FILE`.

use std::io::{BufRead as _, BufReader, Lines};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use tidegate_gateway::cli::{self, Machine};

use crate::child;
use crate::served::resident_of;

/// Runs as the child, from `DESCRIPTORS FILE`.
pub(crate) fn child(what: &str) -> ExitCode {
    let Some((descriptors, file)) = what.split_once(' ') else {
        return ExitCode::from(2);
    };
    let Ok(descriptors) = descriptors.parse() else {
        return ExitCode::from(2);
    };
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: Some(descriptors),
        maximum,
    };
    if setrlimit(Resource::Nofile, limit).is_err() {
        return ExitCode::from(2);
    }
    run(["tidegate", "run", file])
}

/// Runs a command of `tidegate` as the child.
pub(crate) fn tidegate(words: &str) -> ExitCode {
    run(["tidegate"].into_iter().chain(words.split_whitespace()))
}

fn run<'a>(words: impl IntoIterator<Item = &'a str>) -> ExitCode {
    cli::run(words, &Machine::real(), &mut std::io::stdout())
}

/// A running gateway and its file.
pub(super) struct Program {
    child: Child,
    output: Lines<BufReader<ChildStderr>>,
    file: PathBuf,
    /// The access log, which has no successes.
    log: PathBuf,
    pub(super) address: SocketAddr,
}

impl Program {
    /// Starts a gateway with these sections behind those of its only listener, and with at most this
    /// many descriptors.
    pub(super) fn start(name: &str, sections: &str, descriptors: u64) -> Result<Self, String> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|why| why.to_string())?;
        let address = listener.local_addr().map_err(|why| why.to_string())?;
        drop(listener);
        let file = format!("tidegate-proof-{name}-{}.toml", std::process::id());
        let file = std::env::temp_dir().join(file);
        let log = file.with_extension("log");
        let text = Self::text(address, &log, sections);
        std::fs::write(&file, text).map_err(|why| why.to_string())?;
        let mut command = child::command()?;
        command.arg("--gateway");
        command.arg(format!("{descriptors} {}", file.display()));
        let command = command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|why| why.to_string())?;
        let output = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let mut program = Self {
            child,
            output,
            file,
            log,
            address,
        };
        program.wait_for("http listens on ")?;
        Ok(program)
    }

    fn text(address: SocketAddr, log: &Path, sections: &str) -> String {
        format!(
            "[listen.http]\nat = \"{address}\"\n[log]\nfile = {log:?}\nsuccess = 0\n\
             [reload]\nwatch = false\n{sections}"
        )
    }

    /// Returns the lines of the access log: all requests that were no success.
    pub(super) fn logged(&self) -> Result<Vec<String>, String> {
        let text = std::fs::read_to_string(&self.log).map_err(|why| why.to_string())?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Replaces the sections, and lets the gateway read them.
    pub(super) fn reload(&mut self, sections: &str) -> Result<(), String> {
        let text = Self::text(self.address, &self.log, sections);
        std::fs::write(&self.file, text).map_err(|why| why.to_string())?;
        self.signal(Signal::HUP)?;
        self.wait_for("reloaded")
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("the gateway has no id")?;
        kill_process(pid, signal).map_err(|why| why.to_string())
    }

    /// Returns the resident memory, in KiB.
    pub(super) fn resident(&self) -> u64 {
        resident_of(&self.child.id().to_string()).unwrap_or(0)
    }

    /// Waits for the end of the process.
    pub(super) fn wait(&mut self, patience: Duration) -> Result<ExitStatus, String> {
        let began = Instant::now();
        while began.elapsed() < patience {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                Err(why) => return Err(why.to_string()),
            }
        }
        Err(format!("it did not end within {} s", patience.as_secs()))
    }

    /// Reads lines until one begins so.
    pub(super) fn wait_for(&mut self, start: &str) -> Result<(), String> {
        let mut said = String::new();
        for line in &mut self.output {
            let line = line.map_err(|why| why.to_string())?;
            if line.starts_with(start) {
                return Ok(());
            }
            said = format!("{said}{line}\n");
            if line.contains("not reloaded") {
                break;
            }
        }
        Err(format!("the gateway said {said:?}, not {start:?}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
        let _ = std::fs::remove_file(&self.log);
    }
}

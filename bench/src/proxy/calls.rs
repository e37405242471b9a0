//! System calls per request, counted by `strace`, which is attached to a proxy that is under load
//! already. A proxy is slower under it and finds larger batches.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::process::Process;
use crate::http::total_calls;
use crate::load::Load;

/// Counts the system calls per request of a proxy, over so many requests.
pub(super) fn count(process: &Process, load: &mut Load, requests: u64) -> Result<f64, String> {
    let mut command = Command::new("strace");
    command.args(["-f", "-c"]);
    for id in process.ids() {
        command.args(["-p", &id.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let strace = command.stderr(Stdio::piped()).spawn();
    let mut strace = strace.map_err(|why| format!("strace: {why}"))?;
    let counted = attached(&mut strace, process.ids().len(), (load, requests));
    // It has ended, unless something failed.
    let _ = strace.kill();
    let _ = strace.wait();
    counted
}

/// Runs the load once strace has attached itself. Returns the number of calls per request.
fn attached(
    strace: &mut Child,
    processes: usize,
    (load, requests): (&mut Load, u64),
) -> Result<f64, String> {
    let output = strace.stderr.take().expect("it is piped");
    let mut output = BufReader::new(output);
    for _ in 0..processes {
        let mut line = String::new();
        let read = output.read_line(&mut line);
        read.map_err(|why| why.to_string())?;
        if !line.contains("attached") {
            return Err(line.trim().to_owned());
        }
    }
    let served = load.run(requests).messages;
    let pid = i32::try_from(strace.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or("strace has no id")?;
    kill_process(pid, Signal::INT).map_err(|why| why.to_string())?;
    let mut summary = String::new();
    let read = output.read_to_string(&mut summary);
    read.map_err(|why| why.to_string())?;
    let total = total_calls(&summary).ok_or("strace printed no total")?;
    Ok(total as f64 / served as f64)
}

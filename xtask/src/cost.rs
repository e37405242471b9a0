//! `cargo xtask cost`: instructions per task and per promise, counted by callgrind. `cargo xtask
//! cost echo`: instructions per message of an echo server. `cargo xtask cost http`: instructions
//! per request of an HTTP server. `cargo xtask cost proxy`: instructions per request that the gateway
//! passes on. `cargo xtask cost isolate`: instructions per guarded call.
//!
//! Instruction counts do not depend on the load of the machine. Each kind runs twice with different
//! amounts, so that the fixed cost of the program cancels out in the difference.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench;
use crate::root;
use crate::step::{self, Outcome};

/// The kinds that `examples/cost.rs` of the loop crate supports, with descriptions.
const KINDS: [(&str, &str); 5] = [
    ("execute", "empty task"),
    ("execute-timed", "empty task, with `time_tasks`"),
    ("execute-named", "empty task with a name of its own"),
    ("submit", "empty task with a completion"),
    ("promise", "promise with one listener"),
];
/// The kinds that `examples/call_cost.rs` of the isolate crate knows, and what they are.
const CALLS: [(&str, &str); 3] = [
    ("run", "`run`, with permits"),
    ("run-async", "`run_async`, of a future that is ready"),
    ("admit", "`admit`, a verdict, and the end of the entry"),
];
/// The amounts in the two runs.
const FEW: u64 = 100_000;
const MANY: u64 = 1_100_000;

/// The servers of the suite `echo`, with descriptions.
const SERVERS: [(&str, &str); 7] = [
    ("ours", "ours, 1 handler"),
    ("ours-5", "ours, 1 handler and 5 that pass on"),
    ("ours-roaming", "ours, 1 handler, on a roaming loop"),
    ("raw", "raw epoll loop"),
    ("mio", "mio loop"),
    ("tokio", "tokio, current_thread"),
    ("smol", "smol"),
];
/// The servers of the suite `http`, with descriptions.
const HTTP_SERVERS: [(&str, &str); 4] = [
    ("http-ours", "ours"),
    ("http-raw", "raw epoll loop with httparse"),
    ("http-may", "may_minihttp"),
    ("http-hyper", "hyper on tokio, current_thread"),
];
/// The set-ups of the gateway, with descriptions.
const PROXIES: [(&str, &str); 2] = [
    ("proxy-counted-guarded", "with limit, breaker and timeout"),
    ("proxy-counted-bare", "with a limit only"),
];
/// The numbers of connections to the gateway.
const CLIENTS: [u64; 2] = [8, 64];

/// Messages per connection in the two runs, and the number of connections.
const FEW_ROUNDS: u64 = 100;
const MANY_ROUNDS: u64 = 500;
const CONNECTIONS: u64 = 50;

/// Counts `what` and prints a table: `tasks`, `isolate`, `echo`, `http` or `proxy`. Skips where there
/// is no valgrind.
///
/// # Errors
///
/// Returns an error if there is no such count, or if the program does not build or run.
pub fn run(root: &Path, what: &str) -> step::Result {
    if !step::works(Command::new("valgrind").arg("--version")) {
        return Ok(Outcome::Skipped("no valgrind".to_string()));
    }
    match what {
        "tasks" => example(root, ("tidegate-loop", "cost"), &KINDS),
        "isolate" => example(root, ("tidegate-isolate", "call_cost"), &CALLS),
        "echo" => servers(
            root,
            "| server | instructions |\n|---|---|",
            &SERVERS,
            &[("", 1)],
        ),
        "http" => servers(
            root,
            "| server | 1 request per read | 16 requests per read |\n|---|---|---|",
            &HTTP_SERVERS,
            &[(",1", 1), (",16", 16)],
        ),
        "proxy" => proxy(root),
        _ => Err(format!("`cargo xtask cost` counts no `{what}`")),
    }
}

/// Prints all tables.
///
/// # Errors
///
/// As for [`run`].
pub fn all(root: &Path) -> step::Result {
    for what in ["tasks", "isolate", "echo", "http"] {
        run(root, what)?;
    }
    run(root, "proxy")
}

/// Counts the kinds of things that an example of a package does.
fn example(root: &Path, (package, name): (&str, &str), kinds: &[(&str, &str)]) -> step::Result {
    // As programs have it: with `tracing`, and without a subscriber.
    let program = build(root, &[package, "--example", name, "--features", "tracing"])?;
    let program = program.join("examples").join(name);
    println!("| what | instructions |\n|---|---|");
    for (kind, what) in kinds {
        let count = |amount: u64| count(&program, &[kind, &amount.to_string()]);
        let difference = count(MANY)? - count(FEW)?;
        let each = difference as f64 / (MANY - FEW) as f64;
        println!("| {what} | {each:.1} |");
    }
    Ok(Outcome::Passed)
}

/// Counts the instructions per message, or per request, of each server. A column has what follows the
/// rounds, and the number of requests in a message.
fn servers(
    root: &Path,
    heading: &str,
    servers: &[(&str, &str)],
    columns: &[(&str, u64)],
) -> step::Result {
    let program = bench::build(root)?;
    println!("{heading}");
    for (server, what) in servers {
        let mut row = format!("| {what} |");
        for (depth, requests) in columns {
            let each = per_message(&program, |rounds| format!("{server},{rounds}{depth}"))?;
            row += &format!(" {:.0} |", each / *requests as f64);
        }
        println!("{row}");
    }
    Ok(Outcome::Passed)
}

/// Counts the instructions per request that the gateway passes on to an upstream in another process.
fn proxy(root: &Path) -> step::Result {
    let program = bench::build(root)?;
    println!("| gateway | 8 connections | 64 connections |\n|---|---|---|");
    for (server, what) in PROXIES {
        let mut row = format!("| {what} |");
        for clients in CLIENTS {
            let each = per_message(&program, |rounds| format!("{server},{rounds},1,{clients}"))?;
            // `per_message` divides by the usual number of connections.
            let each = each * CONNECTIONS as f64 / clients as f64;
            row += &format!(" {each:.0} |");
        }
        println!("{row}");
    }
    Ok(Outcome::Passed)
}

/// Returns the instructions per message of a server; `run` names it and a number of rounds.
fn per_message(program: &Path, run: impl Fn(u64) -> String) -> Result<f64, String> {
    let count = |rounds: u64| count(program, &["--cost", &run(rounds)]);
    let difference = count(MANY_ROUNDS)?.saturating_sub(count(FEW_ROUNDS)?);
    Ok(difference as f64 / ((MANY_ROUNDS - FEW_ROUNDS) * CONNECTIONS) as f64)
}

/// Builds `what` in release mode and returns the output folder.
fn build(root: &Path, what: &[&str]) -> Result<PathBuf, String> {
    // The default target folder, because the compiler flags are the default ones.
    let target = root::target_dir(root, "");
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["build", "--release", "--quiet", "--package"])
        .args(what)
        .env("CARGO_TARGET_DIR", &target);
    step::run(&mut command)?;
    Ok(target.join("release"))
}

/// Returns the number of instructions of one run.
fn count(program: &Path, arguments: &[&str]) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments);
    let ran = command.output().map_err(|e| format!("valgrind: {e}"))?;
    let output = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        let arguments = arguments.join(" ");
        return Err(format!("{}: valgrind {arguments}\n{output}", ran.status));
    }
    collected(&output).ok_or_else(|| format!("callgrind printed no count:\n{output}"))
}

/// Returns the number in callgrind's line `==1== Collected : 123`.
fn collected(output: &str) -> Option<u64> {
    let line = output.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_what_callgrind_says() {
        let output = "==7== Events    : Ir\n==7== Collected : 12345678\n==7== \n";
        assert_eq!(collected(output), Some(12_345_678));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }
}

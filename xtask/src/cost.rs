//! `cargo xtask cost`: instructions per task and per promise, counted by callgrind. `cargo xtask
//! cost echo`: instructions per message of an echo server. `cargo xtask cost http`: instructions
//! per request of an HTTP server. `cargo xtask cost client`: of an HTTP client. `cargo xtask cost proxy`:
//! instructions per request that the gateway passes on. `cargo xtask cost isolate`: instructions per
//! guarded call. What serves or calls over a network also has its locked operations counted.
//!
//! Instruction counts do not depend on the load of the machine. Each kind runs twice with different
//! amounts, so that the fixed cost of the program cancels out in the difference.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
/// The clients of the suite `client`, with descriptions, and how many connections they have.
const CALLERS: [(&str, &str); 4] = [
    ("ours", "ours, calls"),
    ("ours-exchange", "ours, exchanges"),
    ("raw", "raw epoll loop with httparse"),
    ("hyper", "hyper with the pool of hyper-util, on tokio"),
];
const CALLERS_CONNECTIONS: u64 = 64;
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

/// Counts `what` and prints a table: `tasks`, `isolate`, `echo`, `http`, `client` or `proxy`. Skips
/// where there is no valgrind.
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
            "| server | instructions | locked |\n|---|---|---|",
            &SERVERS,
            &[("", 1)],
        ),
        "http" => servers(
            root,
            "| server | 1 request per read | locked | 16 requests per read | locked |\n|---|---|---|---|---|",
            &HTTP_SERVERS,
            &[(",1", 1), (",16", 16)],
        ),
        "client" => client(root),
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
    for what in ["tasks", "isolate", "echo", "http", "client"] {
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
        let count = |amount: u64| count(&program, &[kind, &amount.to_string()], "");
        let each = count(MANY)?.each(&count(FEW)?, MANY - FEW).instructions;
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
            let messages = CONNECTIONS * requests;
            let run = |rounds| {
                count(
                    &program,
                    &["--cost", &format!("{server},{rounds}{depth}")],
                    "",
                )
            };
            row += &per_message(messages, run)?;
        }
        println!("{row}");
    }
    Ok(Outcome::Passed)
}

/// Counts the instructions per request that the gateway passes on to an upstream in another process.
fn proxy(root: &Path) -> step::Result {
    let program = bench::build(root)?;
    println!(
        "| gateway | 8 connections | locked | 64 connections | locked |\n|---|---|---|---|---|"
    );
    for (server, what) in PROXIES {
        let mut row = format!("| {what} |");
        for clients in CLIENTS {
            let run = |rounds| {
                let what = format!("{server},{rounds},1,{clients}");
                count(&program, &["--cost", &what], "")
            };
            row += &per_message(clients, run)?;
        }
        println!("{row}");
    }
    Ok(Outcome::Passed)
}

/// Counts the instructions per request of each client, which calls a server in another process.
fn client(root: &Path) -> step::Result {
    let program = bench::build(root)?;
    let mut server = Command::new(&program);
    let server = server.args(["--serve", "http-raw"]);
    let server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut server = server.map_err(|e| format!("the server does not start: {e}"))?;
    let mut address = String::new();
    if let Some(out) = server.stdout.take() {
        let read = BufReader::new(out).read_line(&mut address);
        read.map_err(|e| format!("the server prints no address: {e}"))?;
    }
    println!("| client | instructions | locked |\n|---|---|---|");
    for (caller, what) in CALLERS {
        let to = format!("{caller},{}", address.trim());
        let run = |rounds| {
            let requests = rounds * CALLERS_CONNECTIONS;
            count(&program, &["--call", &to], &format!("count {requests}\n"))
        };
        println!("| {what} |{}", per_message(CALLERS_CONNECTIONS, run)?);
    }
    // It ends with its input.
    drop(server.stdin.take());
    let ended = server.wait();
    ended.map_err(|e| format!("the server does not end: {e}"))?;
    Ok(Outcome::Passed)
}

/// Returns the cells of a row: the instructions and the locked operations per message. `run` makes a
/// number of rounds of so many messages.
fn per_message(
    messages: u64,
    run: impl Fn(u64) -> Result<Counted, String>,
) -> Result<String, String> {
    let total = (MANY_ROUNDS - FEW_ROUNDS) * messages;
    let each = run(MANY_ROUNDS)?.each(&run(FEW_ROUNDS)?, total);
    Ok(format!(" {:.0} | {:.1} |", each.instructions, each.locked))
}

/// What callgrind has counted.
#[derive(Debug, PartialEq)]
struct Counted {
    instructions: f64,
    /// Atomic operations that read and write. Fences do not count.
    locked: f64,
}

impl Counted {
    /// Returns what each of `amount` things costs by which this run had more than `fewer`.
    fn each(&self, fewer: &Self, amount: u64) -> Self {
        let each = |more: f64, fewer: f64| (more - fewer) / amount as f64;
        Self {
            instructions: each(self.instructions, fewer.instructions),
            locked: each(self.locked, fewer.locked),
        }
    }
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

/// Counts one run of a program with this input.
fn count(program: &Path, arguments: &[&str], input: &str) -> Result<Counted, String> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--collect-bus=yes")
        .arg(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let failed = |e| format!("valgrind: {e}");
    let mut run = command.spawn().map_err(failed)?;
    if let Some(mut to) = run.stdin.take() {
        to.write_all(input.as_bytes()).map_err(failed)?;
    }
    let ran = run.wait_with_output().map_err(failed)?;
    let output = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        let arguments = arguments.join(" ");
        return Err(format!("{}: valgrind {arguments}\n{output}", ran.status));
    }
    collected(&output).ok_or_else(|| format!("callgrind printed no count:\n{output}"))
}

/// Returns the numbers in callgrind's line `==1== Collected : 123 4`.
fn collected(output: &str) -> Option<Counted> {
    let line = output.lines().find(|line| line.contains("Collected :"))?;
    let mut numbers = line.rsplit(':').next()?.split_whitespace();
    let mut number = || numbers.next()?.parse().ok();
    Some(Counted {
        instructions: number()?,
        locked: number()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_found_in_what_callgrind_says() {
        let output = "==7== Events    : Ir Ge\n==7== Collected : 12345678 90\n==7== \n";
        let counted = Counted {
            instructions: 12_345_678.0,
            locked: 90.0,
        };
        assert_eq!(collected(output), Some(counted));
        assert_eq!(collected("==7== Events    : Ir Ge\n"), None);
    }
}

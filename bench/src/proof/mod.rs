//! `proof`: the gateway under load, as a program with an answer: each run says what it has found, and
//! fails if that is not what the gateway promises.
//!
//! The gateway runs in a process of its own, as the program `tidegate` does: with a file, signals and
//! a status. Its upstreams and clients run in this process. No CPU is reserved for anyone.
//!
//! | file | contents |
//! |---|---|
//! | `program` | the gateway in its process |
//! | `upstreams` | servers that are healthy, fail, hang, or echo after an upgrade |
//! | `client` | one client: a request at a time, each response read to its end |
//! | `open_loop` | requests at a fixed rate, whether earlier ones have ended or not |
//! | `isolation` | one of four upstreams hangs, one fails half of the time |
//! | `reload` | a new configuration every 200 ms |
//! | `drain` | SIGTERM |

mod client;
mod drain;
mod isolation;
mod open_loop;
mod program;
mod reload;
mod upstreams;

use std::process::ExitCode;
use std::time::Duration;

use crate::served::raise_limit;

pub(crate) use self::program::{child as gateway_child, tidegate as tidegate_child};

/// The settings of a proof.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    /// How long each run takes.
    pub(crate) seconds: u64,
    /// Parts of the names of the runs; empty means all.
    pub(crate) only: Vec<String>,
}

impl Proof {
    fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }
}

/// What a run has found: one line, and whether it is as promised.
struct Finding {
    line: String,
    holds: bool,
}

impl Finding {
    fn new(holds: bool, line: String) -> Self {
        Self { line, holds }
    }
}

type Findings = Result<Vec<Finding>, String>;
type Run = fn(&Proof) -> Findings;

/// Runs all proofs that are wanted.
pub(crate) fn run(proof: &Proof) -> ExitCode {
    raise_limit();
    let runs: [(&str, Run); 3] = [
        ("isolation", isolation::run),
        ("reload", reload::run),
        ("drain", drain::run),
    ];
    let mut holds = true;
    for (name, run) in runs.into_iter().filter(|(name, _)| proof.wants(name)) {
        eprintln!("proof {name}, {} s", proof.seconds);
        match run(proof) {
            Ok(findings) => {
                for finding in findings {
                    let word = if finding.holds { "holds" } else { "BROKEN" };
                    println!("PROOF {name} {word}: {}", finding.line);
                    holds &= finding.holds;
                }
            }
            Err(why) => {
                println!("PROOF {name} BROKEN: {why}");
                holds = false;
            }
        }
    }
    match holds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

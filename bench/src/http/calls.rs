//! System calls per request, counted by `strace -f -c`.
//!
//! Each server runs twice with different numbers of requests: the calls of its start, and of opening
//! the connections, cancel out in the difference.

use super::{Case, Contestant};
use crate::report::{Better, Heading, Row, Sample, Table};
use crate::rounds::Settings;
use crate::served::ServerProcess;

/// The requests in the two runs.
const FEW: u64 = 6_400;
const MANY: u64 = 4 * FEW;

/// Counts the system calls of each server. A server that could not be traced has no row.
pub(super) fn count(case: &Case, servers: &[Contestant], settings: &Settings) -> Table {
    let heading = Heading {
        title: format!("{}, system calls", case.title),
        unit: "system calls/request",
        better: Better::Less,
        side: None,
        ratios: Vec::new(),
    };
    let mut rows = Vec::new();
    if settings.wants_table(&heading.title) {
        eprintln!("  {}", heading.title);
        for contestant in servers {
            match each(case, contestant.server) {
                Ok(value) => rows.push(Row {
                    name: contestant.name.to_owned(),
                    role: contestant.role,
                    samples: vec![Sample { value, side: None }],
                }),
                Err(why) => eprintln!("    {} could not be traced: {why}", contestant.name),
            }
        }
    }
    Table {
        heading,
        rows,
        left_out: Vec::new(),
        others: None,
    }
}

fn each(case: &Case, server: &str) -> Result<f64, String> {
    let difference = traced(case, server, MANY)?.saturating_sub(traced(case, server, FEW)?);
    Ok(difference as f64 / (MANY - FEW) as f64)
}

/// Returns the number of all system calls of a server that served so many requests.
fn traced(case: &Case, server: &str, requests: u64) -> Result<u64, String> {
    let summary = format!("tidegate-bench-{}-{server}", std::process::id());
    let summary = std::env::temp_dir().join(summary);
    let process = ServerProcess::start_traced(server, &summary)?;
    case.connect(&process).run(requests / case.depth as u64);
    process.finish()?;
    let text = std::fs::read_to_string(&summary).map_err(|why| why.to_string());
    let _ = std::fs::remove_file(&summary);
    total(&text?).ok_or_else(|| "strace printed no total".to_owned())
}

/// Returns the calls in the last line of the table: share, seconds, microseconds per call, calls,
/// errors if there are any, and `total`.
pub(crate) fn total(summary: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_total_is_found() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    100.00    0.002210          15       142        12 total\n";
        assert_eq!(total(text), Some(142));
        assert_eq!(total("nothing"), None);
    }
}

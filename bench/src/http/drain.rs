//! The time of a drain of idle connections, beside the limit for it.
//!
//! The connections were used for one request each and are held by another process, as for their
//! memory. Where the limit on descriptors needs several servers, the times of their drains are added.

use std::time::Duration;

use crate::echo::idle::{Exchange, Spread, start_holder};
use crate::report::{Better, Heading, Ratio, Role, Row, Sample, Table};
use crate::rounds::Settings;
use crate::served::{ServerProcess, raise_limit};

const CONNECTIONS: usize = 10_000;
/// The time that a drain of so many connections may take.
const LIMIT: Duration = Duration::from_millis(100);

/// The number of drains, each of another server.
const REPEATS: usize = 3;

/// Measures the drain. If that fails, prints the reason and returns `None`.
pub(super) fn run(settings: &Settings) -> Option<Table> {
    let spread = Spread::of(CONNECTIONS, raise_limit());
    let title = format!("http, drain of idle connections: {spread}");
    if !settings.wants_table(&title) {
        return None;
    }
    eprintln!("  {title}");
    let samples: Result<Vec<Sample>, String> = (0..REPEATS).map(|_| measure(&spread)).collect();
    let samples = match samples {
        Ok(samples) => samples,
        Err(why) => {
            eprintln!("    the drain could not be measured: {why}");
            return None;
        }
    };
    let limit = vec![sample(LIMIT); samples.len()];
    let row = |name: &str, role, samples| Row {
        name: name.to_owned(),
        role,
        samples,
    };
    Some(Table {
        heading: Heading {
            title,
            unit: "ms until the last one is closed",
            better: Better::Less,
            side: None,
            ratios: vec![Ratio::new("http_drain_over_limit", Role::Peer)],
        },
        rows: vec![
            row("ours", Role::Ours, samples),
            row("the limit", Role::Peer, limit),
        ],
        left_out: Vec::new(),
        others: None,
    })
}

fn sample(time: Duration) -> Sample {
    Sample {
        value: time.as_secs_f64() * 1e3,
        side: None,
    }
}

fn measure(spread: &Spread) -> Result<Sample, String> {
    let mut partners = Vec::new();
    for share in spread.shares() {
        let server = ServerProcess::start("http-ours")?;
        let holder = start_holder(server.address, share, Exchange::Http)?;
        partners.push((server, holder));
    }
    let mut sum = Duration::ZERO;
    for (server, _) in &mut partners {
        sum += server.drain()?;
    }
    Ok(sample(sum))
}

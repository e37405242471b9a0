//! The time of a drain of idle connections, beside the limit for it.
//!
//! The connections were used for one request each and are held by another process, as for their
//! memory. Where the limit on descriptors needs several servers, the times of their drains are added.
//!
//! Two set-ups: a loop for each CPU, as a service has them, and one loop on one CPU. Nearly all of the
//! time of one loop is spent by the kernel, in `close`.

use std::time::Duration;

use crate::echo::idle::{Exchange, Spread, start_holder};
use crate::report::{Better, Heading, Ratio, Role, Row, Sample, Table};
use crate::rounds::Settings;
use crate::served::{ServerProcess, raise_limit};

const CONNECTIONS: usize = 10_000;
/// The time that a drain of so many connections may take.
const LIMIT: Duration = Duration::from_millis(100);

/// The number of drains, each of another server.
const REPEATS: usize = 5;

/// The servers: loops, name on the command line, ratio.
const SETUPS: [(&str, &str, &str); 2] = [
    (
        "a loop for each CPU",
        "http-ours-all-cpus",
        "http_drain_all_cpus_over_limit",
    ),
    ("one loop", "http-ours", "http_drain_over_limit"),
];

/// Measures the drains.
pub(super) fn run(settings: &Settings) -> Vec<Table> {
    let tables = SETUPS.map(|(loops, server, ratio)| one(settings, loops, server, ratio));
    tables.into_iter().flatten().collect()
}

/// Measures one of them. If that fails, prints the reason and returns `None`.
fn one(settings: &Settings, loops: &str, server: &str, ratio: &'static str) -> Option<Table> {
    let spread = Spread::of(CONNECTIONS, raise_limit());
    let title = format!("http, drain of idle connections, {loops}: {spread}");
    if !settings.wants_table(&title) {
        return None;
    }
    eprintln!("  {title}");
    let samples: Result<Vec<Sample>, String> =
        (0..REPEATS).map(|_| measure(server, &spread)).collect();
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
            ratios: vec![Ratio::new(ratio, Role::Peer)],
        },
        rows: vec![
            row("ours", Role::Ours, samples),
            row("the limit", Role::Peer, limit),
        ],
        others: None,
    })
}

fn sample(time: Duration) -> Sample {
    Sample {
        value: time.as_secs_f64() * 1e3,
        side: None,
    }
}

fn measure(name: &str, spread: &Spread) -> Result<Sample, String> {
    let mut partners = Vec::new();
    for share in spread.shares() {
        let server = ServerProcess::start(name)?;
        let holder = start_holder(server.address, share, Exchange::Http)?;
        partners.push((server, holder));
    }
    let mut sum = Duration::ZERO;
    for (server, _) in &mut partners {
        sum += server.drain()?;
    }
    Ok(sample(sum))
}

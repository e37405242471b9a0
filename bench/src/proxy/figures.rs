//! The tables: what they show of the runs.

use super::lineup::Proxy;
use crate::report::{Better, Heading, Ratio, Role, Row, Sample, Table};

/// The places of the tables of a case.
pub(super) const CPU: usize = 0;
pub(super) const SPEED: usize = 1;
pub(super) const LATE: usize = 2;
pub(super) const MEMORY: usize = 3;
pub(super) const TABLES: usize = 4;

/// The result of a run.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    /// Requests per second.
    pub(super) speed: f64,
    /// Waits in microseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Resident memory in KiB.
    pub(super) memory: f64,
    /// The same, if what its processes share counts once.
    pub(super) once: f64,
}

/// What a table shows of the runs.
pub(super) struct Shown {
    title: &'static str,
    unit: &'static str,
    better: Better,
    side: Option<&'static str>,
    of: fn(&Measured) -> (f64, Option<f64>),
}

/// The tables after that of the CPU time, in the order of their places.
pub(super) const SHOWN: [Shown; TABLES - 1] = [
    Shown {
        title: "speed",
        unit: "requests/s",
        better: Better::More,
        side: None,
        of: |run| (run.speed, None),
    },
    Shown {
        title: "waits",
        unit: "p99 us",
        better: Better::Less,
        side: Some("p50 us"),
        of: |run| (run.p99, Some(run.p50)),
    },
    Shown {
        title: "memory",
        unit: "resident KiB",
        better: Better::Less,
        side: Some("shared once"),
        of: |run| (run.memory, Some(run.once)),
    },
];

/// Returns a table of the same runs as `cpu`.
/// `runs` returns those of the contestant of this name.
pub(super) fn table(
    case: &str,
    shown: &Shown,
    cpu: &Table,
    runs: impl Fn(&str) -> Vec<Measured>,
) -> Table {
    let row = |row: &Row| {
        let runs = runs(&row.name);
        // The first runs were those of the warm-up.
        let warm_up = runs.len().saturating_sub(row.samples.len());
        let sample = |run: &Measured| {
            let (value, side) = (shown.of)(run);
            Sample { value, side }
        };
        Row {
            samples: runs[warm_up..].iter().map(sample).collect(),
            ..row.clone()
        }
    };
    Table {
        heading: Heading {
            title: format!("{case}, {}", shown.title),
            unit: shown.unit,
            better: shown.better,
            side: shown.side,
            ratios: Vec::new(),
        },
        rows: cpu.rows.iter().map(row).collect(),
        others: cpu.others,
    }
}

/// The table of the command's cost, from the same runs as `cpu`. The row without it takes the place of
/// ours, so that the ratio is the share.
pub(super) fn guard(cpu: &Table) -> Table {
    let role = |name: &str| {
        let is_own = [Proxy::Ours, Proxy::Unguarded].map(Proxy::name);
        match is_own.iter().position(|own| *own == name)? {
            0 => Some(Role::Peer),
            _ => Some(Role::Ours),
        }
    };
    let rows = cpu.rows.iter().filter_map(|row| {
        let role = role(&row.name)?;
        Some(Row {
            role,
            ..row.clone()
        })
    });
    Table {
        heading: Heading {
            title: "proxy, with and without the command".to_owned(),
            ratios: vec![Ratio::new("guard_share", Role::Peer)],
            ..cpu.heading.clone()
        },
        rows: rows.collect(),
        others: cpu.others,
    }
}

impl Table {
    /// Adds a ratio.
    pub(super) fn add(&mut self, name: &str, against: Role) {
        self.heading.ratios.push(Ratio::new(name, against));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_the_cost_with_the_command_divided_by_that_without() {
        let row = |proxy: Proxy, value| Row {
            name: proxy.name().to_owned(),
            role: proxy.role(),
            samples: vec![Sample { value, side: None }],
        };
        let cpu = Table {
            heading: Heading {
                title: String::new(),
                unit: "",
                better: Better::Less,
                side: None,
                ratios: Vec::new(),
            },
            rows: vec![
                row(Proxy::Ours, 12.0),
                row(Proxy::Nginx, 20.0),
                row(Proxy::Unguarded, 10.0),
            ],
            others: None,
        };
        let lines = guard(&cpu).ratio_lines();
        assert!(
            lines
                .into_iter()
                .eq(["RATIO guard_share 1.200 1.200 1.200"])
        );
    }
}

//! Results: quartiles, aligned tables and RATIO lines.

use std::fmt::Write as _;

use crate::machine::TOO_MUCH;

/// A spread above this share of the median marks a RATIO line as noisy.
const NOISY: f64 = 0.15;

/// The two quartiles and the median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quartiles {
    /// The lower quartile: a quarter of the values lies below.
    pub(crate) low: f64,
    /// The median: half of the values lies below.
    pub(crate) median: f64,
    /// The upper quartile: three quarters of the values lie below.
    pub(crate) high: f64,
}

impl Quartiles {
    /// Returns the quartiles of `values`, interpolated between adjacent values; `None` if there are
    /// no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        if sorted.is_empty() {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        Some(Quartiles {
            low: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            high: quantile(&sorted, 0.75),
        })
    }

    /// Returns `true` if the spread between the quartiles is too wide to trust the median.
    pub(crate) fn is_noisy(&self) -> bool {
        (self.high - self.low) / self.median > NOISY
    }
}

/// Returns the value below which the share `part` of `sorted` lies. `sorted` must not be empty.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    below + (above - below) * place.fract()
}

/// Whether a larger or a smaller figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    /// More is better: a rate.
    More,
    /// Less is better: a cost.
    Less,
}

/// The role of a contestant in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Built by this project. The ratios of a table compare the first such row.
    Ours,
    /// Built by others: ours is compared with it.
    Peer,
    /// A peer, or several rows of a peer, with a ratio of its own under this name.
    Named(&'static str),
    /// A contestant that is compared in a ratio of its own: in `handoff`, a channel of fixed
    /// messages instead of closures.
    Inline,
    /// A row for orientation, such as the bare mechanism: shown, never in a ratio.
    Floor,
}

impl Role {
    /// Returns the name of the role in a table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Ours => "ours",
            Role::Peer | Role::Named(_) => "peer",
            Role::Inline => "inline",
            Role::Floor => "floor",
        }
    }

    /// Returns the role with this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Role::Ours, Role::Peer, Role::Inline, Role::Floor]
            .into_iter()
            .find(|role| role.name() == name)
    }
}

/// The result of one contestant in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The figure that is compared.
    pub(crate) value: f64,
    /// A second figure that is only shown.
    pub(crate) side: Option<f64>,
}

/// All rounds of one contestant.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: String,
    /// The role of the contestant.
    pub(crate) role: Role,
    /// The samples, one per round in order.
    pub(crate) samples: Vec<Sample>,
}

impl Row {
    fn quartiles(&self) -> Option<Quartiles> {
        Quartiles::of(self.samples.iter().map(|sample| sample.value))
    }

    fn side(&self) -> Option<f64> {
        Quartiles::of(self.samples.iter().filter_map(|sample| sample.side)).map(|q| q.median)
    }
}

/// A RATIO line to print: ours against the best row with the role `against`.
#[derive(Clone, Debug)]
pub(crate) struct Ratio {
    /// The name of the ratio in the list of targets.
    pub(crate) name: String,
    /// The role that ours is compared with.
    pub(crate) against: Role,
}

impl Ratio {
    /// Creates a ratio against the best row of a role.
    pub(crate) fn new(name: impl Into<String>, against: Role) -> Self {
        Self {
            name: name.into(),
            against,
        }
    }
}

/// The heading of a table, and its ratios.
#[derive(Clone, Debug)]
pub(crate) struct Heading {
    /// The title of the table.
    pub(crate) title: String,
    /// The unit of the compared figure.
    pub(crate) unit: &'static str,
    /// Whether more or less is better.
    pub(crate) better: Better,
    /// The name of the second figure, if there is one.
    pub(crate) side: Option<&'static str>,
    /// The ratios; empty for a table without a target.
    pub(crate) ratios: Vec<Ratio>,
}

/// One comparison with its results.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The heading.
    pub(crate) heading: Heading,
    /// Its contestants.
    pub(crate) rows: Vec<Row>,
    /// The number of CPUs that other processes used during the run.
    pub(crate) others: Option<f64>,
}

impl Table {
    /// Returns the table as text: one line per contestant, with aligned columns.
    pub(crate) fn render(&self) -> String {
        let heading = &self.heading;
        let better = match heading.better {
            Better::More => "more",
            Better::Less => "less",
        };
        let mut text = format!("{} [{}, {better} is better]\n", heading.title, heading.unit);
        let width = self.rows.iter().map(|row| row.name.len()).max();
        let width = width.unwrap_or(0).max("contestant".len());
        let side = heading.side.unwrap_or("");
        let narrow = side.len().max("median".len());
        let line = format!(
            "  {:width$}  {:6}  {:>9}  {:>9}  {:>9}  {side:>narrow$}",
            "contestant", "role", "median", "low", "high"
        );
        text.push_str(line.trim_end());
        text.push('\n');
        for row in &self.rows {
            let Some(q) = row.quartiles() else { continue };
            let side = row
                .side()
                .map(|value| format!("  {:>narrow$}", figure(value)));
            writeln!(
                text,
                "  {:width$}  {:6}  {:>9}  {:>9}  {:>9}{}",
                row.name,
                row.role.name(),
                figure(q.median),
                figure(q.low),
                figure(q.high),
                side.unwrap_or_default(),
            )
            .expect("writing to a String cannot fail");
        }
        if let Some(cpus) = self.others.filter(|cpus| *cpus > TOO_MUCH) {
            writeln!(
                text,
                "  do not trust these figures: other processes used {cpus:.2} CPUs meanwhile"
            )
            .expect("writing to a String cannot fail");
        }
        text
    }

    /// Returns the RATIO lines of the comparisons that have a contestant of ours and a peer.
    pub(crate) fn ratio_lines(&self) -> Vec<String> {
        let ratios = self.heading.ratios.iter();
        ratios.filter_map(|ratio| self.ratio_line(ratio)).collect()
    }

    fn ratio_line(&self, ratio: &Ratio) -> Option<String> {
        let q = self.factor(ratio.against)?;
        let noisy = if q.is_noisy() { " noisy" } else { "" };
        let name = &ratio.name;
        Some(format!(
            "RATIO {name} {:.3} {:.3} {:.3}{noisy}",
            q.median, q.low, q.high
        ))
    }

    /// Returns the factor by which ours is better than the best row of a role, over the rounds.
    pub(crate) fn factor(&self, against: Role) -> Option<Quartiles> {
        let ours = self.rows.iter().find(|row| row.role == Role::Ours)?;
        let best = self.best(against)?;
        Quartiles::of(ratios_by_round(self.heading.better, ours, best))
    }

    /// Returns the row of that role with the best median over the whole run.
    fn best(&self, role: Role) -> Option<&Row> {
        let rows = self.rows.iter().filter(|row| row.role == role);
        let medians = rows.filter_map(|row| Some((row, row.quartiles()?.median)));
        let best = match self.heading.better {
            Better::More => medians.max_by(|a, b| a.1.total_cmp(&b.1)),
            Better::Less => medians.min_by(|a, b| a.1.total_cmp(&b.1)),
        };
        best.map(|(row, _)| row)
    }
}

/// Prints the tables that have rows, then their RATIO lines.
pub(crate) fn print(tables: &[Table]) {
    for table in tables.iter().filter(|table| !table.rows.is_empty()) {
        println!("{}", table.render());
    }
    for line in tables.iter().flat_map(Table::ratio_lines) {
        println!("{line}");
    }
}

/// Returns the factor by which `ours` is better than `peer`, for each round.
fn ratios_by_round(better: Better, ours: &Row, peer: &Row) -> Vec<f64> {
    let rounds = ours.samples.iter().zip(&peer.samples);
    rounds
        .map(|(ours, peer)| match better {
            Better::More => ours.value / peer.value,
            Better::Less => peer.value / ours.value,
        })
        .collect()
}

/// Formats a figure with about four significant digits.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests;

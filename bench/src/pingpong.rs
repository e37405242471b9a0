//! Suite `pingpong`: two loops send a task back and forth; ns per hop, and CPU time per hop.
//!
//! There are two cases: on all CPUs, and with the whole process on one. Threads inherit the
//! affinity, and some contestants read the number of CPUs when they start, so each case runs in a
//! process of its own: this program again, with the hidden option `--case`. The child runs all
//! contestants round by round and prints one line per sample; the parent collects the lines.

use std::process::{ExitCode, Stdio};
use std::time::Instant;

use crate::contest::{Limit, LoopContestant};
use crate::cpus::try_pin;
use crate::gate::Gate;
use crate::machine::cpu_time;
use crate::ours;
use crate::peers::channel::BoxedLoop;
use crate::peers::crossbeam::{Crossbeam, Segments};
use crate::peers::kanal::Kanal;
use crate::peers::tokio_mpsc::TokioBounded;
use crate::report::{Better, Heading, Ratio, Role, Row, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};
use crate::{child, cli};

const WORK: Work = Work {
    first: 1_000,
    most: 10_000_000,
};

/// Opens when the last hop has run, and when both loops are idle.
static FINISH: Gate = Gate::new();

/// The CPUs on which the process may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// On every CPU that is available to the process.
    Free,
    /// On CPU 0 only.
    Pinned,
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Case::Free => "2cpu",
            Case::Pinned => "1cpu",
        }
    }

    /// Returns the case with that name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Case::Free, Case::Pinned]
            .into_iter()
            .find(|case| case.name() == name)
    }

    fn heading(self) -> Heading {
        Heading {
            title: format!("pingpong, {}", self.name()),
            unit: "ns/hop",
            better: Better::Less,
            side: Some("CPU ns/hop"),
            ratios: vec![Ratio::new(format!("pingpong_{}", self.name()), Role::Peer)],
        }
    }
}

/// Runs the suite: a child process for each case.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Table>, String> {
    [Case::Free, Case::Pinned]
        .into_iter()
        .map(|case| parent(case, settings))
        .collect()
}

fn parent(case: Case, settings: &Settings) -> Result<Table, String> {
    let child = child::command()?
        .args(["--case", case.name()])
        .args(cli::arguments(settings))
        .stderr(Stdio::inherit())
        .output();
    let child = child.map_err(|error| format!("cannot start the case {}: {error}", case.name()))?;
    if !child.status.success() {
        return Err(format!(
            "the case {} ended with {}",
            case.name(),
            child.status
        ));
    }
    let text = String::from_utf8(child.stdout).map_err(|error| error.to_string())?;
    collect(case.heading(), &text)
}

/// Runs one case in the child process and prints the measurements.
pub(crate) fn run_case(case: Case, settings: &Settings) -> ExitCode {
    if case == Case::Pinned
        && let Err(error) = try_pin(0)
    {
        eprintln!("cannot pin the process to CPU 0: {error}");
        return ExitCode::FAILURE;
    }
    let table = rounds::race(case.heading(), WORK, lineup(), settings);
    print!("{}", lines(&table));
    ExitCode::SUCCESS
}

/// Returns the output of the child: a line per sample, with fields separated by tabs.
fn lines(table: &Table) -> String {
    let samples = table.rows.iter().flat_map(|row| {
        row.samples.iter().map(|sample| {
            let role = row.role.name();
            let side = sample.side.map_or(String::new(), |side| side.to_string());
            format!("{role}\t{}\t{}\t{side}\n", row.name, sample.value)
        })
    });
    let others = table.others.map(|cpus| format!("others\t{cpus}\n"));
    others.into_iter().chain(samples).collect()
}

/// Parses the output of the child. The samples of a contestant are in the order of the rounds.
fn collect(heading: Heading, text: &str) -> Result<Table, String> {
    let mut table = Table {
        heading,
        rows: Vec::new(),
        others: None,
    };
    for line in text.lines() {
        let broken = || format!("a case printed a line that is no sample: {line:?}");
        let fields: Vec<&str> = line.split('\t').collect();
        let (role, name, value, side) = match fields[..] {
            ["others", cpus] => {
                table.others = cpus.parse().ok();
                continue;
            }
            [role, name, value, side] => (role, name, value, side),
            _ => return Err(broken()),
        };
        let role = Role::parse(role).ok_or_else(broken)?;
        let sample = Sample {
            value: value.parse().map_err(|_| broken())?,
            side: side.parse().ok(),
        };
        match table.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.samples.push(sample),
            None => table.rows.push(Row {
                name: name.to_owned(),
                role,
                samples: vec![sample],
            }),
        }
    }
    Ok(table)
}

fn lineup() -> Vec<Entry> {
    let mut lineup = Vec::new();
    ours::pingpong(&mut lineup);
    let free = Limit::Unbounded;
    let bound = Limit::Own(1024);
    let peer = Role::Peer;
    lineup.extend([
        entry::<BoxedLoop<Crossbeam>>("crossbeam-channel", peer, free),
        entry::<BoxedLoop<Kanal>>("kanal", peer, free),
        entry::<BoxedLoop<Kanal>>("kanal bounded", peer, bound),
        entry::<BoxedLoop<Segments<false>>>("segqueue+park", peer, free),
        entry::<BoxedLoop<Segments<true>>>("segqueue+spin+park", peer, free),
        entry::<BoxedLoop<TokioBounded>>("tokio mpsc bounded", peer, bound),
    ]);
    lineup
}

/// Creates a contestant: it starts two loops, runs the hops and stops the loops.
pub(crate) fn entry<L: LoopContestant>(name: &str, role: Role, limit: Limit) -> Entry {
    let contestant = name.to_owned();
    let run = move |hops| play::<L>(&contestant, limit, hops);
    Entry::new(name, role, run)
}

/// The two loops of a run.
struct Game<L> {
    even: L,
    odd: L,
}

/// A pointer to the game. A hop must not count references: that would move one more cache line per
/// hop than the contestant itself does.
struct GamePtr<L>(*const Game<L>);

impl<L> Clone for GamePtr<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for GamePtr<L> {}

// SAFETY: the pointer gives shared access to the two loops, which are `Sync`; `play` keeps the game
// alive while hops run.
unsafe impl<L: Sync> Send for GamePtr<L> {}

fn play<L: LoopContestant>(contestant: &str, limit: Limit, hops: u64) -> Outcome {
    let game = Box::new(Game {
        even: L::start("bench-even", limit),
        odd: L::start("bench-odd", limit),
    });
    rest(contestant, &game);
    FINISH.arm(1);
    let (cpu, began) = (cpu_time(), Instant::now());
    hop(GamePtr(&raw const *game), hops);
    FINISH.wait(contestant);
    let (elapsed, cpu) = (began.elapsed(), cpu_time().saturating_sub(cpu));
    // The last hop has run, but the loop that sent it may still be inside `submit`. Only after both
    // loops have run one more task is the game no longer in use.
    rest(contestant, &game);
    let Game { even, odd } = *game;
    even.stop();
    odd.stop();
    Outcome::nanos_each(elapsed, hops).beside(Some(cpu.as_nanos() as f64 / hops as f64))
}

/// Waits until both loops are running and have finished their tasks.
fn rest<L: LoopContestant>(contestant: &str, game: &Game<L>) {
    FINISH.arm(2);
    game.even.submit(|| FINISH.pass());
    game.odd.submit(|| FINISH.pass());
    FINISH.wait(contestant);
}

/// Sends the task to the other loop; it captures two words.
fn hop<L: LoopContestant>(game_ptr: GamePtr<L>, left: u64) {
    if left == 0 {
        FINISH.pass();
        return;
    }
    // SAFETY: `play` owns the game, and moves out of it only when `rest` has shown that no hop is
    // running.
    let game = unsafe { &*game_ptr.0 };
    let next = if left.is_multiple_of(2) {
        &game.even
    } else {
        &game.odd
    };
    next.submit(move || hop(game_ptr, left - 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_child_prints_the_parent_reads() {
        let text = "others\t0.5\npeer\ta b\t700.5\t1400\nours\tx\t200\t\npeer\ta b\t710.5\t1500\n";
        let table = collect(Case::Free.heading(), text).expect("these lines are samples");
        assert_eq!(table.others, Some(0.5));
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[0].samples[1].side, Some(1500.0));
        let again = collect(Case::Free.heading(), &lines(&table)).expect("these are its own lines");
        assert_eq!(again.render(), table.render());
        assert!(collect(Case::Free.heading(), "peer\ta\n").is_err());
    }
}

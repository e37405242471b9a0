//! Real sockets in an open loop: messages fall due at a fixed rate, whether or not the server keeps
//! up.
//!
//! There are 64 connections to one loop, with a handler that may block. The rate is a share of the
//! capacity of the same loop under ProduceConsume, which is measured first. The caller is a process
//! of its own. It runs on CPU 1 and the server on CPU 0, or the system places both freely.
//!
//! Where one message in a hundred blocks, the waits are those of the others: messages with no
//! blocking message before them on their own connection, because a connection's handler processes
//! one message at a time under any strategy.

mod caller;
mod served;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tidegate_pool::strategy::StrategyMetrics;

pub(crate) use self::caller::child as caller_child;
use self::caller::{CONNECTIONS, Call, Caller};
use self::served::{Served, Way};
use super::bench_pool::switches;
use super::plot::Bars;
use super::work::units_per_micro;
use crate::cpus::{pin, unpin};
use crate::machine::cpu_time;
use crate::report::{Better, Heading, Quartiles, Ratio, Role, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};
use crate::waits::Waits;

/// Duration of a run, without and with blocking messages.
const SPAN: Duration = Duration::from_millis(300);
const SPAN_BLOCKERS: Duration = Duration::from_millis(600);
/// The rate that the plot shows, in percent of the capacity of PC.
const PLOTTED: u64 = 70;
/// The factor by which a run may exceed its planned duration and still count as keeping up.
const SLACK: f64 = 1.05;

/// The placement of caller and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// The server on one CPU, the caller on another.
    Apart,
    /// Both on any CPU.
    Free,
}

impl Layout {
    fn word(self) -> &'static str {
        match self {
            Layout::Apart => "apart",
            Layout::Free => "free",
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        [Layout::Apart, Layout::Free]
            .into_iter()
            .find(|one| one.word() == word)
    }
}

/// The load on the servers.
#[derive(Clone, Copy)]
struct Load {
    size: usize,
    micros: u64,
    block_one_in: u64,
    layout: Layout,
}

impl Load {
    const BASE: Load = Load {
        size: 64,
        micros: 2,
        block_one_in: 0,
        layout: Layout::Apart,
    };

    fn title(self, percent: u64) -> String {
        format!(
            "strategy, sockets: {} bytes, {} µs{}, {}, {percent} % of what PC can",
            self.size,
            self.micros,
            if self.block_one_in > 0 {
                ", 1 % block for 10 ms"
            } else {
                ""
            },
            match self.layout {
                Layout::Apart => "server on one CPU",
                Layout::Free => "two CPUs for all",
            },
        )
    }

    fn span(self) -> Duration {
        if self.block_one_in > 0 {
            SPAN_BLOCKERS
        } else {
            SPAN
        }
    }
}

/// The loads, each with its rates in percent of the capacity of PC.
const LOADS: [(Load, &[u64]); 6] = [
    (Load::BASE, &[30, 70]),
    (
        Load {
            micros: 50,
            ..Load::BASE
        },
        &[30, 70],
    ),
    (
        Load {
            size: 4096,
            ..Load::BASE
        },
        &[30, 70],
    ),
    (
        Load {
            block_one_in: 100,
            ..Load::BASE
        },
        &[30, 70],
    ),
    (
        Load {
            layout: Layout::Free,
            ..Load::BASE
        },
        &[30, 70],
    ),
    (
        Load {
            block_one_in: 100,
            layout: Layout::Free,
            ..Load::BASE
        },
        &[70],
    ),
];

/// The contestants.
const LINEUP: [(&str, Role, Way); 6] = [
    ("adaptive, eager", Role::Ours, Way::Eager),
    ("PEC", Role::Peer, Way::Pec),
    ("PC, pinned loop", Role::Floor, Way::Pc),
    ("adaptive, late", Role::Floor, Way::Late),
    ("EPC", Role::Floor, Way::Epc),
    ("EWYK of 2015", Role::Floor, Way::Ewyk),
];

/// Runs the tables and returns them with the bars for the plot. A quick run skips this, unless its
/// tables are requested.
pub(crate) fn run(settings: &Settings) -> (Vec<Table>, Vec<Bars>) {
    let (mut tables, mut bars) = (Vec::new(), Vec::new());
    if settings.quick && settings.tables.is_empty() {
        return (tables, bars);
    }
    let settings = &Settings {
        quick: false,
        ..settings.clone()
    };
    for (load, rates) in LOADS {
        let wanted = |percent: &&u64| settings.wants_table(&load.title(**percent));
        let rates: Vec<u64> = rates.iter().filter(wanted).copied().collect();
        if rates.is_empty() {
            continue;
        }
        let caller = Rc::new(RefCell::new(Caller::start()));
        let capacity = capacity(load, &caller);
        println!(
            "sockets: {} bytes, {} µs, {}: PC handles {capacity:.0} messages/s",
            load.size,
            load.micros,
            match load.block_one_in {
                0 => "no handler blocks",
                _ => "1 % block for 10 ms",
            }
        );
        for percent in rates {
            let table = table(load, percent, capacity, &caller, settings);
            if percent == PLOTTED {
                let title = load.title(percent);
                bars.push(Bars {
                    title: title.trim_start_matches("strategy, sockets: ").to_owned(),
                    bars: medians(&table),
                });
            }
            tables.push(table);
        }
    }
    unpin();
    (tables, bars)
}

fn medians(table: &Table) -> Vec<(String, f64)> {
    let median = |row: &crate::report::Row| {
        let values = row.samples.iter().map(|sample| sample.value);
        Some((row.name.clone(), Quartiles::of(values)?.median))
    };
    table.rows.iter().filter_map(median).collect()
}

/// Returns the messages per second that a pinned loop handles if each connection sends as soon as
/// it has its reply.
fn capacity(load: Load, caller: &RefCell<Caller>) -> f64 {
    let served = serve(Way::Pc, load);
    let mut call = Call {
        address: served.address,
        layout: load.layout,
        size: load.size,
        block_one_in: load.block_one_in,
        every: 0,
        messages: 2_000,
    };
    let mut rates = Vec::new();
    for _ in 0..4 {
        let answer = caller.borrow_mut().call(call, |send| send());
        let rate = call.messages as f64 / answer.elapsed.as_secs_f64();
        rates.push(rate);
        call.messages = (rate * load.span().as_secs_f64()) as u64;
    }
    // The first run was cold.
    Quartiles::of(rates.into_iter().skip(1)).map_or(0.0, |rates| rates.median)
}

fn serve(way: Way, load: Load) -> Served {
    let units = load.micros * units_per_micro();
    match load.layout {
        Layout::Apart => pin(0),
        Layout::Free => unpin(),
    }
    Served::start(way, load.size, units)
}

/// The details of a row beyond its compared figure, summed over its rounds.
struct Detail {
    warm: bool,
    messages: u64,
    others: Waits,
    all: Waits,
    switches: u64,
    /// Counts of polls, receives, sends and wake-ups of the poller.
    calls: [u64; 4],
    monitor: Duration,
    /// CPU time of the server, and its elapsed time.
    busy: (Duration, Duration),
    /// The decisions of the strategy since its start.
    counts: StrategyMetrics,
    /// Number of rounds, and number of rounds that ended late.
    rounds: (u64, u64),
}

impl Detail {
    fn new() -> Self {
        Self {
            warm: false,
            messages: 0,
            others: Waits::new(),
            all: Waits::new(),
            switches: 0,
            calls: [0; 4],
            monitor: Duration::ZERO,
            busy: (Duration::ZERO, Duration::ZERO),
            counts: StrategyMetrics::default(),
            rounds: (0, 0),
        }
    }

    fn line(&self, name: &str, with_blockers: bool) -> String {
        let per = |figure: u64| figure as f64 / self.messages.max(1) as f64;
        let waits = |waits: &Waits| {
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| waits.at(part) / 1e3);
            format!("p50 {p50:.0} p99 {p99:.0} p99.9 {p999:.0} µs")
        };
        let all = match with_blockers {
            true => format!(" (with the blockers {})", waits(&self.all)),
            false => String::new(),
        };
        let [polls, reads, writes, wakeups] = self.calls.map(per);
        let monitor = match self.monitor.as_nanos() as u64 {
            0 => String::new(),
            nanos => format!(", monitor {:.0} CPU ns", per(nanos)),
        };
        let late = match self.rounds {
            (_, 0) => String::new(),
            (rounds, late) => format!("; did not keep up in {late} of {rounds} rounds"),
        };
        let counts = match self.counts.tasks() {
            0 => String::new(),
            _ => format!("; since its start: {}", self.counts),
        };
        format!(
            "    {name:16} {}{all}; {:.2} CPUs busy; per message: polls {polls:.2}, reads {reads:.2}, writes {writes:.2}, \
             wakeups {wakeups:.2}, switches {:.2}{monitor}{late}{counts}",
            waits(&self.others),
            self.busy.0.as_secs_f64() / self.busy.1.as_secs_f64(),
            per(self.switches),
        )
    }
}

fn table(
    load: Load,
    percent: u64,
    capacity: f64,
    caller: &Rc<RefCell<Caller>>,
    settings: &Settings,
) -> Table {
    let rate = capacity * percent as f64 / 100.0;
    let pace = Pace {
        every: (1e9 / rate) as u64,
        messages: ((rate * load.span().as_secs_f64()) as u64).max(CONNECTIONS as u64),
    };
    let details: Vec<(&str, Rc<RefCell<Detail>>)> = LINEUP
        .iter()
        .map(|(name, ..)| (*name, Rc::new(RefCell::new(Detail::new()))))
        .collect();
    let lineup = LINEUP
        .iter()
        .zip(&details)
        .map(|((name, role, way), (_, detail))| {
            let (caller, detail) = (Rc::clone(caller), Rc::clone(detail));
            let mut served = None;
            let way = *way;
            let run = move |_| {
                let served = served.get_or_insert_with(|| serve(way, load));
                let (mut caller, mut detail) = (caller.borrow_mut(), detail.borrow_mut());
                round(served, load, pace, &mut caller, &mut detail)
            };
            Entry::new(name, *role, run).quick(false)
        });
    let once = Work { first: 1, most: 1 };
    let table = rounds::race(heading(load, percent), once, lineup.collect(), settings);
    println!("{}", load.title(percent));
    for (name, detail) in &details {
        let detail = detail.borrow();
        if detail.rounds.0 > 0 {
            println!("{}", detail.line(name, load.block_one_in > 0));
        }
    }
    println!();
    table
}

fn heading(load: Load, percent: u64) -> Heading {
    let is_headline = load.layout == Layout::Apart
        && (load.size, load.micros, load.block_one_in, percent) == (64, 2, 0, 70);
    Heading {
        title: load.title(percent),
        unit: "p99 µs",
        better: Better::Less,
        side: Some("CPU µs/message"),
        ratios: is_headline
            .then(|| Ratio::new("ewyk_over_pec_p99_sockets", Role::Peer))
            .into_iter()
            .collect(),
    }
}

/// The number of messages, and the nanoseconds between two of them.
#[derive(Clone, Copy)]
struct Pace {
    every: u64,
    messages: u64,
}

fn round(
    served: &Served,
    load: Load,
    pace: Pace,
    caller: &mut Caller,
    detail: &mut Detail,
) -> Outcome {
    let call = Call {
        address: served.address,
        layout: load.layout,
        size: load.size,
        block_one_in: load.block_one_in,
        every: pace.every,
        messages: pace.messages,
    };
    let (answer, cpu, switched, before, after) = caller.call(call, |send| {
        let (cpu, switched, before) = (cpu_time(), switches(), served.tally());
        let answer = send();
        let cpu = cpu_time().saturating_sub(cpu);
        let now = switches();
        let switched = (now.0 + now.1).saturating_sub(switched.0 + switched.1);
        (answer, cpu, switched, before, served.tally())
    });
    // The first round is the warm-up.
    if std::mem::replace(&mut detail.warm, true) {
        let planned = Duration::from_nanos(pace.every * pace.messages).as_secs_f64();
        detail.messages += pace.messages;
        detail.others.add_all(&answer.others);
        detail.all.add_all(&answer.all);
        detail.switches += switched;
        let (now, then) = (&after.io, &before.io);
        let calls = [
            now.polls - then.polls,
            now.reads - then.reads,
            now.writes - then.writes,
            now.wakeups - then.wakeups,
        ];
        for (sum, more) in detail.calls.iter_mut().zip(calls) {
            *sum += more;
        }
        detail.busy.0 += cpu;
        detail.busy.1 += answer.elapsed;
        detail.monitor += after.monitor.saturating_sub(before.monitor);
        detail.counts = after.counts;
        detail.rounds.0 += 1;
        // If the last message blocks, the run is not late.
        let blocked = if load.block_one_in > 0 { 0.02 } else { 0.0 };
        detail.rounds.1 += u64::from(answer.elapsed.as_secs_f64() > planned * SLACK + blocked);
    }
    Outcome {
        elapsed: answer.elapsed,
        sample: Sample {
            value: answer.others.at(0.99) / 1e3,
            side: Some(cpu.as_nanos() as f64 / 1e3 / pace.messages as f64),
        },
    }
}

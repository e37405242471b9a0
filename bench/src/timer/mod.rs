//! Suite `timer`: a million timers on one thread are added, cancelled and fired.
//!
//! Every contestant runs one "life" per round: the full sequence of operations. The tables show
//! different figures of the same lives. No contestant reads a clock in a timed part unless a row
//! says so.

use std::time::{Duration, Instant};

use crate::counting;
use crate::machine::Watch;
use crate::report::{Better, Heading, Ratio, Role, Row, Sample, Table};
use crate::rounds::Settings;

mod contest;
mod lineup;
mod threads;

use contest::{Closure, Payload, Timers};
use lineup::{HashWheel, LazyHeap, Ours, Tokio, Tree};

/// Number of outstanding timers.
const OUTSTANDING: usize = 1_000_000;

/// The range of deadlines, typical for timeouts of requests and idle connections.
const FIRST: Duration = Duration::from_secs(10);
const LAST: Duration = Duration::from_secs(60);

/// Default numbers of rounds: with and without `--quick`.
const ROUNDS: (usize, usize) = (6, 9);

/// The deadlines, and the order of cancellation.
struct Plan {
    deadlines: Vec<u64>,
    order: Vec<u32>,
}

impl Plan {
    fn new(count: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (first, span) = (FIRST.as_nanos() as u64, (LAST - FIRST).as_nanos() as u64);
        let deadlines = (0..count).map(|_| first + next() % span).collect();
        let mut order: Vec<u32> = (0..count as u32).collect();
        for last in (1..count).rev() {
            order.swap(last, (next() % (last as u64 + 1)) as usize);
        }
        Self { deadlines, order }
    }
}

/// The result of one life, in ns per timer.
#[derive(Clone, Copy, Debug, Default)]
struct LifeTimes {
    add: f64,
    cancel: f64,
    fire: f64,
}

/// One contestant: a function that runs a life, and a function that measures memory.
struct Contestant {
    name: &'static str,
    role: Role,
    live: fn(&Plan) -> LifeTimes,
    memory: fn(&Plan) -> f64,
}

fn contestant<P, C>(name: &'static str, role: Role) -> Contestant
where
    P: Timers<(u64, u64)>,
    C: Timers<Closure>,
{
    Contestant {
        name,
        role,
        live: |plan| LifeTimes {
            fire: fire::<C>(plan),
            ..keep::<P>(plan)
        },
        memory: memory::<P>,
    }
}

/// Returns the contestants. The first row is ours. tokio has ratios of its own; see `only_tokio`.
fn lineup() -> Vec<Contestant> {
    vec![
        contestant::<Ours<_>, Ours<_>>("tidegate wheel", Role::Ours),
        contestant::<Tokio, Tokio>("tokio Sleep", Role::Peer),
        contestant::<HashWheel<_>, HashWheel<_>>("hierarchical_hash_wheel_timer", Role::Peer),
        contestant::<LazyHeap<_>, LazyHeap<_>>("BinaryHeap (lazy, swept at half)", Role::Peer),
        contestant::<Tree<_>, Tree<_>>("BTreeMap (split off)", Role::Peer),
    ]
}

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let plan = Plan::new(OUTSTANDING);
    let wanted = |one: &Contestant| settings.wants(one.name);
    let lineup: Vec<_> = lineup().into_iter().filter(wanted).collect();
    let (lives, others) = live(&plan, &lineup, settings);
    let memory: Vec<f64> = lineup.iter().map(|one| (one.memory)(&plan)).collect();
    let tables = Tables {
        lineup,
        lives,
        memory,
        others,
    };
    let mut tables = tables.all();
    tables.extend(threads::run(settings));
    tables
}

/// Runs every contestant once per round, alternately forwards and backwards. A smaller round warms
/// up.
fn live(
    plan: &Plan,
    lineup: &[Contestant],
    settings: &Settings,
) -> (Vec<Vec<LifeTimes>>, Option<f64>) {
    let small = Plan::new(OUTSTANDING / 10);
    for contestant in lineup {
        (contestant.live)(&small);
    }
    let rounds = settings
        .rounds
        .unwrap_or(if settings.quick { ROUNDS.0 } else { ROUNDS.1 });
    let rounds = if settings.quick {
        rounds.max(5)
    } else {
        rounds
    };
    let mut lives = vec![Vec::new(); lineup.len()];
    let watch = Watch::new();
    for round in 0..rounds {
        for place in 0..lineup.len() {
            let place = if round % 2 == 0 {
                place
            } else {
                lineup.len() - 1 - place
            };
            lives[place].push((lineup[place].live)(plan));
        }
        eprintln!("    round {} of {rounds}", round + 1);
    }
    (lives, watch.others())
}

fn add_into<T: Payload, P: Timers<T>>(
    timers: &mut P,
    plan: &Plan,
    handles: &mut Vec<Option<P::Handle>>,
) {
    handles.clear();
    let numbers = 0..;
    for (&deadline, number) in plan.deadlines.iter().zip(numbers) {
        handles.push(Some(timers.add(deadline, T::fresh(number))));
    }
}

fn cancel_all<T: Payload, P: Timers<T>>(
    timers: &mut P,
    plan: &Plan,
    handles: &mut [Option<P::Handle>],
) {
    for &which in &plan.order {
        if let Some(handle) = handles[which as usize].take() {
            timers.cancel(handle);
        }
    }
}

/// Adds all timers and cancels all in random order.
fn keep<P: Timers<(u64, u64)>>(plan: &Plan) -> LifeTimes {
    let mut timers = P::new();
    timers.within(|timers| {
        // The pages are touched before the measurement, so that page faults of the handles do not
        // count.
        let mut handles: Vec<Option<P::Handle>> = plan.order.iter().map(|_| None).collect();
        LifeTimes {
            add: per_timer(plan, || add_into(timers, plan, &mut handles)),
            cancel: per_timer(plan, || cancel_all(timers, plan, &mut handles)),
            fire: 0.0,
        }
    })
}

/// Fires a million boxed closures with random deadlines, after a million random cancellations.
fn fire<P: Timers<Closure>>(plan: &Plan) -> f64 {
    let mut timers = P::new();
    let kept = timers.within(|timers| {
        let mut handles = Vec::with_capacity(plan.deadlines.len());
        add_into(timers, plan, &mut handles);
        cancel_all(timers, plan, &mut handles);
        add_into(timers, plan, &mut handles);
        handles
    });
    let before = contest::fired();
    let now = (LAST + Duration::from_secs(1)).as_nanos() as u64;
    let each = per_timer(plan, || timers.expire(now));
    let fired = contest::fired() - before;
    assert_eq!(fired, plan.deadlines.len() as u64, "every timer fires once");
    timers.within(|_| drop(kept));
    each
}

/// Returns the allocated bytes per outstanding timer, including its handle.
fn memory<P: Timers<(u64, u64)>>(plan: &Plan) -> f64 {
    let mut timers = P::new();
    timers.within(|timers| {
        let (bytes, handles) = counting::bytes_of(|| {
            let mut handles = Vec::with_capacity(plan.deadlines.len());
            let numbers = 0..;
            for (&deadline, number) in plan.deadlines.iter().zip(numbers) {
                handles.push(timers.add(deadline, <(u64, u64)>::fresh(number)));
            }
            handles
        });
        drop(handles);
        bytes as f64 / plan.deadlines.len() as f64
    })
}

fn per_timer(plan: &Plan, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_nanos() as f64 / plan.deadlines.len() as f64
}

/// The lives of a whole run, from which the tables are made.
struct Tables {
    lineup: Vec<Contestant>,
    lives: Vec<Vec<LifeTimes>>,
    memory: Vec<f64>,
    others: Option<f64>,
}

impl Tables {
    fn all(&self) -> Vec<Table> {
        let less = Better::Less;
        let mut tables = vec![
            self.look(
                "1,000,000 added, then cancelled in random order: the pair",
                less,
                &["timer_add_cancel"],
                |life| life.add + life.cancel,
            ),
            self.against_tokio(
                "the same against tokio alone",
                "timer_add_cancel_over_tokio",
                |life| life.add + life.cancel,
            ),
            self.against_tokio("add", "timer_add_over_tokio", |life| life.add),
            self.look("cancel, in random order", less, &[], |life| life.cancel),
            self.look(
                "boxed closures fired after a million random cancellations [M/s]",
                Better::More,
                &["timer_expire"],
                |life| 1_000.0 / life.fire,
            ),
        ];
        tables.push(self.memory());
        tables
    }

    fn look(
        &self,
        title: &str,
        better: Better,
        ratios: &[&str],
        figure: fn(&LifeTimes) -> f64,
    ) -> Table {
        let unit = match better {
            Better::More => "M/s",
            Better::Less => "ns",
        };
        let rows = self.lineup.iter().zip(&self.lives).map(|(one, lives)| Row {
            name: one.name.to_owned(),
            role: one.role,
            samples: lives.iter().map(|life| sample(figure(life))).collect(),
        });
        self.table(title, unit, better, ratios, rows.collect())
    }

    fn against_tokio(&self, title: &str, ratio: &str, figure: fn(&LifeTimes) -> f64) -> Table {
        let mut table = self.look(title, Better::Less, &[ratio], figure);
        only_tokio(&mut table);
        table
    }

    fn memory(&self) -> Table {
        let rows = self
            .lineup
            .iter()
            .zip(&self.memory)
            .map(|(one, &bytes)| Row {
                name: one.name.to_owned(),
                role: one.role,
                samples: vec![sample(bytes)],
            });
        let title = "allocated per outstanding timer, handle included";
        let ratio = ["timer_memory_over_tokio"];
        let mut table = self.table(title, "bytes", Better::Less, &ratio, rows.collect());
        only_tokio(&mut table);
        table
    }

    fn table(
        &self,
        title: &str,
        unit: &'static str,
        better: Better,
        ratios: &[&str],
        rows: Vec<Row>,
    ) -> Table {
        let ratio = |name: &&str| Ratio::new(*name, Role::Peer);
        Table {
            heading: Heading {
                title: format!("timer, {title}"),
                unit,
                better,
                side: None,
                ratios: ratios.iter().map(ratio).collect(),
            },
            rows,
            others: self.others,
        }
    }
}

/// Leaves tokio as the only peer of a table, so that its ratio is against tokio.
fn only_tokio(table: &mut Table) {
    for row in &mut table.rows {
        if row.role == Role::Peer && !row.name.starts_with("tokio") {
            row.role = Role::Floor;
        }
    }
}

fn sample(value: f64) -> Sample {
    Sample { value, side: None }
}

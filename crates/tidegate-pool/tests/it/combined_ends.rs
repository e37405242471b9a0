//! Jobs, scheduled tasks, views, removals, cancels, resizes and dumps against each other and against
//! the end of the pool, over a queue, a thread factory and threads of the program. Each closure runs
//! at most once and is dropped once, and each completion ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::{ManualClock, Task, ThreadBuilder};
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_pool::{OrderedView, PoolLimits, WorkerPool};
use tidegate_promise::{Completion, Outcome};
use tidegate_testkit::{Counter, DropCount, Rng, rounds, until};

use crate::SECOND;

const SUBMITTERS: usize = 3;
const JOBS: usize = 40;

/// How the pool ends while it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    AtOnce,
    InTime,
    FromInside,
    Twice,
    ByHandles,
}

const ENDS: [End; 5] = [
    End::AtOnce,
    End::InTime,
    End::FromInside,
    End::Twice,
    End::ByHandles,
];

/// Which part of the pool the program supplies.
#[derive(Clone, Copy, Debug)]
enum Part {
    None,
    Queue,
    Factory,
    Lender,
}

const PARTS: [Part; 4] = [Part::None, Part::Queue, Part::Factory, Part::Lender];

/// What becomes of the tasks that are handed back.
#[derive(Clone, Copy, Debug)]
enum Rest {
    Run,
    Dropped,
    /// Nobody takes them.
    Left,
}

const RESTS: [Rest; 3] = [Rest::Run, Rest::Dropped, Rest::Left];

/// The newest job first.
#[derive(Default)]
struct Newest(JobList);

impl JobQueue for Newest {
    fn push(&mut self, job: Job) -> JobKey {
        self.0.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        self.0.pop_back().map(Popped::Run)
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.0.remove(key)
    }
}

fn build(clock: &ManualClock, part: Part, lender: &WorkerPool) -> WorkerPool {
    let pool = WorkerPool::builder("workers").clock(clock).core(2).max(2);
    let pool = pool.queue(16).on_unhandled(|_, _| ());
    let spawn = |job: tidegate_core::thread::ThreadJob| {
        thread::Builder::new().spawn(|| job.run()).map(drop)
    };
    let pool = match part {
        Part::None => pool,
        Part::Queue => pool.queue_of(Newest::default()),
        Part::Factory => pool.threads(ThreadBuilder::new("own").spawner(spawn)),
        Part::Lender => {
            let lends = lender.clone();
            pool.borrow_threads(move |task| lends.execute_task(task))
        }
    };
    pool.build().unwrap()
}

/// Counts what the closures and completions of one round do.
#[derive(Clone, Default)]
struct Counts {
    made: Counter,
    dropped: Counter,
    awaited: Counter,
    ended: Counter,
    /// Completions that do not say whether their closure has run.
    wrong: Counter,
}

impl Counts {
    /// Returns a closure that notes its run, and the note.
    fn closure(&self, yields: u64) -> (impl FnOnce() + Send + 'static + use<>, Arc<AtomicBool>) {
        self.made.hit();
        let (dropped, ran) = (DropCount::new(&self.dropped), Arc::<AtomicBool>::default());
        let runs = Arc::clone(&ran);
        let run = move || {
            runs.store(true, Ordering::Relaxed);
            tidegate_testkit::yield_times(yields);
            drop(dropped);
        };
        (run, ran)
    }

    /// Counts the end of a completion. It succeeds if its closure has run, and only then.
    fn watch(&self, completion: Completion<()>, ran: Arc<AtomicBool>, is_cancelled: bool) {
        self.awaited.hit();
        if is_cancelled {
            completion.cancel();
        }
        let (ended, wrong) = (self.ended.clone(), self.wrong.clone());
        completion.finally(move |outcome| {
            let is_success = matches!(outcome, Outcome::Success(()));
            if is_success != ran.load(Ordering::Relaxed) {
                wrong.hit();
            }
            ended.hit();
        });
    }
}

fn submit(pool: &WorkerPool, view: &OrderedView, random: &mut Rng, counts: &Counts) {
    let (run, ran) = counts.closure(random.below(3));
    let after = Duration::from_millis(random.below(30));
    let is_cancelled = random.below(4) == 0;
    let completion = match random.below(7) {
        0 => return drop(pool.execute(run)),
        1 => return drop(view.execute(run)),
        2 => {
            if let (Ok(queued), true) = (pool.enqueue(Task::new(run)), is_cancelled) {
                drop(queued.remove());
            }
            return;
        }
        3 => pool.submit(run).ok(),
        4 => pool.schedule(after, run).ok(),
        5 => view.schedule(after, run).ok(),
        _ => {
            let mut once = Some(run);
            let run = move || once.take().into_iter().for_each(|run| run());
            // Its completion never succeeds.
            return drop(pool.schedule_with_fixed_delay(after, after + SECOND, run));
        }
    };
    if let Some(completion) = completion {
        counts.watch(completion, ran, is_cancelled);
    }
}

fn disturb(pool: &WorkerPool, clock: &ManualClock, random: &mut Rng) {
    match random.below(4) {
        0 => clock.jump(Duration::from_millis(random.below(20))),
        1 => assert!(pool.dump().to_string().contains("workers")),
        2 => {
            let limits = PoolLimits {
                queue: 1 + random.index(16),
                ..pool.limits()
            };
            // Refused once the pool has ended.
            drop(pool.resize(limits));
        }
        _ => drop((pool.metrics(), pool.free_threads())),
    }
}

fn end_pool(end: End, pool: &WorkerPool, clock: &ManualClock) {
    match end {
        End::AtOnce => drop(pool.shutdown(Duration::ZERO)),
        End::InTime => {
            drop(pool.shutdown(SECOND));
            clock.jump(SECOND);
        }
        End::FromInside => {
            let own = pool.clone();
            if pool.execute(move || drop(own.shutdown(SECOND))).is_err() {
                drop(pool.shutdown(SECOND));
            }
            clock.jump(SECOND);
        }
        End::Twice => thread::scope(|scope| {
            for timeout in [SECOND, Duration::ZERO] {
                scope.spawn(move || drop(pool.shutdown(timeout)));
            }
        }),
        End::ByHandles => {}
    }
}

fn round(seed: u64, end: End, part: Part, rest: Rest) {
    let mut random = Rng::new(seed);
    let (clock, counts) = (ManualClock::new(), Counts::default());
    let lender = WorkerPool::builder("lender").max(2).build().unwrap();
    let pool = build(&clock, part, &lender);
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    let (submitted, end_at) = (AtomicUsize::new(0), random.index(SUBMITTERS * JOBS));
    thread::scope(|scope| {
        let (pool, view, counts, submitted) = (&pool, &view, &counts, &submitted);
        let submitters: Vec<_> = (0..SUBMITTERS)
            .map(|_| {
                let mut random = random.fork();
                scope.spawn(move || {
                    for _ in 0..JOBS {
                        submitted.fetch_add(1, Ordering::Relaxed);
                        submit(pool, view, &mut random, counts);
                    }
                })
            })
            .collect();
        while submitted.load(Ordering::Relaxed) < end_at {
            disturb(pool, &clock, &mut random);
        }
        end_pool(end, pool, &clock);
        while submitters.iter().any(|one| !one.is_finished()) {
            disturb(pool, &clock, &mut random);
        }
    });
    let lists = [pool.handed_back(), view.handed_back()];
    let kept = !matches!((rest, end), (Rest::Left, _) | (_, End::ByHandles));
    let mut lists = kept.then_some(lists);
    drop((pool, view));
    // A task that is not due keeps its view, and the view its pool.
    clock.jump(SECOND);
    let awaited = counts.awaited.count();
    until("each completion ends and each closure is dropped", || {
        // A turn that runs at the end hands back later, as does a job that is stuck.
        let taken = lists.iter().flatten().flat_map(|list| list.take());
        let taken: Vec<_> = taken.collect();
        match rest {
            Rest::Run => taken.into_iter().for_each(Task::run),
            _ => drop(taken),
        }
        counts.dropped.count() == counts.made.count() && counts.ended.count() == awaited
    });
    drop(lists.take());
    assert_eq!(counts.wrong.count(), 0);
}

#[test]
fn closures_are_dropped_once_however_everything_ends() {
    for seed in 0..rounds(1) as u64 {
        for (at, end) in ENDS.into_iter().enumerate() {
            for (kind, part) in PARTS.into_iter().enumerate() {
                for (way, rest) in RESTS.into_iter().enumerate() {
                    let seed = seed * 1000 + (at * 100 + kind * 10 + way) as u64;
                    println!("seed {seed}: {end:?}, {part:?}, {rest:?}");
                    round(seed, end, part, rest);
                }
            }
        }
    }
}

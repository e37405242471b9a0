//! Isolations, commands and their pools leave neither threads nor descriptors behind, however they
//! end. The test is alone in its process, because it counts both.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tidegate_core::{ManualClock, Task, ThreadBuilder};
use tidegate_isolate::{
    CallHandle, Collapser, CollapserConfig, CollapserError, CollapserScope, Command,
    CommandBuilder, CommandError, ConcurrencyStrategy, Entry, Interrupt, Isolation, PermitConfig,
    PoolConfig, ShutdownReport, Verdict,
};
use tidegate_pool::queue::JobList;
use tidegate_pool::{HandedBack, WorkerPool};
use tidegate_promise::{Completion, SharedCompletion};
use tidegate_testkit::{Gate, until};

const SECOND: Duration = Duration::from_secs(1);

type Numbers = Command<u32, &'static str>;
type Answer = Completion<u32, CommandError<&'static str>>;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// How the calls of an isolation end, and the isolation itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    /// Completions, futures and entries are dropped while their calls wait or run.
    Dropped,
    TimedOut,
    Cancelled,
    Interrupted,
    KeysRemoved,
    ShutDownAtOnce(Rest),
    ShutDownInTime(Rest),
    ShutDownNow,
    /// The isolation is dropped before its commands, which are called once more.
    RegistryFirst,
    PoolFirst(Rest),
}

/// What becomes of the calls that are handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Taken,
    /// Nobody takes them, and the reports are dropped.
    Left,
    /// Nobody takes them, and the reports are dropped after the isolation and its commands.
    LeftLater,
    /// They are taken from the reports and run after the isolation and its commands are dropped.
    TakenLater,
}

const ENDS: [End; 20] = [
    End::Done,
    End::Dropped,
    End::TimedOut,
    End::Cancelled,
    End::Interrupted,
    End::KeysRemoved,
    End::ShutDownAtOnce(Rest::Taken),
    End::ShutDownAtOnce(Rest::Left),
    End::ShutDownAtOnce(Rest::LeftLater),
    End::ShutDownAtOnce(Rest::TakenLater),
    End::ShutDownInTime(Rest::Taken),
    End::ShutDownInTime(Rest::Left),
    End::ShutDownInTime(Rest::LeftLater),
    End::ShutDownInTime(Rest::TakenLater),
    End::ShutDownNow,
    End::RegistryFirst,
    End::PoolFirst(Rest::Taken),
    End::PoolFirst(Rest::Left),
    End::PoolFirst(Rest::LeftLater),
    End::PoolFirst(Rest::TakenLater),
];

/// Which parts of a pool the program supplies.
#[derive(Clone, Copy, Debug)]
enum Parts {
    None,
    Queue,
    Factory,
    Executor,
}

const PARTS: [Parts; 4] = [Parts::None, Parts::Queue, Parts::Factory, Parts::Executor];

fn isolation(clock: &ManualClock, parts: Parts) -> (Isolation, Option<WorkerPool>) {
    let builder = Isolation::builder().clock(clock).on_unhandled(|_, _| ());
    let default = ConcurrencyStrategy::default;
    let (builder, lender) = match parts {
        Parts::None => (builder, None),
        Parts::Queue => {
            let queue = move |_: &_| default().queue(JobList::default());
            (builder.concurrency_strategy(queue), None)
        }
        Parts::Factory => {
            let spawn = |job: tidegate_core::thread::ThreadJob| {
                std::thread::Builder::new().spawn(|| job.run()).map(drop)
            };
            let threads = move |_: &_| {
                let threads = ThreadBuilder::new("own").spawner(spawn);
                default().threads(threads)
            };
            (builder.concurrency_strategy(threads), None)
        }
        Parts::Executor => {
            let lender = WorkerPool::builder("lender").max(8).build().unwrap();
            let lends = lender.clone();
            let executor = move |_: &_| {
                let lends = lends.clone();
                default().executor(move |task: Task| lends.execute_task(task))
            };
            (builder.concurrency_strategy(executor), Some(lender))
        }
    };
    (builder.build().unwrap(), lender)
}

fn builder(key: &str) -> CommandBuilder<u32, &'static str> {
    Command::builder(key).group("tests").timeout(SECOND)
}

/// The calls of one isolation, as they are when it ends: running, queued, waiting for a permit, in
/// their fallback, and in a batch that has not begun.
struct Calls {
    commands: Vec<Numbers>,
    answers: Vec<Answer>,
    handles: Vec<CallHandle>,
    /// Holds the only permit of a command.
    entry: Entry,
    /// Waits for that permit, and runs.
    _futures: [Pending; 2],
    _batches: Collapser<u32, u32, &'static str>,
    _batch: Completion<u32, CollapserError<&'static str>>,
}

impl Calls {
    /// Drops the isolation, then everything else but the answers.
    fn end(self, isolation: Isolation) -> Vec<Answer> {
        drop(isolation);
        self.answers
    }
}

type Pending = Pin<Box<dyn Future<Output = Result<u32, CommandError<&'static str>>>>>;

/// Queues work that runs until the gate opens, and waits until it runs if it `begins`.
fn queue(command: &Numbers, go_on: &Gate, begins: bool) -> (Answer, CallHandle) {
    let (inside, until) = (Gate::new(), go_on.clone());
    let mine = inside.clone();
    let mut call = command.call();
    let handle = call.handle();
    let answer = call.queue(move |_| {
        mine.open();
        until.wait();
        Ok(1)
    });
    if begins {
        inside.wait();
    }
    (answer, handle)
}

/// Polls a call that waits or runs for ever.
fn polled(command: &Numbers) -> Pending {
    let mut future: Pending = Box::pin(command.run_async(|_| pending()));
    let polled = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    future
}

fn calls(isolation: &Isolation, go_on: &Gate) -> Calls {
    let threads = PoolConfig {
        core: 1,
        queue: 4,
        ..PoolConfig::default()
    };
    let busy = builder("busy").threads(threads.clone()).build(isolation);
    let (begun, gate) = (Gate::new(), go_on.clone());
    let here = begun.clone();
    let falls = builder("falls").threads(threads).fallback(move |_| {
        here.open();
        gate.wait();
        Ok(2)
    });
    let permits = PermitConfig {
        max_wait: 9 * SECOND,
        ..PermitConfig::from(1)
    };
    let narrow = builder("narrow").permits(permits).build(isolation);
    let batches = Command::builder("batch").group("tests").build(isolation);
    let commands = [busy, falls.build(isolation), narrow].map(Result::unwrap);
    let [busy, falls, narrow] = &commands;
    let mut queued = vec![queue(busy, go_on, true)];
    queued.extend((0..3).map(|_| queue(busy, go_on, false)));
    let mut call = falls.call();
    let handle = call.handle();
    queued.push((call.queue(|_| Err("on purpose")), handle));
    begun.wait();
    queued.push(queue(falls, go_on, false));
    let (answers, handles) = queued.into_iter().unzip();
    let entry = narrow.admit().unwrap();
    let free = builder("free").build(isolation).unwrap();
    let futures = [polled(narrow), polled(&free)];
    let config = CollapserConfig {
        scope: CollapserScope::Global,
        ..CollapserConfig::default()
    };
    let double = |numbers: &[u32], _: &_| Ok(numbers.iter().map(|n| (*n, n * 2)).collect());
    let batches = Collapser::new(&batches.unwrap(), config, double).unwrap();
    Calls {
        commands: commands.into(),
        answers,
        handles,
        entry,
        _futures: futures,
        _batch: batches.submit(3),
        _batches: batches,
    }
}

/// Uses an isolation in every way, and ends it.
fn use_and_end(end: End, parts: Parts, opens_first: bool) {
    let (clock, go_on) = (ManualClock::new(), Gate::new());
    let (isolation, lender) = isolation(&clock, parts);
    let calls = calls(&isolation, &go_on);
    if opens_first {
        go_on.open();
    }
    end_calls(end, (isolation, lender), calls, &clock, &go_on);
    go_on.open();
    // A batch was accepted, so it runs when its time has come. The timeouts come later.
    clock.jump(SECOND / 4);
}

fn end_calls(
    end: End,
    (isolation, lender): (Isolation, Option<WorkerPool>),
    mut calls: Calls,
    clock: &ManualClock,
    go_on: &Gate,
) {
    match end {
        End::Done => {
            go_on.open();
            calls.entry.end::<&'static str>(Verdict::Success).unwrap();
            calls.answers.into_iter().for_each(|answer| {
                answer.wait().unwrap();
            });
        }
        End::Dropped => drop(calls),
        End::TimedOut => clock.jump(2 * SECOND),
        End::Cancelled => calls.answers.iter().for_each(|answer| {
            answer.cancel();
        }),
        End::Interrupted => calls.handles.iter().for_each(|handle| {
            handle.cancel(Interrupt::Yes);
        }),
        End::KeysRemoved => {
            let keys = ["busy", "falls", "narrow", "free", "batch"];
            assert!(keys.into_iter().all(|key| isolation.remove(key)));
        }
        End::ShutDownAtOnce(rest) => {
            let ended = isolation.shutdown(Duration::ZERO);
            leave(
                rest,
                (handed_back(&ended), ended),
                move || calls.end(isolation),
                go_on,
            );
        }
        End::ShutDownInTime(rest) => {
            let ended = isolation.shutdown(SECOND / 4);
            clock.jump(SECOND / 4);
            go_on.open();
            leave(
                rest,
                (handed_back(&ended), ended),
                move || calls.end(isolation),
                go_on,
            );
        }
        End::ShutDownNow => isolation.shutdown_now(),
        End::RegistryFirst => {
            drop(isolation);
            let late = calls.commands[0].queue(|_| Ok(4));
            calls.answers.push(late);
        }
        End::PoolFirst(rest) => {
            let pools = ["busy", "falls"].map(|key| isolation.pool(key).unwrap());
            let ended = pools.each_ref().map(|pool| {
                let ended = pool.shutdown(Duration::ZERO);
                ended.wait().unwrap();
                ended
            });
            let handed_back = pools.map(|pool| pool.handed_back());
            leave(
                rest,
                (handed_back.into(), ended),
                move || calls.end(isolation),
                go_on,
            );
            if let Some(lender) = lender {
                drop(lender.shutdown(Duration::ZERO));
            }
        }
    }
}

/// Returns what the pools hand back.
fn handed_back(ended: &SharedCompletion<ShutdownReport>) -> Vec<HandedBack> {
    let pools = ended.wait().unwrap().pools.into_iter();
    let of_pool = |(key, ended): (_, Result<tidegate_pool::ShutdownReport, _>)| match ended {
        Ok(ended) => ended.handed_back,
        Err(why) => panic!("{key}: {why}"),
    };
    pools.map(of_pool).collect()
}

/// Ends an isolation whose pools have ended, with what they hand back. The answers of the calls are
/// kept longest: a call that nobody takes tells its caller.
fn leave<R>(
    rest: Rest,
    (lists, reports): (Vec<HandedBack>, R),
    ends: impl FnOnce() -> Vec<Answer>,
    go_on: &Gate,
) {
    let mut kept = Some((lists, reports));
    match (rest, &kept) {
        (Rest::Left, _) => kept = None,
        (Rest::Taken, Some((lists, _))) => lists.iter().for_each(|list| drop(list.take())),
        _ => {}
    }
    let answers = ends();
    if let (Rest::TakenLater, Some((lists, _))) = (rest, &kept) {
        go_on.open();
        let tasks: Vec<_> = lists.iter().flat_map(HandedBack::take).collect();
        tasks.into_iter().for_each(Task::run);
    }
    drop(kept);
    let all_end = |answers: &[Answer]| {
        let what = format!("calls have ended after {rest:?}");
        until(&what, || answers.iter().all(Completion::is_done));
    };
    all_end(&answers[1..4]);
    // The others run until the gate opens, or their fallbacks do.
    go_on.open();
    all_end(&answers);
}

#[test]
fn isolations_leave_neither_threads_nor_descriptors_behind() {
    // Threads that the process keeps, such as that of the default hook.
    use_and_end(End::Done, Parts::None, true);
    until("the first one has ended", || threads() <= 2);
    let before = (descriptors(), threads());
    let rounds = tidegate_testkit::rounds(3);
    for round in 0..rounds {
        for (at, end) in ENDS.into_iter().enumerate() {
            for parts in PARTS {
                use_and_end(end, parts, (round + at) % 2 == 0);
            }
        }
    }
    until("all have ended", || (descriptors(), threads()) == before);
}

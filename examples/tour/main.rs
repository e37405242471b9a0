//! A tour of the library: runs each feature once and prints what came of it.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use tidegate::loops::{ShutdownError, Watchdog};
use tidegate::prelude::*;
use tidegate::promise::promise;
use tidegate::{Result, Ticker};

mod parts;
mod sockets;

/// Pairs of an action and its result.
type Lines = Vec<(String, String)>;

/// One part of the tour.
type Part = fn() -> Result<Lines>;

/// The parts, in the order in which a newcomer would use the features.
const PARTS: [(&str, Part); 15] = [
    ("promise", promises),
    ("wait", waits),
    ("event loop", event_loop),
    ("schedule", schedules),
    ("timeout", timeouts),
    ("future", futures),
    ("group", group),
    ("overload", overload),
    ("shutdown", shutdown),
    ("pool", parts::pool),
    ("strategy", parts::strategy),
    ("server", parts::server),
    ("roaming", sockets::roams),
    ("tls", sockets::tls),
    ("bulkhead", parts::bulkhead),
];

fn main() -> Result<()> {
    let (mut rows, mut width) = (Vec::new(), 0);
    for (name, part) in PARTS {
        for (done, came) in part()? {
            width = width.max(done.len());
            rows.push((name, done, came));
        }
    }
    let mut text = "Tidegate: a runtime for services that must not fall over.\n\n".to_owned();
    for (name, done, came) in rows {
        text += &format!("{name:<10}  {done:<width$}  {came}\n");
    }
    // A reader that left early, such as `head`, is not a failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn line(done: &str, came: impl std::fmt::Display) -> (String, String) {
    (done.to_owned(), came.to_string())
}

fn promises() -> Result<Lines> {
    let home = EventLoop::builder("home").build()?;
    let (promise, answer) = home.promise::<u32>();
    let (heard, receiver) = mpsc::channel();
    answer.on_complete(move |outcome| {
        let place =
            EventLoop::current().map_or("nowhere".to_owned(), |here| here.name().to_owned());
        let _ = heard.send(format!("{:?} on loop `{place}`", outcome.success()));
    });
    promise.succeed(123_456)?;
    let listener = receiver.recv()?;

    let (dropped, abandoned) = home.promise::<u32>();
    drop(dropped);
    let abandoned = abandoned.wait().expect_err("it was not completed");

    let parts = (1..=3).map(|n| home.submit(move || n * n));
    let squares = Completion::all(parts.collect::<std::result::Result<Vec<_>, _>>()?).wait()?;
    Ok(vec![
        line("completed on another thread; its listener ran", listener),
        line(
            "dropped instead of completed",
            format!("failed: {abandoned}"),
        ),
        line("three promises combined into one", format!("{squares:?}")),
    ])
}

fn waits() -> Result<Lines> {
    let (one, two) = (
        EventLoop::builder("one").build()?,
        EventLoop::builder("two").build()?,
    );
    let (_open, answer) = two.promise::<u32>();
    let refused = one.submit(move || answer.wait().map_err(|why| why.to_string()))?;
    let refused = refused.wait()?.expect_err("a loop must not block");

    let (slow, answer) = promise::<u32>();
    let mut answer = answer;
    let late = answer.wait_timeout(Duration::from_millis(1));
    let late = late.expect_err("it is not completed");
    drop(slow);

    let circle = circle(&one, &two)?;
    Ok(vec![
        line(
            "a loop waits for another loop's promise",
            format!("refused: {refused}"),
        ),
        line(
            "two loops, allowed to block, wait for each other",
            format!("refused: {circle}"),
        ),
        line("a wait with a timeout", late),
    ])
}

/// Makes `one` wait for `two` while `two` waits for `one`. Returns the reason why one of the waits
/// was refused.
fn circle(one: &EventLoop, two: &EventLoop) -> Result<String> {
    let (_a, of_one) = one.promise::<()>();
    let (_b, of_two) = two.promise::<()>();
    let token = CancelToken::new();
    let cross = |home: &EventLoop, mut other: Completion<()>| {
        let token = token.clone();
        home.submit(move || {
            let waited = Blocking::allow(|| other.wait_with_cancel(&token));
            // The loop whose wait is refused cancels the wait of the other one.
            token.cancel();
            waited.map_err(|why| (why.is_refused(), why.to_string()))
        })
    };
    let (first, second) = (cross(one, of_two)?, cross(two, of_one)?);
    let outcomes = [first.wait()?, second.wait()?];
    let refused = outcomes.into_iter().filter_map(std::result::Result::err);
    let mut refused = refused.filter(|(refused, _)| *refused).map(|(_, why)| why);
    refused
        .next_back()
        .ok_or_else(|| "the circle was not refused".into())
}

fn event_loop() -> Result<Lines> {
    const TASKS: u64 = 1_000_000;
    let reports = Arc::new(AtomicU64::new(0));
    let heard = Arc::clone(&reports);
    let hook = OnUnhandled::new(move |_, _| {
        heard.fetch_add(1, Ordering::Relaxed);
    });
    let home = EventLoop::builder("busy").report_to(hook.clone()).build()?;
    let count = Arc::new(AtomicU64::new(0));
    let clock = Clock::system();
    let begin = clock.now();
    for _ in 0..TASKS {
        let count = Arc::clone(&count);
        let mut task = Task::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        while let Err(full) = home.execute_task(task) {
            std::thread::yield_now();
            task = full.into_inner();
        }
    }
    home.submit(|| ())?.wait()?;
    let took = clock.now() - begin;
    let rate = TASKS as f64 / took.as_secs_f64() / 1e6;
    let metrics = home.metrics();

    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    home.execute(|| panic!("on purpose"))?;
    let alive = home.submit(|| "the loop continues")?.wait()?;
    std::panic::set_hook(quiet);
    hook.flush()?;
    Ok(vec![
        line(
            "a million tasks from another thread",
            format!("{rate:.1} million a second"),
        ),
        line(
            "metrics of the loop",
            format!("{} turns, {} wakeups", metrics.turns, metrics.wakeups),
        ),
        line(
            "a task that panics",
            format!("{alive}; {} report", reports.load(Ordering::Relaxed)),
        ),
    ])
}

fn schedules() -> Result<Lines> {
    let clock = ManualClock::new();
    let home = EventLoop::builder("home").clock(&clock).build()?;
    let runs = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&runs);
    let tick = home.schedule_at_fixed_rate(Duration::ZERO, Duration::from_secs(60), move || {
        count.fetch_add(1, Ordering::Relaxed);
    })?;
    let began = Clock::system().now();
    clock.advance(Duration::from_secs(24 * 3600));
    home.settle();
    let took = Clock::system().now() - began;
    let ran = runs.load(Ordering::Relaxed);
    tick.cancel();
    Ok(vec![line(
        "every minute for a day, on a manual clock",
        format!("{ran} runs in {:.1} ms", took.as_secs_f64() * 1e3),
    )])
}

fn timeouts() -> Result<Lines> {
    const MANY: u64 = 100_000;
    let clock = ManualClock::new();
    let home = EventLoop::builder("home").clock(&clock).build()?;
    let fired = Arc::new(AtomicU64::new(0));
    let began = Clock::system().now();
    let handles = (0..MANY).map(|at| {
        let fired = Arc::clone(&fired);
        home.schedule_coarse(Duration::from_millis(30_000 + at), move || {
            fired.fetch_add(1, Ordering::Relaxed);
        })
    });
    let handles = handles.collect::<std::result::Result<Vec<_>, _>>()?;
    let cancelled = handles.iter().skip(1).filter(|one| one.cancel()).count();
    let took = Clock::system().now() - began;
    home.settle();
    clock.advance(Duration::from_secs(3600));
    Ok(vec![line(
        "100,000 timeouts from another thread, all but one cancelled",
        format!(
            "{cancelled} cancelled, {} fired; {:.0} ns each",
            fired.load(Ordering::Relaxed),
            took.as_secs_f64() * 1e9 / MANY as f64
        ),
    )])
}

fn futures() -> Result<Lines> {
    let (one, two) = (
        EventLoop::builder("one").build()?,
        EventLoop::builder("two").build()?,
    );
    let far = two.clone();
    let answer = one.spawn(async move {
        let square = far.submit(|| 12 * 12).ok()?.await.ok()?;
        Some(square + 1)
    })?;
    let answer = answer.wait()?.ok_or("the other loop returned nothing")?;
    Ok(vec![line(
        "a future on one loop awaits another loop",
        answer,
    )])
}

fn group() -> Result<Lines> {
    let group = EventLoopGroup::builder("io").loops(3).build()?;
    let places: std::result::Result<Vec<_>, _> = (0..6)
        .map(|_| group.submit(|| EventLoop::current().map(|here| here.name().to_owned())))
        .collect();
    let mut seen = Vec::new();
    for place in places? {
        seen.extend(place.wait()?);
    }

    let (ticker, manual_ticker) = Ticker::manual();
    let (stalls, seen_stalls) = mpsc::channel();
    let watchdog = Watchdog::builder()
        .threshold(Duration::from_secs(1))
        .ticker(ticker)
        .on_stall(move |stall| {
            let _ = stalls.send(format!("`{}` runs `{}`", stall.name, stall.task));
        })
        .watch(group.next())
        .build()?;
    let (go, gate) = mpsc::channel::<()>();
    let (up, started) = mpsc::channel();
    let stuck = Task::named("compact", move || {
        let _ = up.send(());
        let _ = gate.recv();
    });
    group
        .iter()
        .next()
        .ok_or("a group has a loop")?
        .execute_task(stuck)?;
    started.recv()?;
    manual_ticker.tick(Duration::from_secs(1));
    manual_ticker.tick(Duration::from_secs(1));
    let stall = seen_stalls.try_recv()?;
    drop(go);
    drop(watchdog);
    Ok(vec![
        line("six tasks over three loops", seen.join(" ")),
        line("a watchdog reports a stuck loop", stall),
    ])
}

fn overload() -> Result<Lines> {
    let home = EventLoop::builder("small").bound(16).build()?;
    let (go, gate) = mpsc::channel::<()>();
    let (up, started) = mpsc::channel();
    home.execute(move || {
        let _ = up.send(());
        let _ = gate.recv();
    })?;
    started.recv()?;
    let ran = Arc::new(AtomicU64::new(0));
    let mut refused = Vec::new();
    for _ in 0..20 {
        let count = Arc::clone(&ran);
        let one = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        if let Err(full) = home.execute(one) {
            refused.push(full.into_inner());
        }
    }
    let given_back = refused.len();
    drop(go);
    refused.into_iter().for_each(Task::run);
    home.shutdown(Quiet::none(Duration::from_secs(5))).wait()?;
    Ok(vec![line(
        "20 tasks into a blocked loop with room for 16",
        format!(
            "{given_back} given back and run here, {} run in all",
            ran.load(Ordering::Relaxed)
        ),
    )])
}

fn shutdown() -> Result<Lines> {
    let home = EventLoop::builder("ending").build()?;
    home.schedule(Duration::from_secs(3600), || ())?;
    home.add_shutdown_hook("say goodbye", || ())?;
    for _ in 0..100 {
        home.execute(|| ())?;
    }
    let report = home.shutdown(Quiet::none(Duration::from_secs(5))).wait()?;
    let after = home.execute(|| ()).expect_err("it is over");

    let bad = EventLoop::builder("impatient").build()?;
    let quiet = Quiet {
        period: Duration::from_secs(2),
        timeout: Duration::from_secs(1),
    };
    let bad = match bad.shutdown(quiet).wait() {
        Err(WaitError::Failed(ShutdownError::BadQuiet(_))) => "refused, with a sentence",
        _ => return Err("a quiet period longer than the timeout was accepted".into()),
    };
    Ok(vec![
        line(
            "100 tasks, a timer in an hour, a hook; then shutdown",
            report,
        ),
        line("a task after the end", after),
        line("a quiet period longer than the timeout", bad),
    ])
}

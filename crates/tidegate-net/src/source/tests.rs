//! The steps of a selector that only the test drives.

use std::io;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use tidegate_core::executor::{ExecutorId, Signal};
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task, Unhandled};
use tidegate_testkit::{Counter, DropCount, Log, until};

use super::inbox::MAX_UPDATES;
use super::*;
use crate::NetError;
use crate::sys::{BorrowedFd, Change, Readiness, Ready, Token};

/// The loop of the selector: keeps the signals, and logs what it is told.
struct Home {
    id: ExecutorId,
    clock: Clock,
    signals: Mutex<Vec<Signal>>,
    wakes: Counter,
    reports: Log<String>,
}

impl Executor for Home {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        Err(Rejected::new(task, RejectReason::Closed))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        self.wakes.hit();
        self.signals.lock().unwrap().push(signal);
        Ok(())
    }

    fn is_current(&self) -> bool {
        false
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        "io-0"
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.reports.push(what.to_string());
    }
}

/// Records what the poller is told to watch.
#[derive(Default)]
struct Poller {
    changes: Vec<(u32, Change)>,
    refusal: Option<io::ErrorKind>,
}

impl Control for Poller {
    fn control(&mut self, _: BorrowedFd<'_>, token: Token, change: Change) -> io::Result<()> {
        if let Some(why) = self.refusal.take() {
            return Err(why.into());
        }
        self.changes.push((token.slot(), change));
        Ok(())
    }
}

impl Poller {
    fn changes(&mut self) -> Vec<(u32, Change)> {
        std::mem::take(&mut self.changes)
    }
}

/// What an [`Ear`] does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Task,
    Nothing,
    PanicsSelected,
    PanicsInterests,
    PanicsClosed,
}

/// A source that logs its callbacks.
struct Ear {
    name: &'static str,
    log: Log<String>,
    does: Does,
    _alive: DropCount,
}

impl EventSource<io::Stderr> for Ear {
    fn selected(&mut self, at: &SourceContext<'_, io::Stderr>) -> Option<Task> {
        self.log.push(format!("{} {:?}", self.name, at.readiness()));
        assert!(self.does != Does::PanicsSelected, "as planned");
        let (name, log) = (self.name, self.log.clone());
        (self.does == Does::Task).then(|| Task::new(move || log.push(format!("{name} task"))))
    }

    fn update_interests(&mut self, interests: Interest) -> Interest {
        self.log.push(format!("{} wants {interests}", self.name));
        assert!(self.does != Does::PanicsInterests, "as planned");
        interests
    }

    fn closed(&mut self, why: Option<&NetError>) {
        let why = why.map_or_else(|| "asked".to_owned(), ToString::to_string);
        self.log.push(format!("{} closed: {why}", self.name));
        assert!(self.does != Does::PanicsClosed, "as planned");
    }
}

struct Bench {
    selector: Selector,
    reactor: ReactorHandle,
    poller: Poller,
    home: Arc<Home>,
    log: Log<String>,
    dropped: Counter,
}

fn bench() -> Bench {
    let selector = Selector::new();
    let home = Arc::new(Home {
        id: ExecutorId::next(),
        clock: Clock::system(),
        signals: Mutex::default(),
        wakes: Counter::new(),
        reports: Log::new(),
    });
    let executor: Arc<dyn Executor> = Arc::<Home>::clone(&home);
    selector.inbox().set_home(&executor, || Ok(()));
    Bench {
        reactor: ReactorHandle::new(selector.inbox()),
        selector,
        poller: Poller::default(),
        home,
        log: Log::new(),
        dropped: Counter::new(),
    }
}

impl Bench {
    fn ear(&self, name: &'static str, does: Does) -> Ear {
        Ear {
            name,
            log: self.log.clone(),
            does,
            _alive: DropCount::new(&self.dropped),
        }
    }

    fn listen(&mut self, name: &'static str, does: Does) -> SourceHandle {
        let ear = self.ear(name, does);
        let registered = self
            .reactor
            .register(name, io::stderr(), Interest::READ, ear);
        self.round();
        registered.wait().unwrap()
    }

    /// Delivers the signals, as a turn of the loop does.
    fn wake(&self) {
        let signals = std::mem::take(&mut *self.home.signals.lock().unwrap());
        signals.into_iter().for_each(Signal::deliver);
    }

    /// Runs what the selector produces until it would wait.
    fn run(&mut self) {
        self.wake();
        while let Some(task) = self.selector.produce(&mut self.poller) {
            task.run();
        }
    }

    /// Polls without events, and runs what the selector produces.
    fn round(&mut self) {
        self.ready(&[]);
        self.run();
    }

    fn ready(&mut self, sources: &[&SourceHandle]) {
        let ready = sources.iter().map(|source| Ready {
            token: source.state.token,
            readiness: Readiness::READ,
        });
        self.selector.polled(ready.collect());
    }
}

fn log_update(log: &Log<String>, what: &'static str) -> impl FnOnce(&mut ReactorView<'_>) + use<> {
    let log = log.clone();
    move |_| log.push(what.to_owned())
}

#[test]
fn sources_are_selected_then_updates_run_then_interests_are_applied() {
    let mut bench = bench();
    let a = bench.listen("a", Does::Task);
    let b = bench.listen("b", Does::Nothing);
    let c = bench.listen("c", Does::Task);
    bench.poller.changes();
    drop(bench.reactor.update(log_update(&bench.log, "update")));
    a.set_interests(Interest::READ | Interest::WRITE).unwrap();
    bench.ready(&[&c, &b, &a]);
    bench.run();
    let expected = [
        "c {READ}",
        "c task",
        "b {READ}",
        "a {READ}",
        "a task",
        "update",
        "c wants read",
        "b wants read",
        "a wants read and write",
    ];
    assert_eq!(bench.log.take(), expected);
    let read = Change::Rearm(Interest::READ);
    let both = Change::Modify(Interest::READ | Interest::WRITE);
    let changes = [(2, read), (1, read), (0, both)];
    assert_eq!(bench.poller.changes(), changes, "before the wait");
    assert!(bench.selector.is_quiet());
}

#[test]
fn only_sources_that_were_selected_are_asked_for_their_interests() {
    let mut bench = bench();
    let a = bench.listen("a", Does::Nothing);
    let b = bench.listen("b", Does::Nothing);
    bench.poller.changes();
    bench.ready(&[&a]);
    b.set_interests(Interest::WRITE).unwrap();
    bench.run();
    assert_eq!(bench.log.take(), ["a {READ}", "a wants read"]);
    let changes = [
        (0, Change::Rearm(Interest::READ)),
        (1, Change::Modify(Interest::WRITE)),
    ];
    assert_eq!(bench.poller.changes(), changes);
    bench.round();
    assert!(bench.log.is_empty() && bench.poller.changes().is_empty());
}

#[test]
fn changes_of_interests_collapse_into_one() {
    let mut bench = bench();
    let a = bench.listen("a", Does::Nothing);
    bench.poller.changes();
    let before = bench.home.wakes.count();
    for _ in 0..100 {
        a.set_interests(Interest::WRITE).unwrap();
        a.set_interests(Interest::NONE).unwrap();
        a.set_interests(Interest::READ | Interest::WRITE).unwrap();
    }
    assert_eq!(bench.home.wakes.count(), before + 1);
    bench.round();
    let both = Change::Modify(Interest::READ | Interest::WRITE);
    assert_eq!(bench.poller.changes(), [(0, both)]);
    a.set_interests(Interest::NONE).unwrap();
    bench.round();
    assert_eq!(bench.poller.changes(), [(0, Change::Remove)]);
    a.set_interests(Interest::READ).unwrap();
    bench.round();
    assert_eq!(
        bench.poller.changes(),
        [(0, Change::Add(Interest::READ))],
        "one without interests was out of the poller"
    );
}

#[test]
fn updates_keep_their_order_and_wake_the_loop_once() {
    let mut bench = bench();
    let log = bench.log.clone();
    drop(bench.reactor.update(log_update(&log, "1")));
    let panics = bench.reactor.update(|_| -> u32 { panic!("as planned") });
    let reactor = bench.reactor.clone();
    drop(bench.reactor.update(move |_| {
        log.push("3".to_owned());
        drop(reactor.update(log_update(&log, "later")));
    }));
    let four = bench.reactor.update(|_| 4);
    assert_eq!(bench.home.wakes.count(), 1, "one wake-up for all");
    bench.round();
    assert_eq!(bench.log.take(), ["1", "3"]);
    assert_eq!(four.wait().unwrap(), 4);
    let why = panics.wait().unwrap_err().failure().unwrap();
    let why = why.downcast_ref::<NetError>().unwrap();
    assert!(
        matches!(why, NetError::UpdatePanicked { message, .. } if message == "as planned"),
        "{why}"
    );
    let reports = bench.home.reports.take();
    assert!(reports[0].contains("an update") && reports[0].contains("as planned"));
    bench.run();
    assert!(
        bench.log.is_empty(),
        "sources come first: there was no poll"
    );
    assert!(
        !bench.selector.is_quiet(),
        "and the loop does not wait for it"
    );
    bench.round();
    assert_eq!(bench.log.take(), ["later"]);
}

#[test]
fn an_update_sees_and_changes_the_sources_at_once() {
    let mut bench = bench();
    let a = bench.listen("a", Does::Nothing);
    let ear = bench.ear("b", Does::Nothing);
    let names = bench.reactor.update(move |view| {
        let b = view
            .register("b", io::stderr(), Interest::NONE, ear)
            .unwrap();
        assert!(view.close(&a) && !view.close(&a), "once");
        let names: Vec<_> = view
            .sources()
            .iter()
            .map(|one| one.name.to_string())
            .collect();
        (b, names)
    });
    bench.round();
    let (b, names) = names.wait().unwrap();
    assert_eq!(names, ["b"]);
    assert!(!b.is_closed());
    assert_eq!(bench.log.take(), ["a closed: asked"]);
    assert_eq!(bench.dropped.count(), 1);
    let mut other = self::bench();
    let foreign = other.listen("foreign", Does::Nothing);
    let closed = bench.reactor.update(move |view| view.close(&foreign));
    bench.round();
    assert!(
        !closed.wait().unwrap(),
        "it has the same token on another loop"
    );
}

#[test]
fn a_cancelled_update_does_not_run() {
    let mut bench = bench();
    let update = bench.reactor.update(log_update(&bench.log, "never"));
    assert!(update.cancel());
    let ear = bench.ear("a", Does::Nothing);
    let register = bench
        .reactor
        .register("a", io::stderr(), Interest::READ, ear);
    assert!(register.cancel());
    bench.round();
    assert!(bench.log.is_empty() && bench.poller.changes().is_empty());
    assert_eq!(bench.dropped.count(), 1);
}

#[test]
fn a_source_that_panics_is_closed_and_the_others_stay() {
    for does in [Does::PanicsSelected, Does::PanicsInterests] {
        let mut bench = bench();
        let bad = bench.listen("bad", does);
        let good = bench.listen("good", Does::Task);
        bench.poller.changes();
        bench.ready(&[&bad, &good]);
        bench.run();
        assert!(bad.is_closed() && !good.is_closed());
        let log = bench.log.take();
        assert!(log.contains(&"good task".to_owned()), "{log:?}");
        let closed = log
            .iter()
            .find(|one| one.starts_with("bad closed"))
            .unwrap();
        assert!(closed.contains("panicked: as planned"), "{closed}");
        assert_eq!(bench.dropped.count(), 1);
        assert!(bench.poller.changes().contains(&(0, Change::Remove)));
        let reports = bench.home.reports.take();
        assert_eq!(reports, ["task `source bad` panicked: as planned"]);
    }
    let mut bench = bench();
    let bad = bench.listen("bad", Does::PanicsClosed);
    let closed = bad.close();
    bench.round();
    closed.wait().unwrap();
    assert_eq!((bench.dropped.count(), bench.home.reports.len()), (1, 1));
}

#[test]
fn a_handle_of_a_closed_source_says_so() {
    let mut bench = bench();
    let a = bench.listen("a", Does::Task);
    bench.ready(&[&a]);
    let closed = a.close();
    let update = bench.reactor.update({
        let a = a.clone();
        move |view| view.close(&a)
    });
    bench.run();
    closed.wait().unwrap();
    assert!(!update.wait().unwrap(), "it was closed before");
    let why = a.set_interests(Interest::READ).unwrap_err();
    assert_eq!(
        why.to_string(),
        "source `a` is closed; register it again to go on"
    );
    // The slot is used again, and the old token means nothing.
    let b = bench.listen("b", Does::Task);
    drop(bench.log.take());
    bench.ready(&[&a]);
    let again = a.close();
    bench.run();
    again.wait().unwrap();
    assert!(bench.log.is_empty() && !b.is_closed());
    assert_eq!(bench.reactor.sources().len(), 1);
}

#[test]
fn a_source_is_not_selected_before_its_task_has_ended() {
    let mut bench = bench();
    let a = bench.listen("a", Does::Task);
    bench.poller.changes();
    bench.ready(&[&a, &a]);
    let task = bench.selector.produce(&mut bench.poller).unwrap();
    assert!(bench.reactor.sources()[0].busy);
    bench.run();
    assert_eq!(bench.log.take(), ["a {READ}", "a wants read"]);
    assert_eq!(
        bench.poller.changes(),
        [(0, Change::Remove)],
        "not watched while its task is out"
    );
    assert!(bench.selector.is_quiet());
    task.run();
    assert!(!bench.selector.is_quiet(), "the loop was woken");
    bench.round();
    assert_eq!(bench.log.take(), ["a task"]);
    assert_eq!(bench.poller.changes(), [(0, Change::Add(Interest::READ))]);
    assert!(!bench.reactor.sources()[0].busy);
}

#[test]
fn a_task_that_no_thread_takes_is_offered_again() {
    let mut bench = bench();
    let a = bench.listen("a", Does::Task);
    bench.ready(&[&a]);
    drop(bench.selector.produce(&mut bench.poller).unwrap());
    bench.run();
    assert!(bench.selector.has_untaken());
    drop(bench.log.take());
    bench.round();
    assert_eq!(bench.log.take(), ["a task"]);
    assert!(!bench.selector.has_untaken());
    bench.ready(&[&a]);
    drop(bench.selector.produce(&mut bench.poller).unwrap());
    drop(bench.selector);
    let log = bench.log.take();
    assert_eq!(log.last().unwrap(), "a task", "at the end it runs here");
}

#[test]
fn a_source_that_the_poller_refuses_is_dropped_with_the_reason() {
    let mut bench = bench();
    bench.poller.refusal = Some(io::ErrorKind::PermissionDenied);
    let ear = bench.ear("a", Does::Task);
    let a = bench
        .reactor
        .register("a", io::stderr(), Interest::NONE, ear);
    bench.round();
    let why = a.wait().unwrap_err().failure().unwrap();
    let why = why.downcast_ref::<NetError>().unwrap();
    assert!(matches!(why, NetError::SourceRefused { .. }), "{why}");
    assert!(why.to_string().starts_with("source `a` cannot be watched"));
    assert_eq!(
        (bench.dropped.count(), bench.reactor.sources().len()),
        (1, 0)
    );
    let b = bench.listen("b", Does::Nothing);
    bench.poller.refusal = Some(io::ErrorKind::NotFound);
    b.set_interests(Interest::WRITE).unwrap();
    bench.round();
    assert!(b.is_closed(), "the poller does not watch it any more");
    assert!(bench.log.take()[0].contains("cannot be watched"));
}

#[test]
fn the_end_of_the_loop_closes_sources_and_refuses_updates() {
    let mut bench = bench();
    let a = bench.listen("a", Does::Task);
    bench.ready(&[&a]);
    let task = bench.selector.produce(&mut bench.poller).unwrap();
    drop(bench.log.take());
    let ear = bench.ear("b", Does::Nothing);
    let update = bench.reactor.update(log_update(&bench.log, "never"));
    let register = bench
        .reactor
        .register("b", io::stderr(), Interest::READ, ear);
    let close = a.close();
    assert!(
        !bench.selector.begin_close(&mut bench.poller),
        "a task is out"
    );
    assert_eq!(bench.selector.outstanding(), ["a"]);
    bench.wake();
    let before = bench.home.wakes.count();
    task.run();
    assert_eq!(bench.home.wakes.count(), before + 1);
    assert!(bench.selector.begin_close(&mut bench.poller));
    bench.selector.close(&mut bench.poller);
    let ended = "event loop `io-0` has ended; use a group that runs";
    assert_eq!(
        bench.log.take(),
        [format!("a closed: {ended}"), "a task".to_owned()]
    );
    assert_eq!(bench.dropped.count(), 2);
    close.wait().unwrap();
    let late = bench.reactor.update(|_| ());
    for why in [
        update.wait().unwrap_err().to_string(),
        register.wait().unwrap_err().to_string(),
        late.wait().unwrap_err().to_string(),
    ] {
        assert!(why.contains(ended), "{why}");
    }
    a.close().wait().unwrap();
    assert!(a.set_interests(Interest::READ).is_err());
}

#[test]
fn updates_are_refused_when_too_many_wait() {
    let mut bench = bench();
    for _ in 0..MAX_UPDATES {
        drop(bench.reactor.update(|_| ()));
    }
    let why = bench.reactor.update(|_| ()).wait().unwrap_err().to_string();
    assert!(why.contains("takes no more"), "{why}");
    bench.round();
    let last = bench.reactor.update(|_| 7);
    bench.round();
    assert_eq!(last.wait().unwrap(), 7);
}

#[test]
fn a_task_that_no_thread_took_keeps_the_loop_although_its_source_is_closed() {
    let mut bench = bench();
    let source = bench.listen("a", Does::Task);
    bench.ready(&[&source]);
    let task = bench.selector.produce(&mut bench.poller).unwrap();
    drop(task); // no thread took it
    let closed = source.close();
    bench.wake();
    while bench.selector.produce(&mut bench.poller).is_some() {}
    closed.wait().unwrap();
    assert!(
        !bench.selector.is_empty(),
        "the task has to be offered again"
    );
    drop(bench.log.take());
    bench.round();
    assert_eq!(bench.log.take(), ["a task"]);
    bench.round();
    assert!(bench.selector.is_empty());
}

/// The loop ends while another thread drops a task that it did not take.
#[test]
fn a_task_that_no_thread_takes_at_the_end_of_the_loop_runs_there() {
    let at_once = Barrier::new(2);
    let (give, take) = mpsc::channel::<Task>();
    let rounds = tidegate_testkit::rounds(5_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            for (round, task) in take.into_iter().enumerate() {
                at_once.wait();
                tidegate_testkit::spin_times(round as u64 % 64);
                drop(task);
            }
        });
        for _ in 0..rounds {
            let mut bench = bench();
            let source = bench.listen("a", Does::Task);
            bench.ready(&[&source]);
            give.send(bench.selector.produce(&mut bench.poller).unwrap())
                .unwrap();
            at_once.wait();
            // It asks at once, again and again: the moment between two steps is short.
            until("the task has come back", || {
                (0..1_000).any(|_| bench.selector.begin_close(&mut bench.poller))
            });
            bench.selector.close(&mut bench.poller);
            let log = bench.log.take();
            assert_eq!(log.last().unwrap(), "a task", "it is not lost");
        }
        drop(give);
    });
}

//! A loop with a scripted poller.

use std::io;
use std::time::Duration;

use tidegate_core::Task;
use tidegate_loop::{EventLoop, ManualLoop, Quiet};
use tidegate_testkit::Log;

use super::*;
use crate::reactor::{self, Batched, IoContext, IoSource, Next};
use crate::source::{Interest, ReactorHandle, SharedInbox, SourceContext};
use crate::sys::{Change, FakePoller, FakeScript, PIECES, Readiness, Ready, Source, Token};

/// A source that logs its events and returns what it was given in `next`.
struct TestSource {
    name: &'static str,
    log: Log<String>,
    next: Vec<Next>,
    panics: bool,
}

impl Batched for TestSource {}

impl IoSource for TestSource {
    fn ready(&mut self, readiness: Readiness, _desk: &mut IoContext) -> Next {
        self.log.push(format!("{} {readiness:?}", self.name));
        assert!(!self.panics, "a source that panics");
        self.next.pop().unwrap_or(Next::Stay)
    }

    fn io(&mut self) -> Option<&mut dyn Source> {
        None
    }

    fn close(&mut self, _desk: &mut IoContext) {
        self.log.push(format!("{} closes", self.name));
    }
}

struct Bench {
    home: EventLoop,
    manual_loop: ManualLoop,
    script: FakeScript,
    watch: IoWatch,
    inbox: SharedInbox,
    log: Log<String>,
}

fn bench() -> Bench {
    let (poller, script) = FakePoller::new();
    let driver = PollDriver::new(poller);
    let (watch, inbox) = (driver.watch(), driver.inbox().clone());
    let (home, manual_loop) = EventLoop::builder("by hand")
        .build_manual_with_driver(driver)
        .unwrap();
    inbox.set_home(&home.executor(), || Ok(()));
    Bench {
        home,
        manual_loop,
        script,
        watch,
        inbox,
        log: Log::new(),
    }
}

impl Bench {
    fn add_source(&mut self, name: &'static str, next: Vec<Next>) -> Token {
        self.listen(name, next, false)
    }

    fn listen(&mut self, name: &'static str, next: Vec<Next>, panics: bool) -> Token {
        let log = self.log.clone();
        let source = TestSource {
            name,
            log,
            next,
            panics,
        };
        self.manual_loop
            .run(|| reactor::register(|_| Box::new(source)).unwrap())
    }
}

fn reads(token: Token) -> Ready {
    Ready {
        token,
        readiness: Readiness::READ,
    }
}

#[test]
fn each_event_is_delivered_once_in_the_order_of_the_poller() {
    let mut bench = bench();
    let (a, b) = (bench.add_source("a", vec![]), bench.add_source("b", vec![]));
    bench.script.ready([reads(b), reads(a)]);
    bench.manual_loop.run_until_idle();
    bench
        .log
        .assert_order(&["b {READ}".to_owned(), "a {READ}".to_owned()]);
    assert_eq!(bench.watch.metrics().events, 2);
    assert_eq!(bench.home.metrics().tasks_run, 2, "each for itself");
}

#[test]
fn a_source_of_the_user_is_selected_after_channels_and_before_the_next_poll() {
    let mut bench = bench();
    let add_source = bench.add_source("ear", vec![]);
    let log = bench.log.clone();
    let selected = move |at: &SourceContext<'_, io::Stderr>| {
        let log = log.clone();
        log.push(format!("selected {:?}", at.readiness()));
        Some(Task::new(move || log.push("task".to_owned())))
    };
    let reactor = ReactorHandle::new(&bench.inbox);
    let source = reactor.register("own", io::stderr(), Interest::READ, selected);
    bench.manual_loop.run_until_idle();
    let source = source.wait().unwrap();
    let [(own, Change::Add(Interest::READ))] = bench.script.changes()[..] else {
        panic!("it is watched");
    };
    bench.script.ready([reads(own), reads(add_source)]);
    bench.manual_loop.run_until_idle();
    let expected = ["ear {READ}", "selected {READ}", "task"];
    assert_eq!(bench.log.take(), expected);
    let armed = Change::Rearm(Interest::READ);
    assert_eq!(bench.script.changes(), [(own, armed)]);
    for _ in 0..100 {
        bench.script.ready([reads(own)]);
        bench.manual_loop.run_until_idle();
    }
    assert_eq!(bench.log.take().len(), 200);
    let closed = source.close();
    bench.manual_loop.run_until_idle();
    closed.wait().unwrap();
    assert_eq!(bench.script.changes().pop(), Some((own, Change::Remove)));
}

#[test]
fn an_event_for_a_removed_source_is_counted_and_dropped() {
    let mut bench = bench();
    let gone = bench.add_source("gone", vec![Next::Leave]);
    bench.script.ready([reads(gone), reads(gone)]);
    bench.manual_loop.run_until_idle();
    let heir = bench.add_source("heir", vec![]);
    assert_eq!(heir.slot(), gone.slot());
    bench.script.ready([reads(gone)]);
    bench.manual_loop.run_until_idle();
    assert_eq!(bench.log.take(), ["gone {READ}"]);
    assert_eq!(bench.watch.metrics().stale, 2);
}

#[test]
fn a_requeued_source_waits_until_the_others_had_their_turn() {
    let mut bench = bench();
    let again = Next::Again(Readiness::READ);
    let (a, b) = (
        bench.add_source("a", vec![again, again]),
        bench.add_source("b", vec![]),
    );
    bench.script.ready([reads(a), reads(b)]);
    bench.script.ready([reads(b)]);
    bench.manual_loop.run_until_idle();
    let received = bench.log.take();
    assert_eq!(
        received,
        ["a {READ}", "b {READ}", "b {READ}", "a {READ}", "a {READ}"]
    );
    assert_eq!(bench.watch.metrics().requeued, 2);
}

#[test]
fn a_source_that_panics_goes_and_the_others_stay() {
    let mut bench = bench();
    let bad = bench.listen("bad", vec![], true);
    let good = bench.add_source("good", vec![]);
    bench.script.ready([reads(bad), reads(good), reads(bad)]);
    bench.manual_loop.run_until_idle();
    assert_eq!(bench.log.take(), ["bad {READ}", "good {READ}"]);
    assert_eq!(bench.home.metrics().panics, 1);
    assert_eq!(bench.watch.metrics().registered, 1);
}

#[test]
fn a_loop_with_something_ready_does_not_wait() {
    let (poller, script) = FakePoller::new();
    let home = EventLoop::builder("waits")
        .build_with_driver(PollDriver::new(poller))
        .unwrap();
    let log = Log::new();
    let source = TestSource {
        name: "a",
        log: log.clone(),
        next: vec![Next::Again(Readiness::READ)],
        panics: false,
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    home.execute(move || {
        sender
            .send(reactor::register(|_| Box::new(source)).unwrap())
            .unwrap();
    })
    .unwrap();
    script.ready([reads(receiver.recv().unwrap())]);
    log.wait_for(2);
    home.settle();
    let polls = script.polls();
    assert!(
        polls.contains(&Some(Duration::ZERO)),
        "it looked and did not wait: {polls:?}"
    );
    home.shutdown(Quiet::none(Duration::from_secs(60)))
        .wait()
        .unwrap();
    assert_eq!(log.take().last().map(String::as_str), Some("a closes"));
}

#[test]
fn one_wakeup_ends_a_sleep_however_many_tasks_come() {
    let (poller, script) = FakePoller::new();
    let home = EventLoop::builder("waits")
        .build_with_driver(PollDriver::new(poller))
        .unwrap();
    let gate = tidegate_testkit::Gate::new();
    let (inside, held) = (gate.clone(), tidegate_testkit::Gate::new());
    let begun = held.clone();
    home.execute(move || {
        begun.open();
        inside.wait();
    })
    .unwrap();
    held.wait();
    let before = home.metrics().wakeups;
    for _ in 0..100 {
        home.execute(|| ()).unwrap();
    }
    assert_eq!(
        home.metrics().wakeups,
        before,
        "awake: no wake-up is needed"
    );
    gate.open();
    home.settle();
    assert!(home.metrics().wakeups <= before + 1);
    drop(script);
}

#[test]
fn a_failing_poller_is_polled_again_and_after_many_failures_the_loop_gives_up() {
    let mut bench = bench();
    let a = bench.add_source("a", vec![]);
    for _ in 0..FAILURES - 1 {
        bench.script.fail(io::ErrorKind::Other);
        bench.manual_loop.turn();
    }
    bench.script.ready([reads(a)]);
    bench.manual_loop.run_until_idle();
    assert_eq!(bench.log.take(), ["a {READ}"], "still alive");
    assert_eq!(bench.watch.metrics().poll_failures, u64::from(FAILURES) - 1);

    let (poller, script) = FakePoller::new();
    for _ in 0..FAILURES {
        script.fail(io::ErrorKind::Other);
    }
    let home = EventLoop::builder("broken")
        .build_with_driver(PollDriver::new(poller))
        .unwrap();
    // Refused if the loop has already given up.
    let _ = home.execute(|| ());
    let end = home.termination().wait().unwrap_err();
    assert!(end.to_string().contains("the poller failed 16 times"));
}

#[test]
fn an_empty_loop_may_give_its_thread_back_and_one_with_sockets_not() {
    let mut bench = bench();
    let driver_is_idle = |bench: &mut Bench| {
        bench
            .manual_loop
            .run(|| reactor::with(|reactor| reactor.is_empty()).unwrap())
    };
    assert!(driver_is_idle(&mut bench));
    let token = bench.add_source("a", vec![Next::Leave]);
    assert!(!driver_is_idle(&mut bench));
    bench.script.ready([reads(token)]);
    bench.manual_loop.run_until_idle();
    assert!(driver_is_idle(&mut bench));
}

#[test]
fn two_loops_on_one_thread_do_not_see_each_others_sockets() {
    let mut outer = bench();
    let mut inner = bench();
    let a = outer.add_source("a", vec![]);
    let b = inner.add_source("b", vec![]);
    assert_eq!(a, b, "each has its own table");
    outer.script.ready([reads(a)]);
    outer.manual_loop.run(|| {
        inner.script.ready([reads(b)]);
        inner.manual_loop.run_until_idle();
    });
    outer.manual_loop.run_until_idle();
    assert_eq!(inner.log.take(), ["b {READ}"]);
    assert_eq!(outer.log.take(), ["a {READ}"]);
}

#[test]
fn a_group_gives_nothing_new_to_a_loop_whose_poller_fails_or_failed_a_moment_ago() {
    let clock = tidegate_core::ManualClock::new();
    let (mut scripts, mut watches) = (Vec::new(), Vec::new());
    let group = tidegate_loop::EventLoopGroup::builder("io")
        .loops(2)
        .clock(&clock)
        .build_with_driver(|_| {
            let (poller, script) = FakePoller::new();
            scripts.push(script);
            let driver = PollDriver::new(poller);
            watches.push(driver.watch());
            Ok(driver)
        })
        .unwrap();
    let loops: Vec<_> = group.iter().cloned().collect();
    let chosen = || -> Vec<_> { (0..4).map(|_| group.next() == &loops[1]).collect() };
    assert_eq!(chosen(), [false, true, false, true]);
    scripts[0].fail(io::ErrorKind::Other);
    while watches[0].metrics().poll_failures == 0 {
        loops[0].submit(|| ()).unwrap().wait().unwrap();
    }
    loops[0].settle();
    assert!(loops[0].is_unhealthy() && !loops[1].is_unhealthy());
    assert_eq!(chosen(), [true; 4]);
    clock.advance(tidegate_loop::internal::Health::RECOVERY_PERIOD);
    assert_eq!(chosen(), [false, true, false, true], "a good while later");
}

/// A source of a batch: logs when it receives and handles an event.
struct Member {
    name: &'static str,
    log: Log<String>,
    manner: Manner,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Plain,
    /// It requests its event once more, the first time.
    Eager,
    Panics,
}

impl Member {
    fn says(&self, what: &str) {
        self.log.push(format!("{} {what}", self.name));
    }
}

impl Batched for Member {
    fn receive_early(&mut self, _readiness: Readiness, _desk: &mut IoContext) {
        self.says("receives");
    }
}

impl IoSource for Member {
    fn ready(&mut self, _readiness: Readiness, _desk: &mut IoContext) -> Next {
        assert!(self.manner != Manner::Panics, "not my day");
        if self.manner == Manner::Eager {
            self.manner = Manner::Plain;
            return Next::Again(Readiness::READ);
        }
        self.says("runs");
        Next::Stay
    }

    fn io(&mut self) -> Option<&mut dyn Source> {
        None
    }

    fn close(&mut self, _desk: &mut IoContext) {}
}

impl Bench {
    fn members(&mut self, members: &[(&'static str, Manner)]) -> Vec<Ready> {
        let join = |&(name, manner): &(&'static str, Manner)| {
            let log = self.log.clone();
            let member = Member { name, log, manner };
            let register = || reactor::register(|_| Box::new(member)).unwrap();
            reads(self.manual_loop.run(register))
        };
        members.iter().map(join).collect()
    }
}

/// Returns the log of members that become ready together.
fn conversation(members: &[(&'static str, Manner)]) -> Vec<String> {
    let mut bench = bench();
    let ready = bench.members(members);
    bench.script.ready(ready);
    bench.manual_loop.run_until_idle();
    bench.log.take()
}

#[test]
fn sources_that_are_ready_together_receive_then_run_and_one_alone_receives_in_its_turn() {
    let message = conversation(&[("a", Manner::Plain), ("b", Manner::Plain)]);
    assert_eq!(message, ["a receives", "b receives", "a runs", "b runs"]);
    assert_eq!(conversation(&[("a", Manner::Plain)]), ["a runs"]);
}

#[test]
fn a_group_has_run_before_the_next_one_receives() {
    const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let message = conversation(&NAMES.map(|name| (name, Manner::Plain)));
    let (group, next) = message.split_at(2 * PIECES);
    assert!(
        group[PIECES..]
            .iter()
            .all(|message| message.ends_with("runs"))
    );
    assert_eq!(next, ["i receives", "j receives", "i runs", "j runs"]);
}

#[test]
fn a_batch_has_run_before_requeued_sources_run() {
    let mut bench = bench();
    let eager = bench.members(&[("eager", Manner::Eager)]);
    let group = bench.members(&[("a", Manner::Plain), ("b", Manner::Plain)]);
    bench.script.ready(eager);
    bench.manual_loop.turn();
    bench.script.ready(group);
    bench.manual_loop.run_until_idle();
    assert_eq!(bench.log.take()[2..], ["a runs", "b runs", "eager runs"]);
}

#[test]
fn after_a_panic_in_a_batch_the_rest_runs() {
    let members = [
        ("a", Manner::Plain),
        ("b", Manner::Panics),
        ("c", Manner::Plain),
    ];
    assert_eq!(conversation(&members)[3..], ["a runs", "c runs"]);
}

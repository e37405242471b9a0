//! Sources of the user's own on pinned and roaming event loops, with real descriptors.

use std::any::Any;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::thread::ThreadJob;
use tidegate_core::{Blocking, ManualClock, Task, ThreadBuilder, Ticker};
use tidegate_loop::{EventLoop, Placement, Quiet, Watchdog};
use tidegate_net::source::{EventSource, Interest, ReactorHandle, SourceContext, SourceHandle};
use tidegate_net::{NetError, NetGroup};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Counter, DropCount, Gate, Log, Stop, until};

use crate::roaming::roaming;
use crate::{Echo, dial, group_by, round_trip, serve};

/// Reads what is in the pipe in a task of the given kind, and logs it.
struct Reads {
    kind: Blocking,
    log: Log<String>,
    _alive: Option<DropCount>,
}

impl Reads {
    fn new(kind: Blocking, log: &Log<String>) -> Self {
        Self {
            kind,
            log: log.clone(),
            _alive: None,
        }
    }
}

impl EventSource<PipeReader> for Reads {
    fn selected(&mut self, at: &SourceContext<'_, PipeReader>) -> Option<Task> {
        let (pipe, log) = (Arc::clone(at.descriptor()), self.log.clone());
        let source = at.handle().clone();
        Some(Task::of(self.kind, move || read_one(&pipe, &log, &source)))
    }

    fn closed(&mut self, why: Option<&NetError>) {
        let why = why.map_or_else(|| "asked".to_owned(), ToString::to_string);
        self.log.push(format!("closed: {why}"));
    }
}

/// Reads one byte, and closes the source at the end of the pipe.
fn read_one(pipe: &PipeReader, log: &Log<String>, source: &SourceHandle) {
    let mut byte = [0];
    match { pipe }.read(&mut byte) {
        Ok(1) => log.push(char::from(byte[0]).to_string()),
        _ => drop(source.close()),
    }
}

/// Runs `test` with a pinned group and with a roaming one.
fn on_each_kind(test: impl Fn(&dyn Fn() -> ReactorHandle)) {
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    test(&|| pinned.next_reactor());
    let (_pool, roaming) = roaming(4);
    test(&|| roaming.next_reactor());
}

fn end<P: Placement>(group: &NetGroup<P>) {
    let ended = group.shutdown(Quiet::none(Duration::from_secs(60)));
    ended.wait().unwrap();
}

#[test]
fn a_source_that_is_still_ready_is_selected_again_until_it_is_closed() {
    on_each_kind(|reactor| {
        for kind in [Blocking::Never, Blocking::May] {
            let (reader, mut writer) = io::pipe().unwrap();
            let log = Log::new();
            let source = reactor().register("pipe", reader, Interest::READ, Reads::new(kind, &log));
            let source = source.wait().unwrap();
            writer.write_all(b"abc").unwrap();
            log.wait_for(3);
            writer.write_all(b"d").unwrap();
            log.wait_for(4);
            drop(writer);
            log.wait_for(5);
            assert_eq!(log.take(), ["a", "b", "c", "d", "closed: asked"]);
            source.close().wait().unwrap();
            assert!(source.is_closed() && reactor().sources().is_empty());
        }
    });
}

#[test]
fn interests_are_changed_from_any_thread() {
    on_each_kind(|reactor| {
        let (reader, mut writer) = io::pipe().unwrap();
        let log = Log::new();
        let reads = Reads::new(Blocking::Never, &log);
        let source = reactor().register("pipe", reader, Interest::NONE, reads);
        let source = source.wait().unwrap();
        writer.write_all(b"a").unwrap();
        reactor().update(|_| ()).wait().unwrap();
        reactor().update(|_| ()).wait().unwrap();
        assert!(log.is_empty(), "it is not watched");
        source.set_interests(Interest::READ).unwrap();
        log.wait_for(1);
        source.set_interests(Interest::NONE).unwrap();
        reactor().update(|_| ()).wait().unwrap();
        // The interests of a note are applied after the updates of its batch.
        reactor().update(|_| ()).wait().unwrap();
        writer.write_all(b"b").unwrap();
        reactor().update(|_| ()).wait().unwrap();
        assert_eq!(log.take(), ["a"]);
        source.set_interests(Interest::READ).unwrap();
        log.wait_for(1);
        assert_eq!(log.take(), ["b"]);
    });
}

/// Writes a number whenever there is room, and stops at a limit.
struct Writes {
    left: usize,
}

impl EventSource<PipeWriter> for Writes {
    fn selected(&mut self, at: &SourceContext<'_, PipeWriter>) -> Option<Task> {
        assert!(at.readiness().is_writable());
        self.left -= 1;
        at.descriptor().as_ref().write_all(b"x").unwrap();
        None
    }

    fn update_interests(&mut self, interests: Interest) -> Interest {
        match self.left {
            0 => Interest::NONE,
            _ => interests,
        }
    }
}

#[test]
fn a_source_decides_its_interests_before_the_next_wait() {
    on_each_kind(|reactor| {
        let (mut reader, writer) = io::pipe().unwrap();
        let source = reactor().register("pipe", writer, Interest::WRITE, Writes { left: 3 });
        let source = source.wait().unwrap();
        reader.read_exact(&mut [0; 3]).unwrap();
        // An update may run before the interests of its round are applied, the next one does not.
        reactor().update(|_| ()).wait().unwrap();
        reactor().update(|_| ()).wait().unwrap();
        assert_eq!(source.interests(), Interest::NONE);
        source.close().wait().unwrap();
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"", "the loop has closed the descriptor");
    });
}

/// The directory of the process, which is no open descriptor.
struct NoDescriptor;

impl AsFd for NoDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        rustix::fs::CWD
    }
}

/// Panics when it is asked for its descriptor.
struct BadDescriptor;

impl AsFd for BadDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        panic!("as planned")
    }
}

fn nothing<D>(_: &SourceContext<'_, D>) -> Option<Task> {
    None
}

#[test]
fn a_descriptor_that_cannot_be_watched_is_an_error_with_the_reason() {
    on_each_kind(|reactor| {
        for interests in [Interest::READ, Interest::NONE] {
            let closed = reactor().register("gone", NoDescriptor, interests, nothing::<_>);
            let why = closed.wait().unwrap_err().failure().unwrap();
            let Some(NetError::SourceRefused { source_name, why }) = why.downcast_ref() else {
                panic!("{why}");
            };
            let code = why.downcast_ref::<io::Error>().unwrap().raw_os_error();
            assert_eq!((&**source_name, code), ("gone", Some(9)), "EBADF");
        }
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let file = reactor().register("file", file, Interest::READ, nothing::<_>);
        let why = file.wait().unwrap_err().to_string();
        assert!(why.contains("must not be a file on a disk"), "{why}");
        let panics = reactor().register("bad", BadDescriptor, Interest::READ, nothing::<_>);
        let why = panics.wait().unwrap_err().to_string();
        assert!(why.contains("as planned"), "{why}");
    });
}

#[test]
fn a_descriptor_may_have_several_sources_at_once_and_after_each_other() {
    on_each_kind(|reactor| {
        let (reader, mut writer) = io::pipe().unwrap();
        let reader = Arc::new(reader);
        let selected = [Counter::new(), Counter::new()];
        let sources = selected.each_ref().map(|selected| {
            let selected = selected.clone();
            let pauses = move |at: &SourceContext<'_, Arc<PipeReader>>| {
                at.handle().set_interests(Interest::NONE).unwrap();
                selected.hit();
                None
            };
            let same = Arc::clone(&reader);
            let source = reactor().register("same", same, Interest::READ, pauses);
            source.wait().unwrap()
        });
        writer.write_all(b"x").unwrap();
        selected.iter().for_each(|selected| selected.wait_for(1));
        for source in sources {
            source.close().wait().unwrap();
        }
        for _ in 0..2 {
            let again = Arc::clone(&reader);
            let again = reactor().register("again", again, Interest::NONE, nothing::<_>);
            again.wait().unwrap().close().wait().unwrap();
        }
    });
}

#[test]
fn a_source_that_panics_is_closed_and_channels_go_on() {
    let (log, received) = Log::pair();
    let loops = NetGroup::builder("io").loops(1);
    let loops = loops.on_unhandled(move |_, what| received.push(what.to_string()));
    let group = loops.build().unwrap();
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    let (mut reader, writer) = io::pipe().unwrap();
    let panics = |_: &SourceContext<'_, PipeWriter>| -> Option<Task> { panic!("as planned") };
    let source = group
        .next_reactor()
        .register("bad", writer, Interest::WRITE, panics);
    source.wait().unwrap();
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    let update = group.next_reactor().update(|_| panic!("as planned too"));
    assert!(update.wait().is_err());
    assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    log.wait_for(2);
    let log = log.take();
    assert_eq!(log[0], "task `source bad` panicked: as planned");
    assert!(log[1].contains("an update") && log[1].ends_with("as planned too"));
}

#[test]
fn sources_and_their_panics_are_in_the_metrics_of_their_loop() {
    let group = NetGroup::builder("io").loops(1);
    let group = group.on_unhandled(|_, _| ()).build().unwrap();
    let (reactor, registered) = (group.next_reactor(), || group.io_metrics()[0].registered);
    let (reader, mut writer) = io::pipe().unwrap();
    let panics = |_: &SourceContext<'_, PipeReader>| -> Option<Task> { panic!("as planned") };
    let source = reactor.register("pipe", reader, Interest::READ, panics);
    let source = source.wait().unwrap();
    assert_eq!(registered(), 1);
    writer.write_all(b"x").unwrap();
    until("the source is closed", || source.is_closed());
    assert!(reactor.update(|_| panic!("as planned")).wait().is_err());
    let home = group.iter().next().unwrap();
    until("both are counted", || home.metrics().panics == 2);
    assert_eq!(registered(), 0);
}

#[test]
fn a_task_that_blocks_does_not_stop_a_roaming_loop() {
    let (_pool, group) = roaming(4);
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    let (reader, mut writer) = io::pipe().unwrap();
    let (stop, log) = (Stop::new(), Log::new());
    let (inside, own) = (stop.closure(), log.clone());
    let blocks = move |at: &SourceContext<'_, PipeReader>| {
        let (pipe, source) = (Arc::clone(at.descriptor()), at.handle().clone());
        let (inside, own) = (inside.clone(), own.clone());
        Some(Task::new(move || {
            inside();
            read_one(&pipe, &own, &source);
        }))
    };
    let reactor = group.next_reactor();
    let source = reactor.register("pipe", reader, Interest::READ, blocks);
    let source = source.wait().unwrap();
    writer.write_all(b"ab").unwrap();
    stop.reached();
    assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    assert!(
        reactor
            .update(|view| view.sources()[0].busy)
            .wait()
            .unwrap()
    );
    assert!(log.is_empty());
    stop.go_on();
    log.wait_for(2);
    assert_eq!(log.take(), ["a", "b"], "and it was selected once at a time");
    source.close().wait().unwrap();
}

#[test]
fn tasks_that_wait_for_a_thread_all_run_once() {
    let pool = WorkerPool::builder("workers").core(2).max(2).queue(1);
    let pool = pool.build().unwrap();
    let config = crate::roaming::eager(&pool);
    let group = NetGroup::builder("io").loops(1);
    let group = group.build_roaming_with_config(&config).unwrap();
    let (begun, gate, log) = (Counter::new(), Gate::new(), Log::new());
    let mut writers = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let (reader, mut writer) = io::pipe().unwrap();
        let (begins, opens, own) = (begun.clone(), gate.clone(), log.clone());
        let blocks = move |at: &SourceContext<'_, PipeReader>| {
            let (begins, opens, own) = (begins.clone(), opens.clone(), own.clone());
            let _ = at.handle().set_interests(Interest::NONE);
            Some(Task::new(move || {
                begins.hit();
                opens.wait();
                own.push(name);
            }))
        };
        let reactor = group.next_reactor();
        drop(reactor.register(name, reader, Interest::READ, blocks));
        writer.write_all(b"x").unwrap();
        writers.push(writer);
    }
    begun.wait_for(1);
    gate.open();
    log.wait_for(6);
    end(&group);
    let mut ran = log.take();
    ran.sort_unstable();
    assert_eq!(ran, ["a", "b", "c", "d", "e", "f"]);
}

/// Checks that a watchdog reports `home` while an update blocks it.
fn reports_an_update_that_blocks<P: Placement>(home: &EventLoop<P>, reactor: &ReactorHandle) {
    let (log, stalls) = Log::pair();
    let (ticker, steps) = Ticker::manual();
    let watchdog = Watchdog::builder()
        .threshold(Duration::from_secs(1))
        .ticker(ticker)
        .on_stall(move |stall| stalls.push(stall.task))
        .watch(home)
        .build()
        .unwrap();
    let stop = Stop::new();
    let inside = stop.closure();
    let (promise, never) = tidegate_promise::promise::<()>();
    let update = reactor.update(move |_| {
        let refused = never.wait().is_err();
        inside();
        refused
    });
    let after = reactor.update(|_| 7);
    stop.reached();
    steps.tick(Duration::from_secs(1));
    steps.tick(Duration::from_secs(1));
    log.wait_for(1);
    let stall = log.take().remove(0);
    assert!(stall.ends_with("SelectorUpdate"), "{stall}");
    assert!(reactor.sources().is_empty(), "the list needs no loop");
    stop.go_on();
    assert!(update.wait().unwrap(), "to wait for a promise is refused");
    assert_eq!(after.wait().unwrap(), 7);
    drop((promise, watchdog));
}

#[test]
fn an_update_that_blocks_is_reported_and_the_rest_goes_on() {
    let pinned = tidegate_net::pinned("still", 1).unwrap();
    reports_an_update_that_blocks(pinned.next(), &pinned.next_reactor());
    let (_pool, roams) = roaming(4);
    reports_an_update_that_blocks(roams.next(), &roams.next_reactor());
}

#[test]
fn the_end_of_a_loop_closes_its_sources_and_tells_them() {
    let (dropped, log) = (Counter::new(), Log::new());
    let register = |reactor: ReactorHandle| {
        let (reader, writer) = io::pipe().unwrap();
        let reads = Reads {
            _alive: Some(DropCount::new(&dropped)),
            ..Reads::new(Blocking::May, &log)
        };
        let source = reactor.register("pipe", reader, Interest::READ, reads);
        (source.wait().unwrap(), reactor, writer)
    };
    let pinned = tidegate_net::pinned("still", 1).unwrap();
    let (_pool, roams) = roaming(4);
    let mut kept = [
        register(pinned.next_reactor()),
        register(roams.next_reactor()),
    ];
    end(&pinned);
    end(&roams);
    assert_eq!(dropped.count(), 2);
    let notified = log.take();
    assert_eq!(
        notified,
        [
            "closed: event loop `still-0` has ended; use a group that runs",
            "closed: event loop `io-0` has ended; use a group that runs"
        ]
    );
    for (source, reactor, writer) in &mut kept {
        assert!(source.is_closed() && reactor.sources().is_empty());
        let why = writer.write_all(b"x").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::BrokenPipe);
        let why = reactor.update(|_| ()).wait().unwrap_err().to_string();
        assert!(why.contains("has ended"), "{why}");
        source.close().wait().unwrap();
    }
}

#[test]
fn handles_do_not_keep_a_loop_running() {
    let pinned = tidegate_net::pinned("still", 1).unwrap();
    let (pool, roams) = roaming(4);
    let groups: [(_, Box<dyn Any>); 2] = [
        (pinned.next_reactor(), Box::new(pinned)),
        (roams.next_reactor(), Box::new(roams)),
    ];
    for (reactor, group) in groups {
        let (mut reader, writer) = io::pipe().unwrap();
        let source = reactor.register("pipe", writer, Interest::NONE, nothing::<_>);
        let source = source.wait().unwrap();
        drop(group);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        tidegate_testkit::until("the source is closed", || source.is_closed());
        assert!(reactor.update(|_| ()).wait().is_err());
    }
    drop(pool);
}

#[test]
fn a_loop_without_a_thread_refuses_updates_until_it_can_have_one() {
    let failing = Arc::new(AtomicBool::new(true));
    let fails = Arc::clone(&failing);
    let threads = ThreadBuilder::new("io").spawner(move |job: ThreadJob| {
        if fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("no threads today"));
        }
        let thread = std::thread::Builder::new().name(job.name().to_owned());
        thread.spawn(move || job.run()).map(drop)
    });
    let group = NetGroup::builder("io").loops(1).threads(threads);
    let group = group.build().unwrap();
    let reactor = group.next_reactor();
    let why = reactor.update(|_| ()).wait().unwrap_err().to_string();
    assert!(why.contains("no thread could be started"), "{why}");
    let (_reader, writer) = io::pipe().unwrap();
    let refused = reactor.register("pipe", writer, Interest::NONE, nothing::<_>);
    assert!(refused.wait().is_err());
    failing.store(false, Ordering::SeqCst);
    assert_eq!(reactor.update(|_| 7).wait().unwrap(), 7);
}

#[test]
fn updates_that_submit_updates_starve_neither_sources_nor_channels() {
    fn again(reactor: &ReactorHandle, stop: &Gate) {
        let (next, stop) = (reactor.clone(), stop.clone());
        drop(reactor.update(move |_| {
            if !stop.is_open() {
                again(&next, &stop);
            }
        }));
    }
    let pinned = tidegate_net::pinned("still", 1).unwrap();
    let (_pool, roams) = roaming(4);
    let still = serve(&pinned, |p| p.add("echo", Echo));
    let roaming = serve(&roams, |p| p.add("echo", Echo));
    let each = [
        (pinned.next_reactor(), still),
        (roams.next_reactor(), roaming),
    ];
    for (reactor, server) in each {
        let stop = Gate::new();
        again(&reactor, &stop);
        let mut client = dial(&server);
        let (reader, mut writer) = io::pipe().unwrap();
        let log = Log::new();
        let reads = Reads::new(Blocking::May, &log);
        let source = reactor.register("pipe", reader, Interest::READ, reads);
        let source = source.wait().unwrap();
        for _ in 0..20 {
            assert_eq!(round_trip(&mut client, b"hello"), b"hello");
            writer.write_all(b"x").unwrap();
            log.wait_for(1);
            assert_eq!(log.take(), ["x"]);
        }
        stop.open();
        source.close().wait().unwrap();
    }
}

#[test]
fn a_loop_that_ends_waits_for_the_task_of_a_source() {
    let (_pool, group) = roaming(4);
    let (reader, mut writer) = io::pipe().unwrap();
    let (stop, ended) = (Stop::new(), Counter::new());
    let (inside, counts) = (stop.closure(), ended.clone());
    let blocks = move |_: &SourceContext<'_, PipeReader>| {
        let (inside, counts) = (inside.clone(), counts.clone());
        Some(Task::new(move || {
            inside();
            counts.hit();
        }))
    };
    let source = group
        .next_reactor()
        .register("pipe", reader, Interest::READ, blocks);
    let source = source.wait().unwrap();
    writer.write_all(b"a").unwrap();
    stop.reached();
    let end = group.shutdown(Quiet::none(Duration::from_secs(600)));
    tidegate_testkit::until("the source is closed", || source.is_closed());
    assert!(!end.is_done(), "its task still runs");
    stop.go_on();
    end.wait().unwrap();
    assert_eq!(ended.count(), 1);
}

#[test]
fn updates_run_on_the_loop_in_order_from_many_threads() {
    on_each_kind(|reactor| {
        let reactor = reactor();
        let runs = tidegate_testkit::rounds(500);
        let log = Log::new();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (reactor, log) = (reactor.clone(), log.clone());
                scope.spawn(move || {
                    let mut last = None;
                    for number in 0..runs {
                        let log = log.clone();
                        last = Some(reactor.update(move |_| log.push((thread, number))));
                    }
                    last.unwrap().wait().unwrap();
                });
            }
        });
        let log = log.take();
        assert_eq!(log.len(), 3 * runs);
        for thread in 0..3 {
            let own = log.iter().filter(|(of, _)| *of == thread);
            assert!(own.map(|(_, number)| *number).eq(0..runs));
        }
    });
}

#[test]
fn a_wait_for_an_update_is_limited_by_the_clock_of_the_loop() {
    const NANOSECOND: Duration = Duration::from_nanos(1);
    let (clock, stop) = (ManualClock::new(), Stop::new());
    let group = group_by(&clock);
    let inside = stop.closure();
    let held = group.next_reactor().update(move |_| inside());
    stop.reached();
    let mut late = group.next_reactor().update(|_| 7);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| late.wait_timeout(NANOSECOND));
        until("it waits", || {
            clock.next_deadline() == Some(clock.now() + NANOSECOND)
        });
        clock.jump(NANOSECOND);
        assert!(waiting.join().unwrap().unwrap_err().is_timeout());
    });
    stop.go_on();
    held.wait().unwrap();
    assert_eq!(late.wait().unwrap(), 7);
}

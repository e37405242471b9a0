//! Sources and updates against waits, panics and ends: a wait that could never end is refused, and a
//! strategy that fails takes no source and no update with it in silence.

use std::io::{self, PipeReader, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::{Executor, Rejected, Task};
use tidegate_loop::{LoopProducer, Quiet, ShutdownError};
use tidegate_net::NetError;
use tidegate_net::source::{EventSource, Interest, ReactorHandle, SourceContext, SourceHandle};
use tidegate_pool::strategy::{Producer, Strategy};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, DropCount, Log, explode, until};

use super::*;

fn nothing(_: &SourceContext<'_, PipeReader>) -> Option<Task> {
    None
}

/// Waits for an update, a registration and a close. Returns which of the waits were refused.
fn waits(reactor: &ReactorHandle, source: &SourceHandle) -> [bool; 3] {
    let update = reactor.update(|_| ()).wait();
    let (reader, _writer) = io::pipe().unwrap();
    let registered = reactor.register("more", reader, Interest::NONE, nothing);
    let registered = registered.wait();
    let closed = source.close().wait();
    [
        update.is_err_and(|error| error.is_refused()),
        registered.is_err_and(|error| error.is_refused()),
        closed.is_err_and(|error| error.is_refused()),
    ]
}

/// Under a strategy that runs tasks on the thread of the loop, a task that waits for its own loop
/// waits for itself.
#[test]
fn a_task_that_holds_its_loop_does_not_wait_for_it() {
    for kind in KINDS {
        let (_pool, group) = roaming_with(kind, 4);
        let reactor = group.next_reactor();
        let (reader, _writer) = io::pipe().unwrap();
        let source = reactor.register("pipe", reader, Interest::READ, nothing);
        let source = source.wait().unwrap();
        let home = group.iter().next().unwrap();
        let (mine, other) = (home.clone(), (reactor.clone(), source.clone()));
        let refused = home.submit(move || {
            let own = mine.submit(|| ()).unwrap().wait();
            let own = own.is_err_and(|error| error.is_refused());
            (own, waits(&other.0, &other.1))
        });
        let (own, refused) = refused.unwrap().wait().unwrap();
        assert_eq!(own, kind == Kind::Pc, "{kind:?}");
        assert_eq!(refused, [own; 3], "{kind:?}: as for a task of the loop");
        group
            .shutdown(Quiet::none(Duration::from_secs(60)))
            .wait()
            .unwrap();
        assert!(source.is_closed());
    }
}

#[test]
fn a_wait_in_an_update_or_a_callback_is_refused() {
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    let (_pool, roams) = roaming(4);
    for reactor in [pinned.next_reactor(), roams.next_reactor()] {
        let (reader, mut writer) = io::pipe().unwrap();
        let source = reactor.register("idle", reader, Interest::NONE, nothing);
        let source = source.wait().unwrap();
        let (mine, other) = (reactor.clone(), source.clone());
        let refused = reactor.update(move |_| waits(&mine, &other));
        assert_eq!(refused.wait().unwrap(), [true; 3]);
        until("it is closed", || source.is_closed());
        let log = Log::new();
        let (mine, seen) = (reactor.clone(), log.clone());
        let (reader, mut writes) = io::pipe().unwrap();
        let selected = move |at: &SourceContext<'_, PipeReader>| {
            seen.push(waits(&mine, at.handle()));
            None
        };
        let source = reactor.register("waits", reader, Interest::READ, selected);
        let source = source.wait().unwrap();
        writes.write_all(b"x").unwrap();
        log.wait_for(1);
        assert_eq!(log.take(), [[true; 3]]);
        until("it has closed itself", || source.is_closed());
        assert!(writer.write_all(b"x").is_err(), "its descriptor is closed");
    }
}

/// Registers, updates and closes when it is closed.
struct Clings {
    reactor: ReactorHandle,
    me: Arc<Mutex<Option<SourceHandle>>>,
    log: Log<String>,
    _alive: DropCount,
}

impl EventSource<PipeReader> for Clings {
    fn selected(&mut self, at: &SourceContext<'_, PipeReader>) -> Option<Task> {
        let mut byte = [0];
        at.descriptor().as_ref().read_exact(&mut byte).unwrap();
        Some(Task::new(|| explode()))
    }

    fn closed(&mut self, why: Option<&NetError>) {
        let log = self.log.clone();
        log.push(format!("closed: {}", why.is_some()));
        let (reader, _writer) = io::pipe().unwrap();
        let again = self
            .reactor
            .register("again", reader, Interest::READ, nothing);
        again.on_complete(move |outcome| log.push(format!("again: {}", outcome.is_success())));
        let log = self.log.clone();
        let update = self.reactor.update(|_| ());
        update.on_complete(move |outcome| log.push(format!("update: {}", outcome.is_success())));
        let log = self.log.clone();
        if let Some(me) = self.me.lock().unwrap().take() {
            assert!(me.is_closed() && me.set_interests(Interest::READ).is_err());
            let closed = me.close();
            closed.on_complete(move |outcome| log.push(format!("close: {}", outcome.is_success())));
        }
        explode();
    }
}

#[test]
fn what_a_source_asks_for_when_its_loop_ends_is_refused_once() {
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    let (_pool, roams) = roaming(4);
    let end = |which: usize| match which {
        0 => drop(pinned.shutdown(Quiet::none(Duration::from_secs(60))).wait()),
        _ => drop(roams.shutdown(Quiet::none(Duration::from_secs(60))).wait()),
    };
    let reactors = [pinned.next_reactor(), roams.next_reactor()];
    for (which, reactor) in reactors.into_iter().enumerate() {
        let (log, dropped) = (Log::new(), Counter::new());
        let (reader, mut writer) = io::pipe().unwrap();
        let me = Arc::new(Mutex::new(None));
        let clings = Clings {
            reactor: reactor.clone(),
            me: Arc::clone(&me),
            log: log.clone(),
            _alive: DropCount::new(&dropped),
        };
        let source = reactor.register("clings", reader, Interest::READ, clings);
        let source = source.wait().unwrap();
        *me.lock().unwrap() = Some(source.clone());
        // Its task panics with a payload whose drop panics; the source stays.
        writer.write_all(b"x").unwrap();
        writer.write_all(b"x").unwrap();
        reactor.update(|_| ()).wait().unwrap();
        end(which);
        log.wait_for(4);
        let mut log = log.take();
        log[1..].sort();
        assert_eq!(
            log,
            [
                "closed: true",
                "again: false",
                "close: true",
                "update: false"
            ]
        );
        assert_eq!(dropped.count(), 1);
        assert!(source.is_closed() && reactor.sources().is_empty());
        assert!(reactor.update(|_| ()).wait().is_err());
        source.close().wait().unwrap();
    }
}

/// Runs tasks where they were produced, until it is told to panic.
struct Panics {
    producer: Mutex<Option<LoopProducer>>,
    wanted: AtomicBool,
    now: Arc<AtomicBool>,
    pool: Arc<dyn Executor>,
}

struct Handle(Arc<Panics>);

impl Strategy for Handle {
    fn produce(&self) {
        let own = &*self.0;
        own.wanted.store(true, Ordering::SeqCst);
        while own.wanted.load(Ordering::SeqCst) {
            let held = own.producer.lock().unwrap().take();
            let Some(mut producer) = held else { return };
            own.wanted.store(false, Ordering::SeqCst);
            while let Some(task) = producer.produce() {
                if own.now.load(Ordering::SeqCst) {
                    explode();
                }
                task.run();
            }
            *own.producer.lock().unwrap() = Some(producer);
        }
    }

    fn dispatch(&self) -> Result<(), Rejected<()>> {
        let own = Self(Arc::clone(&self.0));
        let task = Task::new(move || own.produce());
        let dispatched = self.0.pool.execute_internal(task);
        dispatched.map_err(|refused| refused.map(drop))
    }

    fn shutdown(&self) -> bool {
        self.0.producer.lock().unwrap().take().is_some()
    }

    fn is_idle(&self) -> bool {
        self.0.producer.lock().unwrap().is_some()
    }

    fn is_shutdown(&self) -> bool {
        !self.is_idle()
    }
}

#[test]
fn a_strategy_that_panics_ends_sources_and_updates_with_their_loop() {
    for round in 0..6 {
        let pool = WorkerPool::builder("workers").core(6).max(6);
        let pool = pool.build().unwrap();
        let now = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&now);
        let builder = NetGroup::builder("io").loops(1).on_unhandled(|_, _| ());
        let builder = builder.strategy(move |producer, pool| {
            Handle(Arc::new(Panics {
                producer: Mutex::new(Some(producer)),
                wanted: AtomicBool::new(false),
                now: Arc::clone(&switch),
                pool,
            }))
        });
        let group = builder.build_roaming(&pool).unwrap();
        let reactor = group.next_reactor();
        let (log, dropped) = (Log::new(), Counter::new());
        let mut writers = Vec::new();
        for _ in 0..5 {
            let (reader, writer) = io::pipe().unwrap();
            let clings = Clings {
                reactor: reactor.clone(),
                me: Arc::default(),
                log: log.clone(),
                _alive: DropCount::new(&dropped),
            };
            let source = reactor.register("clings", reader, Interest::READ, clings);
            source.wait().unwrap();
            writers.push(writer);
        }
        let (ran, refused) = (Counter::new(), Counter::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let (runs, none) = (ran.clone(), refused.clone());
                        let update = reactor.update(move |_| runs.hit());
                        update.on_complete(move |outcome| {
                            if !outcome.is_success() {
                                none.hit();
                            }
                        });
                        let _ = (group.dump(), reactor.sources());
                    }
                });
            }
            tidegate_testkit::yield_times(round * 20);
            now.store(true, Ordering::SeqCst);
            for writer in &mut writers {
                let _ = writer.write_all(b"x");
            }
            // If the sources were closed already, a task makes the strategy panic.
            let _ = group.execute(|| ());
        });
        let over = group.termination();
        let why = over.wait().unwrap_err();
        assert!(
            matches!(why, WaitError::Failed(ShutdownError::BadStrategy { .. })),
            "{why}"
        );
        until("each update has one outcome", || {
            ran.count() + refused.count() == 100
        });
        dropped.wait_for(5);
        assert!(reactor.sources().is_empty());
        assert!(reactor.update(|_| ()).wait().is_err());
        let closed = log.take();
        let closed = closed.iter().filter(|one| *one == "closed: true");
        assert_eq!(closed.count(), 5, "each is told once");
        drop(group);
        let report = pool.shutdown(Duration::from_secs(60)).wait().unwrap();
        assert!(report.stuck.is_empty(), "{report}");
    }
}

#[test]
fn updates_and_registrations_that_are_cancelled_run_or_do_not() {
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    let (_pool, roams) = roaming(4);
    for reactor in [pinned.next_reactor(), roams.next_reactor()] {
        let (ran, cancelled, dropped) = (Counter::new(), Counter::new(), Counter::new());
        let (kept, undone) = (Counter::new(), Counter::new());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let (runs, alive) = (ran.clone(), DropCount::new(&dropped));
                        let update = reactor.update(move |_| {
                            let _alive = alive;
                            runs.hit();
                        });
                        if update.cancel() {
                            cancelled.hit();
                        }
                        let (reader, _writer) = io::pipe().unwrap();
                        let alive = DropCount::new(&dropped);
                        let source = move |_: &SourceContext<'_, PipeReader>| {
                            let _ = &alive;
                            None
                        };
                        let source = reactor.register("pipe", reader, Interest::NONE, source);
                        match source.cancel() {
                            true => {
                                undone.hit();
                            }
                            false => {
                                source.wait().unwrap().close().wait().unwrap();
                                kept.hit();
                            }
                        }
                    }
                });
            }
        });
        reactor.update(|_| ()).wait().unwrap();
        assert_eq!(ran.count() + cancelled.count(), 600);
        assert_eq!(kept.count() + undone.count(), 600);
        dropped.wait_for(1_200);
        assert!(reactor.sources().is_empty());
    }
}

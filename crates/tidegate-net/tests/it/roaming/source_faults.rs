//! Sources and updates against waits and ends: a wait that could never end is refused.

use std::io::{self, PipeReader, Read, Write};
use std::sync::Mutex;
use std::time::Duration;

use tidegate_core::Task;
use tidegate_loop::Quiet;
use tidegate_net::NetError;
use tidegate_net::source::{EventSource, Interest, ReactorHandle, SourceContext, SourceHandle};
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

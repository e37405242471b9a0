//! Sources and updates at their edges: many of them, the same descriptor twice, and ends that come
//! from inside.

use std::io::{self, PipeReader, Write};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Task;
use tidegate_loop::Quiet;
use tidegate_net::NetError;
use tidegate_net::source::{EventSource, Interest, ReactorHandle, SourceContext};
use tidegate_testkit::{Counter, DropCount, Log, until};

use crate::roaming::roaming;

/// Counts how often it is selected, and gives up its interests each time.
struct Once {
    selected: Counter,
    closed: Counter,
    _alive: DropCount,
}

impl EventSource<PipeReader> for Once {
    fn selected(&mut self, at: &SourceContext<'_, PipeReader>) -> Option<Task> {
        assert!(at.readiness().is_readable());
        self.selected.hit();
        None
    }

    fn update_interests(&mut self, _: Interest) -> Interest {
        Interest::NONE
    }

    fn closed(&mut self, _: Option<&NetError>) {
        self.closed.hit();
    }
}

#[test]
fn thousands_of_sources_of_one_pipe_are_each_selected_and_closed_once() {
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    let (_pool, roams) = roaming(4);
    for reactor in [pinned.next_reactor(), roams.next_reactor()] {
        let (selected, closed, dropped) = (Counter::new(), Counter::new(), Counter::new());
        let (reader, mut writer) = io::pipe().unwrap();
        let many = 2_000;
        let registered: Vec<_> = (0..many)
            .map(|_| {
                let once = Once {
                    selected: selected.clone(),
                    closed: closed.clone(),
                    _alive: DropCount::new(&dropped),
                };
                let same = reader.try_clone().unwrap();
                reactor.register("same", same, Interest::READ, once)
            })
            .collect();
        let sources: Vec<_> = registered
            .into_iter()
            .map(|one| one.wait().unwrap())
            .collect();
        assert_eq!(reactor.sources().len(), many);
        writer.write_all(b"x").unwrap();
        selected.wait_for(many as u64);
        // All of them from eight threads, each twice.
        std::thread::scope(|scope| {
            for part in sources.chunks(many / 8) {
                scope.spawn(move || {
                    for source in part {
                        let _ = source.set_interests(Interest::WRITE);
                        let _ = source.set_interests(Interest::NONE);
                        for end in [source.close(), source.close()] {
                            end.wait().unwrap();
                        }
                    }
                });
            }
        });
        assert!(reactor.sources().is_empty());
        let ends = (closed.count(), dropped.count(), selected.count());
        assert_eq!(ends, (many as u64, many as u64, many as u64));
    }
}

/// Registers a copy of its descriptor in its own place, `left` times.
fn replaces_itself(
    reactor: ReactorHandle,
    left: u32,
    log: Log<u32>,
) -> impl FnMut(&SourceContext<'_, PipeReader>) -> Option<Task> {
    move |at| {
        log.push(left);
        drop(at.handle().close());
        if left > 0 {
            let copy = at.descriptor().try_clone().unwrap();
            let next = replaces_itself_boxed(reactor.clone(), left - 1, log.clone());
            drop(reactor.register("next", copy, Interest::READ, next));
        }
        None
    }
}

type Selected = Box<dyn FnMut(&SourceContext<'_, PipeReader>) -> Option<Task> + Send>;

fn replaces_itself_boxed(reactor: ReactorHandle, left: u32, log: Log<u32>) -> Selected {
    Box::new(replaces_itself(reactor, left, log))
}

#[test]
fn a_source_can_put_another_one_in_its_place() {
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    let (_pool, roams) = roaming(4);
    for reactor in [pinned.next_reactor(), roams.next_reactor()] {
        let log = Log::new();
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        let first = replaces_itself_boxed(reactor.clone(), 5, log.clone());
        drop(reactor.register("first", reader, Interest::READ, first));
        log.wait_for(6);
        until("the last one is closed", || reactor.sources().is_empty());
        assert_eq!(log.take(), [5, 4, 3, 2, 1, 0]);
    }
}

/// Submits itself again until it is refused, and counts both ends.
fn endless(reactor: &ReactorHandle, ran: &Counter, refused: &Counter, submitted: &Counter) {
    let (next, counts) = (
        reactor.clone(),
        [ran.clone(), refused.clone(), submitted.clone()],
    );
    submitted.hit();
    let [runs, is_refused, submits] = counts;
    let none = is_refused.clone();
    let update = reactor.update(move |_| {
        runs.hit();
        endless(&next, &runs, &is_refused, &submits);
    });
    update.on_complete(move |outcome| {
        if let tidegate_promise::Outcome::Failure(why) = outcome {
            assert!(why.to_string().contains("ended"), "{why}");
            none.hit();
        }
    });
}

#[test]
fn endless_updates_do_not_keep_a_loop_from_its_end_and_each_has_one_outcome() {
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    let (_pool, roams) = roaming(4);
    let (ran, refused, submitted) = (Counter::new(), Counter::new(), Counter::new());
    for reactor in [pinned.next_reactor(), roams.next_reactor()] {
        for _ in 0..3 {
            endless(&reactor, &ran, &refused, &submitted);
        }
    }
    ran.wait_for(100);
    let quiet = Quiet::none(Duration::from_secs(60));
    pinned.shutdown(quiet).wait().unwrap();
    roams.shutdown(quiet).wait().unwrap();
    assert_eq!(refused.count(), 6, "the last one of each chain");
    assert_eq!(ran.count() + refused.count(), submitted.count());
}

/// Panics when it is dropped.
struct Bomb(Arc<Counter>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.hit();
        if !std::thread::panicking() {
            panic!("as planned");
        }
    }
}

#[test]
fn results_and_captures_whose_drop_panics_do_not_stop_a_loop() {
    let pinned = tidegate_net::pinned("io", 1).unwrap();
    let (_pool, roams) = roaming(4);
    for reactor in [pinned.next_reactor(), roams.next_reactor()] {
        let dropped = Arc::new(Counter::new());
        let bomb = || Bomb(Arc::clone(&dropped));
        let (one, two) = (bomb(), bomb());
        drop(reactor.update(move |_| one)); // no reader takes the result
        drop(reactor.update(move |_| drop(two)));
        let (reader, _writer) = io::pipe().unwrap();
        let held = bomb();
        let source = move |_: &SourceContext<'_, PipeReader>| {
            let _ = &held;
            None
        };
        let source = reactor.register("bomb", reader, Interest::READ, source);
        source.wait().unwrap().close().wait().unwrap();
        assert_eq!(
            reactor.update(|view| view.sources().len()).wait().unwrap(),
            0
        );
        assert_eq!(dropped.count(), 3);
    }
}

//! Sources and updates that do anything, at random: they panic, close and replace themselves, change
//! interests, dump and submit more, while other threads do the same and the loop ends in every way.
//! Each source is told of its end once and dropped, each task runs or is dropped, and each update has one
//! outcome.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{Blocking, Task};
use tidegate_loop::{Placement, Quiet};
use tidegate_net::source::{EventSource, Interest, ReactorHandle, SourceContext, SourceHandle};
use tidegate_net::{NetError, NetGroup};
use tidegate_pool::{PoolPolicy, WorkerPool};
use tidegate_promise::Outcome;
use tidegate_testkit::{Bomb, Counter, DropCount, Rng, explode, model, rounds, until, yield_times};

/// Counts what became of sources, tasks and updates.
#[derive(Clone, Default)]
struct Tally {
    /// Sources that were made, that were registered, that were told of their end, and that are gone.
    sources: Counter,
    registered: Counter,
    told: Counter,
    gone: Counter,
    tasks: Counter,
    tasks_gone: Counter,
    /// Updates, registrations and closes; those that have an outcome; updates that ran.
    asked: Counter,
    answered: Counter,
    ran: Counter,
}

/// What all threads use.
#[derive(Clone)]
struct Shop {
    reactor: ReactorHandle,
    handles: Arc<Mutex<Vec<SourceHandle>>>,
    writers: Arc<Mutex<Vec<UnixStream>>>,
    tally: Tally,
    dump: Arc<dyn Fn() + Send + Sync>,
}

fn interest(rng: &mut Rng) -> Interest {
    match rng.below(3) {
        0 => Interest::NONE,
        _ => Interest::READ,
    }
}

impl Shop {
    /// Creates a source, and a descriptor that may be ready, or at its end.
    fn make(&self, rng: &mut Rng) -> (UnixStream, Hostile) {
        let (reader, mut writer) = UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        if rng.chance(0.7) {
            writer.write_all(b"abc").unwrap();
        }
        if rng.chance(0.8) {
            self.writers.lock().unwrap().push(writer);
        }
        self.tally.sources.hit();
        let source = Hostile {
            rng: rng.fork(),
            shop: self.clone(),
            _gone: DropCount::new(&self.tally.gone),
            _bomb: rng.chance(0.3).then(Bomb::new),
        };
        (reader, source)
    }

    fn register(&self, rng: &mut Rng) {
        let (descriptor, source) = self.make(rng);
        let interests = interest(rng);
        self.tally.asked.hit();
        let registered = self.reactor.register("any", descriptor, interests, source);
        if rng.chance(0.1) {
            registered.cancel();
        }
        let shop = self.clone();
        registered.finally(move |outcome| {
            if let Outcome::Success(handle) = outcome {
                shop.tally.registered.hit();
                shop.handles.lock().unwrap().push(handle.clone());
            }
            shop.tally.answered.hit();
        });
    }

    fn any(&self, rng: &mut Rng) -> Option<SourceHandle> {
        let mut handles = self.handles.lock().unwrap();
        let len = handles.len();
        (len > 0).then(|| match rng.chance(0.2) {
            true => handles.swap_remove(rng.index(len)),
            false => handles[rng.index(len)].clone(),
        })
    }

    fn close(&self, source: &SourceHandle) {
        self.tally.asked.hit();
        let answered = self.tally.answered.clone();
        source.close().finally(move |closed| {
            assert!(closed.is_success());
            answered.hit();
        });
    }

    fn update(&self, rng: &mut Rng) {
        let (shop, mut mine) = (self.clone(), rng.fork());
        self.tally.asked.hit();
        let update = self.reactor.update(move |view| {
            shop.tally.ran.hit();
            match mine.below(8) {
                0 => explode(),
                1 => shop.update(&mut mine),
                2 => (shop.dump)(),
                3 => drop(shop.any(&mut mine).map(|source| view.close(&source))),
                4 => {
                    let (descriptor, source) = shop.make(&mut mine);
                    let made = view.register("view", descriptor, Interest::READ, source);
                    if let Ok(made) = made {
                        shop.tally.registered.hit();
                        shop.handles.lock().unwrap().push(made);
                    }
                }
                5 => drop(view.sources()),
                6 => shop.act(&mut mine),
                _ => {}
            }
            mine.chance(0.2).then(Bomb::new)
        });
        let answered = self.tally.answered.clone();
        update.finally(move |_| {
            answered.hit();
        });
    }

    /// Does anything that any thread may do.
    fn act(&self, rng: &mut Rng) {
        match rng.below(8) {
            0 => self.register(rng),
            1 => self.update(rng),
            2 => {
                if let Some(source) = self.any(rng) {
                    self.close(&source);
                }
            }
            3 | 4 => {
                let set = self.any(rng).map(|one| one.set_interests(interest(rng)));
                let set = set.unwrap_or(Ok(()));
                assert!(set.is_ok() || matches!(set, Err(NetError::SourceClosed { .. })));
            }
            5 => {
                let mut writers = self.writers.lock().unwrap();
                let len = writers.len();
                if len > 0 {
                    drop(writers.swap_remove(rng.index(len)));
                }
            }
            6 => {
                let mut writers = self.writers.lock().unwrap();
                if let Some(writer) = writers.last_mut() {
                    let _ = writer.write_all(b"x");
                }
            }
            _ => drop(self.reactor.sources()),
        }
    }
}

/// A source that does anything.
struct Hostile {
    rng: Rng,
    shop: Shop,
    _gone: DropCount,
    _bomb: Option<Bomb>,
}

impl EventSource<UnixStream> for Hostile {
    fn selected(&mut self, at: &SourceContext<'_, UnixStream>) -> Option<Task> {
        let rng = &mut self.rng;
        let ended = match at.descriptor().as_ref().read(&mut [0; 8]) {
            Ok(count) => count == 0,
            Err(why) => why.kind() != ErrorKind::WouldBlock,
        };
        if ended {
            self.shop.close(at.handle());
        }
        match rng.below(12) {
            0 => explode(),
            1 => self.shop.close(at.handle()),
            2 => drop(at.handle().set_interests(interest(rng))),
            3 => (self.shop.dump)(),
            4 | 5 => self.shop.act(rng),
            6 => return None,
            _ => {}
        }
        self.shop.tally.tasks.hit();
        let (gone, shop) = (
            DropCount::new(&self.shop.tally.tasks_gone),
            self.shop.clone(),
        );
        let (mut mine, descriptor) = (rng.fork(), Arc::clone(at.descriptor()));
        let kind = [Blocking::Never, Blocking::Adapts, Blocking::May][rng.index(3)];
        let task = Task::of(kind, move || {
            let _gone = gone;
            yield_times(mine.below(4));
            drop(descriptor);
            match mine.below(6) {
                0 => explode(),
                1 => shop.act(&mut mine),
                _ => {}
            }
        });
        if rng.chance(0.05) {
            drop(task);
            explode();
        }
        Some(task)
    }

    fn update_interests(&mut self, interests: Interest) -> Interest {
        match self.rng.below(10) {
            0 => explode(),
            1 => interest(&mut self.rng),
            2 => {
                self.shop.act(&mut self.rng);
                interests
            }
            _ => interests,
        }
    }

    fn closed(&mut self, _why: Option<&NetError>) {
        self.shop.tally.told.hit();
        match self.rng.below(4) {
            0 => explode(),
            1 => self.shop.act(&mut self.rng),
            2 => (self.shop.dump)(),
            _ => {}
        }
    }
}

/// Does anything with a loop of `group`, and ends it by `end`.
fn disturb<P: Placement>(rng: &mut Rng, group: &NetGroup<P>, end: impl FnOnce(&mut Rng))
where
    NetGroup<P>: Clone + Send + Sync + 'static,
{
    let loops = group.loops().clone();
    let shop = Shop {
        reactor: group.next_reactor(),
        handles: Arc::default(),
        writers: Arc::default(),
        tally: Tally::default(),
        dump: Arc::new(move || drop(loops.dump_within(Duration::ZERO).to_string())),
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (shop, mut mine) = (shop.clone(), rng.fork());
            scope.spawn(move || {
                for _ in 0..60 {
                    shop.act(&mut mine);
                    if mine.chance(0.3) {
                        shop.register(&mut mine);
                    }
                }
            });
        }
        yield_times(rng.below(30));
        end(rng);
    });
    let Shop { tally, .. } = &shop;
    until("each call has its outcome", || {
        tally.answered.count() == tally.asked.count()
    });
    until("each source was told and is gone", || {
        (tally.told.count(), tally.gone.count())
            == (tally.registered.count(), tally.sources.count())
    });
    until("each task has ended", || {
        tally.tasks_gone.count() == tally.tasks.count()
    });
    assert!(shop.reactor.sources().is_empty());
    for handle in shop.handles.lock().unwrap().iter() {
        assert!(handle.is_closed() && handle.interests() == Interest::NONE);
        assert!(handle.set_interests(Interest::READ).is_err());
    }
}

fn finish<P: Placement>(group: &NetGroup<P>) {
    let end = group.shutdown(Quiet::none(Duration::from_secs(60)));
    end.wait().unwrap();
}

#[test]
fn on_a_pinned_loop_each_source_task_and_update_ends_once() {
    model(0..rounds(16) as u64, |rng| {
        let group = NetGroup::builder("io").loops(1).on_unhandled(|_, _| ());
        let group = group.build().unwrap();
        disturb(rng, &group, |_| finish(&group));
    });
}

#[test]
fn on_a_roaming_loop_each_source_task_and_update_ends_once() {
    model(0..rounds(16) as u64, |rng| {
        let pool = WorkerPool::builder("workers").core(2).max(3);
        let policy = match rng.below(2) {
            0 => PoolPolicy::Fail,
            _ => PoolPolicy::DropOldest,
        };
        let pool = pool
            .queue(1 + rng.index(4))
            .reserved(rng.index(2))
            .policy(policy);
        let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
        let group = NetGroup::builder("io").loops(1).on_unhandled(|_, _| ());
        let group = group.build_roaming(&pool).unwrap();
        disturb(rng, &group, |rng| {
            if rng.chance(0.3) {
                drop(pool.shutdown(Duration::ZERO));
            }
            // The watchdog is earlier than this limit.
            let end = group.shutdown(Quiet::none(Duration::from_secs(600)));
            // The pool may hand back the task of a source, for which the loop waits.
            until("the loop ends", || {
                let left = pool.handed_back().take();
                for task in left {
                    // A task of this test may panic.
                    let run = AssertUnwindSafe(|| task.run());
                    let _ = catch_unwind(run);
                }
                end.is_done()
            });
        });
    });
}

/// A descriptor whose `as_fd` panics, and whose drop panics.
struct NoDescriptor(Bomb, DropCount);

impl AsFd for NoDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let _ = (&self.0, &self.1);
        explode()
    }
}

#[test]
fn a_descriptor_that_panics_is_an_error_and_all_is_dropped() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let reactor = group.next_reactor();
    let gone = Counter::new();
    let make = |gone: &Counter| {
        let (bomb, held) = (Bomb::new(), DropCount::new(gone));
        let source = move |_: &SourceContext<'_, NoDescriptor>| -> Option<Task> {
            let _ = (&bomb, &held);
            None
        };
        (NoDescriptor(Bomb::new(), DropCount::new(gone)), source)
    };
    let (descriptor, source) = make(&gone);
    let refused = reactor.register("none", descriptor, Interest::READ, source);
    let why = refused.wait().unwrap_err().to_string();
    assert!(why.contains("none"), "{why}");
    assert_eq!(gone.count(), 2);
    let (descriptor, source) = make(&gone);
    let refused = reactor.update(move |view| {
        let made = view.register("none", descriptor, Interest::READ, source);
        matches!(made, Err(NetError::SourcePanicked { .. }))
    });
    assert!(refused.wait().unwrap());
    assert_eq!(gone.count(), 4);
    finish(&group);
}

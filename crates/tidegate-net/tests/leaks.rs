//! Pools, loops and sources leave neither descriptors nor threads behind, however they end. The test
//! is alone in its process, because it counts both.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::io::{self, PipeReader, Write};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Task;
use tidegate_loop::{Placement, Quiet};
use tidegate_net::NetGroup;
use tidegate_net::source::{Interest, SourceContext};
use tidegate_pool::{OrderedView, WorkerPool};
use tidegate_testkit::{Gate, until};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// How a pool and its loops end.
#[derive(Clone, Copy, Debug)]
enum End {
    AtOnce,
    InTime,
    ByHandles,
    Stuck,
    FromInside,
    PoolFirst,
}

const ENDS: [End; 6] = [
    End::AtOnce,
    End::InTime,
    End::ByHandles,
    End::Stuck,
    End::FromInside,
    End::PoolFirst,
];

/// Gives the group, the pool and a view of it work that owns all three: scheduled tasks, a source, an
/// update, and tasks behind others. Some run, some are cancelled, some are handed back.
fn own<P: Placement>(group: &NetGroup<P>, pool: &WorkerPool) -> (OrderedView, Arc<()>) {
    let minute = Duration::from_secs(60);
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    let alive = Arc::new(());
    let owner = (
        group.clone(),
        pool.clone(),
        view.clone(),
        Arc::clone(&alive),
    );
    let (reader, writer) = io::pipe().unwrap();
    let owned = (owner.clone(), writer);
    let idle = move |_: &SourceContext<'_, PipeReader>| {
        let _ = &owned;
        None
    };
    let reactor = group.next_reactor();
    drop(reactor.register("owns", reader, Interest::READ, idle));
    let mine = || {
        let owner = owner.clone();
        move || drop(owner.clone())
    };
    let (once, again) = (mine(), mine());
    drop(reactor.update(move |_| once()));
    let accepted = [
        pool.schedule(minute, mine()).map(drop).is_ok(),
        view.schedule(minute, mine()).map(drop).is_ok(),
        group.schedule(minute, mine()).map(drop).is_ok(),
        pool.schedule_at_fixed_rate(minute, minute, again).is_ok(),
        view.schedule_with_fixed_delay(minute, minute, mine())
            .is_ok(),
        group.schedule_at_fixed_rate(minute, minute, mine()).is_ok(),
        pool.execute(mine()).is_ok(),
        view.execute(mine()).is_ok(),
        group.execute(mine()).is_ok(),
    ];
    assert_eq!(accepted, [true; 9]);
    (view, alive)
}

/// Uses a group and its pool, and ends both. If their work owns them, takes what is handed back.
fn use_and_end<P: Placement>(group: NetGroup<P>, pool: WorkerPool, end: End, owns: bool) {
    let minute = Duration::from_secs(60);
    let reactor = group.next_reactor();
    let (reader, mut writer) = io::pipe().unwrap();
    let (stuck, inside) = (Gate::new(), Gate::new());
    let (gate, here, sticks) = (stuck.clone(), inside.clone(), matches!(end, End::Stuck));
    let runs = move |at: &SourceContext<'_, PipeReader>| {
        let (gate, here) = (gate.clone(), here.clone());
        at.handle().set_interests(Interest::NONE).unwrap();
        Some(Task::new(move || {
            here.open();
            if sticks {
                gate.wait();
            }
        }))
    };
    drop(reactor.register("runs", reader, Interest::READ, runs));
    let (reader, _writer) = io::pipe().unwrap();
    drop(reactor.register("idle", reader, Interest::READ, nothing));
    writer.write_all(b"x").unwrap();
    let not_due = [
        pool.schedule(minute, || ()).map(drop).is_ok(),
        group.schedule(minute, || ()).map(drop).is_ok(),
    ];
    assert_eq!(not_due, [true; 2]);
    inside.wait();
    // Such work would keep a group and a pool that nobody shuts down.
    let owns = owns && !matches!(end, End::ByHandles);
    let owned = owns.then(|| own(&group, &pool));
    let (at_once, in_time) = (Quiet::none(Duration::ZERO), Quiet::none(minute));
    match end {
        End::AtOnce | End::Stuck => {
            drop((group.shutdown(at_once), pool.shutdown(Duration::ZERO)));
            stuck.open();
        }
        End::InTime => {
            group.shutdown(in_time).wait().unwrap();
            pool.shutdown(minute).wait().unwrap();
        }
        End::ByHandles => {}
        End::FromInside => {
            let (mine, own) = (group.clone(), pool.clone());
            let ends = group.execute(move || {
                drop((
                    mine.shutdown(in_time),
                    own.shutdown(Duration::from_secs(60)),
                ));
            });
            ends.unwrap();
        }
        End::PoolFirst => {
            drop((pool.shutdown(Duration::ZERO), group.shutdown(at_once)));
        }
    }
    // What was handed back is dropped with the handles, unless it owns one.
    if let Some((view, alive)) = owned {
        let lists = || [group.handed_back(), pool.handed_back(), view.handed_back()];
        until("nothing owns the group", || {
            lists().iter().for_each(|list| drop(list.take()));
            Arc::strong_count(&alive) == 1
        });
    }
}

fn pools_and_loops(rounds: usize) {
    for (round, end) in ENDS.into_iter().cycle().take(rounds).enumerate() {
        let pool = WorkerPool::builder("workers").core(2).max(4);
        let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
        let group = NetGroup::builder("io").loops(1 + round % 2);
        let group = group.on_unhandled(|_, _| ());
        let owns = round / ENDS.len() % 2 == 1;
        match round % 3 {
            0 => use_and_end(group.build().unwrap(), pool, end, owns),
            _ => use_and_end(group.build_roaming(&pool).unwrap(), pool, end, owns),
        }
    }
}

fn nothing(_: &SourceContext<'_, PipeReader>) -> Option<Task> {
    None
}

fn panics(_: &SourceContext<'_, PipeReader>) -> Option<Task> {
    panic!("as planned")
}

/// Registers sources that are closed, dropped by an update, refused, cancelled, that panic, and
/// that are left to the loop.
fn use_up(reactor: &tidegate_net::source::ReactorHandle) {
    for _ in 0..8 {
        let (reader, mut writer) = io::pipe().unwrap();
        let source = reactor.register("closed", reader, Interest::READ, nothing);
        source.wait().unwrap().close().wait().unwrap();
        assert!(
            writer.write_all(b"x").is_err(),
            "nobody holds the other end"
        );
        let (reader, _writer) = io::pipe().unwrap();
        let update = reactor.update(move |view| {
            let source = view
                .register("inside", reader, Interest::READ, nothing)
                .unwrap();
            view.close(&source)
        });
        assert!(update.wait().unwrap());
        let (reader, _writer) = io::pipe().unwrap();
        reactor
            .register("cancelled", reader, Interest::READ, nothing)
            .cancel();
        let (reader, mut writer) = io::pipe().unwrap();
        let source = reactor.register("panics", reader, Interest::READ, panics);
        let source = source.wait().unwrap();
        writer.write_all(b"x").unwrap();
        until("the source is closed", || source.is_closed());
        let (reader, _writer) = io::pipe().unwrap();
        let left = reactor.register("left", reader, Interest::READ, nothing);
        left.wait().unwrap();
    }
}

#[test]
fn pools_loops_and_sources_leave_neither_descriptors_nor_threads_behind() {
    // Threads that the process keeps, such as that of the default hook.
    pools_and_loops(ENDS.len());
    until("the first ones have ended", || threads() <= 2);
    let (before, first) = (descriptors(), threads());
    sources(before);
    pools_and_loops(tidegate_testkit::rounds(100));
    until("all have ended", || {
        (descriptors(), threads()) == (before, first)
    });
}

/// Uses sources in every way and compares the descriptors.
fn sources(before: usize) {
    let quiet = || Quiet::none(Duration::from_secs(60));
    for _ in 0..2 {
        let pinned = tidegate_net::NetGroup::builder("still").loops(1);
        let pinned = pinned.on_unhandled(|_, _| ()).build().unwrap();
        use_up(&pinned.next_reactor());
        let with_pinned = descriptors();
        pinned.shutdown(quiet()).wait().unwrap();
        drop(pinned);
        until("all are closed", || descriptors() == before);
        assert!(with_pinned > before);
        let pool = WorkerPool::builder("workers")
            .core(3)
            .max(3)
            .build()
            .unwrap();
        let roams = tidegate_net::NetGroup::builder("io").loops(1);
        let roams = roams.on_unhandled(|_, _| ()).build_roaming(&pool).unwrap();
        use_up(&roams.next_reactor());
        roams.shutdown(quiet()).wait().unwrap();
        drop(roams);
        pool.shutdown(Duration::from_secs(60)).wait().unwrap();
        drop(pool);
        until("all are closed", || descriptors() == before);
    }
}

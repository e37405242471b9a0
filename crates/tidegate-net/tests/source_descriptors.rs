//! Sources leave no descriptor behind, however they end. The test is alone in its process, because
//! it counts the descriptors.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::io::{self, PipeReader, Write};
use std::time::Duration;

use tidegate_core::Task;
use tidegate_loop::Quiet;
use tidegate_net::source::{Interest, SourceContext};
use tidegate_pool::WorkerPool;
use tidegate_testkit::until;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
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
fn sources_leave_no_descriptor_behind() {
    let quiet = || Quiet::none(Duration::from_secs(60));
    let before = descriptors();
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

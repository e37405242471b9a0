//! Handlers on executors that run their tasks in place, drop them or delay them.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_loop::{EventLoop, ManualLoop};
use tidegate_net::{
    ChannelOptions, EmbeddedChannel, Handler, Inbound, InboundContext, NetError, Nothing,
    PipelineBuilder, PipelineChange, UserEvent, WaterMarks,
};
use tidegate_pool::{PoolPolicy, WorkerPool};
use tidegate_promise::Failure;
use tidegate_testkit::{Gate, Log};

use crate::pass::Pass;

/// Creates a pool with one thread, busy until the gate opens, and a queue for one job.
fn narrow(policy: PoolPolicy) -> (WorkerPool, Gate) {
    let pool = WorkerPool::builder("narrow").core(1).max(1).queue(1);
    let pool = pool.policy(policy).build().unwrap();
    let (begun, gate) = (Gate::new(), Gate::new());
    let (begins, waits) = (begun.clone(), gate.clone());
    let busy = move || {
        begins.open();
        waits.wait();
    };
    pool.execute(busy).unwrap();
    begun.wait();
    (pool, gate)
}

/// Submits a job to its own pool for the first message.
struct Fills {
    pool: WorkerPool,
    received: Log<Bytes>,
}

impl Inbound for Fills {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
        if self.received.is_empty() {
            self.pool.execute(|| ()).unwrap();
        }
        self.received.push(bytes);
    }
}

fn filling(pool: &WorkerPool) -> (EmbeddedChannel, Log<Bytes>) {
    let received = Log::new();
    let fills = Fills {
        pool: pool.clone(),
        received: received.clone(),
    };
    let fills = Handler::inbound_on(Arc::new(pool.clone()), fills);
    let channel = EmbeddedChannel::new(|p| p.add_handler("fills", fills)).unwrap();
    (channel, received)
}

#[test]
fn an_executor_that_runs_a_task_where_it_is_offered_does_not_wait_for_itself() {
    let (pool, gate) = narrow(PoolPolicy::CallerRuns);
    let (mut channel, received) = filling(&pool);
    // More than one batch of the handler: the second task is submitted on the pool's own thread.
    // The queue is full, so the pool runs the task within `execute`.
    for _ in 0..200 {
        channel.receive("x");
    }
    gate.open();
    received.wait_for(200);
    channel.run();
    assert!(channel.is_open() && channel.errors().is_empty());
}

fn is_refused(errors: &[Failure]) -> bool {
    let why = errors.first().and_then(Failure::downcast_ref);
    matches!(why, Some(NetError::ExecutorRefused { executor, .. }) if executor == "narrow")
}

#[test]
fn a_channel_is_notified_that_the_task_of_its_handler_was_displaced() {
    let (pool, gate) = narrow(PoolPolicy::DropOldest);
    let (mut channel, received) = filling(&pool);
    channel.receive("x");
    pool.execute(|| ()).unwrap();
    channel.run();
    let errors = channel.errors();
    assert!(is_refused(&errors), "{errors:?}");
    assert!(!channel.is_open() && received.is_empty());
    gate.open();
}

#[test]
fn bytes_that_wait_for_a_handler_on_another_executor_count_until_they_are_sent() {
    let options = ChannelOptions {
        marks: WaterMarks::new(1_000, 2_000, 4_000).unwrap(),
        ..ChannelOptions::default()
    };
    let (home, mut manual_loop) = EventLoop::builder("apart").build_manual().unwrap();
    let pass = Handler::duplex_on(home.executor(), Pass);
    let assemble = |p: PipelineBuilder| p.add_handler("pass", pass);
    let mut channel = EmbeddedChannel::with_options(options, assemble).unwrap();
    let handle = channel.channel();
    let mut written = Vec::new();
    for _ in 0..5 {
        written.push(handle.write_with(vec![b'x'; 900]));
        handle.flush();
        channel.run();
    }
    assert!(!handle.is_writable());
    assert!((3_600..=4_000).contains(&handle.pending_bytes()));
    let refused = written.pop().unwrap().wait().unwrap_err().failure();
    let refused = refused.as_ref().and_then(Failure::downcast_ref);
    assert!(matches!(refused, Some(NetError::WriteQueueFull { .. })));
    for _ in 0..4 {
        manual_loop.run_until_idle();
        channel.run();
    }
    for write in written {
        write.wait().unwrap();
    }
    assert_eq!(channel.sent().len(), 4 * 900);
    assert!(handle.is_writable() && handle.pending_bytes() == 0);
}

/// Runs a manual event loop for each event.
struct Turns(ManualLoop);

impl Inbound for Turns {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }

    fn event(&mut self, _: UserEvent, _: &mut InboundContext<'_, Self>) {
        self.0.run_until_idle();
    }
}

#[test]
fn no_message_is_lost_while_a_handler_on_another_executor_is_removed() {
    let (home, manual_loop) = EventLoop::builder("apart").build_manual().unwrap();
    let pass = Handler::duplex_on(home.executor(), Pass);
    let assemble =
        |p: PipelineBuilder| p.add("turns", Turns(manual_loop)).add_handler("pass", pass);
    let mut channel = EmbeddedChannel::new(assemble).unwrap();
    let handle = channel.channel();
    let removed = handle.change(|| PipelineChange::remove("pass"));
    channel.run();
    removed.wait().unwrap();
    // The removed handler reports that it is idle. Before the channel receives that report, a write
    // passes through.
    handle.fire_event("leave");
    let sent = handle.write_with("not lost");
    handle.fire_event("pass on");
    let closed = handle.close_when_flushed();
    handle.fire_event("pass on");
    channel.run();
    sent.wait().unwrap();
    assert_eq!(channel.sent(), "not lost");
    assert!(closed.is_done());
}

//! Handlers on an executor of their own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_loop::{EventLoop, ManualLoop};
use tidegate_net::handlers::{FlowControl, LineFrames};
use tidegate_net::{
    EmbeddedChannel, Handler, Inbound, InboundContext, NetError, Nothing, Outbound,
    OutboundContext, PipelineChange, PipelineError, UserEvent,
};
use tidegate_pool::WorkerPool;
use tidegate_promise::Failure;
use tidegate_testkit::Log;

use crate::{Echo, dial, round_trip, serve};

/// Logs its events, marks the messages that it passes on, and panics at `boom`.
struct LogEvents(Log<String>);

impl LogEvents {
    fn note(&self, what: impl Into<String>) {
        self.0.push(what.into());
    }
}

impl Inbound for LogEvents {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn added(&mut self, _: &mut InboundContext<'_, Self>) {
        self.note("added");
    }

    fn removed(&mut self, _: &mut InboundContext<'_, Self>) {
        self.note("removed");
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.note("active");
        ctx.fire_active();
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.note("inactive");
        ctx.fire_inactive();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.note(text.clone());
        match text.as_str() {
            "boom" => panic!("on purpose"),
            "timer" => assert!(ctx.schedule(Duration::from_secs(1), 7).is_some()),
            "change" => {
                let refused = ctx.remove_me().unwrap_err();
                assert!(matches!(refused, PipelineError::OnOtherExecutor { .. }));
                assert!(refused.to_string().contains(ctx.name()), "{refused}");
            }
            "pause" => ctx.set_auto_read(false),
            "full" | "free" => ctx.set_user_writable(3, text == "free").unwrap(),
            _ => {}
        }
        ctx.fire_read(format!("<{text}>"));
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        self.note("event");
        ctx.fire_event(event);
    }

    fn timer(&mut self, key: u64, ctx: &mut InboundContext<'_, Self>) {
        self.note(format!("timer {key}"));
        ctx.write("late");
        ctx.flush();
    }
}

impl Outbound for LogEvents {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        self.note("write");
        ctx.write([b"[", &bytes[..], b"]"].concat());
    }
}

/// A channel with `LogEvents` on a manual event loop.
struct Fixture {
    channel: EmbeddedChannel,
    log: Log<String>,
    manual_loop: ManualLoop,
    home: EventLoop,
}

impl Fixture {
    fn new() -> Self {
        let log = Log::new();
        let (home, manual_loop) = EventLoop::builder("apart").build_manual().unwrap();
        let notes = Handler::duplex_on(home.executor(), LogEvents(log.clone()));
        let channel = EmbeddedChannel::new(|p| p.add_handler("notes", notes)).unwrap();
        let mut this = Self {
            channel,
            log,
            manual_loop,
            home,
        };
        this.run();
        let _ = this.log.take();
        this
    }

    /// Runs both event loops until they are idle.
    fn run(&mut self) {
        for _ in 0..20 {
            self.manual_loop.run_until_idle();
            self.channel.run();
        }
    }

    fn passed(&mut self) -> Vec<String> {
        let next = || self.channel.read_inbound::<Bytes>();
        std::iter::from_fn(next)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect()
    }
}

#[test]
fn a_handler_on_another_executor_receives_all_events_in_order_and_passes_them_on() {
    let mut fixture = Fixture::new();
    fixture.channel.receive("one");
    fixture.channel.channel().fire_event("an event");
    fixture.channel.run();
    fixture.channel.receive("two");
    let sent = fixture.channel.channel().write_with("out");
    fixture.channel.channel().flush();
    fixture.channel.run();
    assert!(fixture.log.take().is_empty(), "not on the channel's loop");
    assert!(fixture.passed().is_empty() && fixture.channel.sent().is_empty());
    fixture.run();
    assert_eq!(fixture.log.take(), ["one", "event", "two", "write"]);
    assert_eq!(fixture.passed(), ["<one>", "<two>"]);
    assert_eq!(fixture.channel.sent(), "[out]");
    sent.wait().unwrap();
}

#[test]
fn messages_keep_their_order_over_many_threads() {
    struct Back;
    impl Inbound for Back {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            let name = std::thread::current().name().unwrap().to_owned();
            assert!(name.starts_with("busy"), "{name}");
            ctx.write(bytes);
            ctx.flush();
        }
    }
    let pool = WorkerPool::builder("busy").core(4).max(4).build().unwrap();
    let executor = Arc::new(pool.clone());
    let group = tidegate_net::pinned("io", 1).unwrap();
    let server = serve(&group, move |p| {
        p.add_handler("back", Handler::inbound_on(executor.clone(), Back))
    });
    let mut clients: Vec<_> = (0..4).map(|_| dial(&server)).collect();
    for round in 0..50_u8 {
        for client in &mut clients {
            let bytes: Vec<u8> = (0..2_000_u32).map(|n| n as u8 ^ round).collect();
            assert_eq!(round_trip(client, &bytes), bytes);
        }
    }
}

#[test]
fn a_panic_on_another_executor_is_an_error_of_its_channel_alone() {
    let mut fixture = Fixture::new();
    fixture.channel.receive("boom");
    fixture.run();
    let errors = fixture.channel.errors();
    assert!(errors[0].is_panic(), "{errors:?}");
    assert!(!fixture.channel.is_open());
    assert_eq!(fixture.log.take(), ["boom", "inactive", "removed"]);
    assert_eq!(
        fixture
            .home
            .submit(|| 7)
            .map(|done| {
                fixture.manual_loop.run_until_idle();
                done.wait().unwrap()
            })
            .unwrap(),
        7
    );
}

#[test]
fn removal_waits_for_what_is_queued_and_nothing_overtakes_it() {
    let mut fixture = Fixture::new();
    fixture.channel.receive("one");
    fixture.channel.receive("two");
    let removed = fixture
        .channel
        .channel()
        .change(|| PipelineChange::remove("notes"));
    fixture.channel.run();
    removed.wait().unwrap();
    assert!(fixture.channel.names().is_empty());
    fixture.channel.receive("three");
    fixture.channel.write_outbound(Bytes::from("plain"));
    assert!(
        fixture.passed().is_empty(),
        "three waits behind one and two"
    );
    fixture.run();
    assert_eq!(fixture.log.take(), ["one", "two", "removed"]);
    assert_eq!(fixture.passed(), ["<one>", "<two>", "three"]);
    assert_eq!(fixture.channel.sent(), "plain");
    fixture.channel.receive("four");
    assert_eq!(
        fixture.passed(),
        ["four"],
        "straight on, now that it is gone"
    );
}

#[test]
fn after_a_close_queued_events_are_delivered_and_writes_fail() {
    let mut fixture = Fixture::new();
    fixture.channel.receive("one");
    let late = fixture.channel.channel().write_with("never");
    fixture.channel.run();
    fixture.channel.close();
    // The close has to pass through the handler, which has not run yet.
    assert!(fixture.channel.is_open());
    fixture.channel.end_input();
    assert!(!fixture.channel.is_open());
    fixture.run();
    assert_eq!(fixture.log.take(), ["one", "write", "inactive", "removed"]);
    assert!(late.wait().is_err());
}

#[test]
fn timers_and_wishes_reach_the_channel_and_the_chain_is_changed_by_the_channel_only() {
    let mut fixture = Fixture::new();
    fixture.channel.receive("timer");
    fixture.channel.receive("change");
    fixture.channel.receive("pause");
    fixture.run();
    let _ = fixture.log.take();
    fixture.channel.receive("unread");
    fixture.channel.advance(Duration::from_secs(1));
    fixture.run();
    assert_eq!(fixture.log.take(), ["timer 7"]);
    assert_eq!(fixture.channel.sent(), "late");
}

#[test]
fn when_much_waits_the_channel_reads_no_more_for_a_while() {
    let mut fixture = Fixture::new();
    for _ in 0..1_000 {
        fixture.channel.receive("x");
    }
    let received = || fixture.log.take().len();
    fixture.manual_loop.run_until_idle();
    let first = received();
    assert!((200..400).contains(&first), "{first}");
    fixture.run();
    assert_eq!(
        first + fixture.log.take().concat().len(),
        1_000,
        "nothing is lost"
    );
}

#[test]
fn an_executor_that_refuses_is_an_error_that_names_it() {
    let pool = WorkerPool::builder("closed").core(1).build().unwrap();
    let executor = Arc::new(pool.clone());
    pool.shutdown(Duration::from_secs(5)).wait().unwrap();
    let log = Log::new();
    let notes = Handler::inbound_on(executor, LogEvents(log.clone()));
    let mut channel = EmbeddedChannel::new(|p| p.add_handler("notes", notes)).unwrap();
    let errors = channel.errors();
    let refused = |why: &Failure| match why.downcast_ref::<NetError>() {
        Some(NetError::ExecutorRefused { executor, .. }) => executor == "closed",
        _ => false,
    };
    assert!(refused(&errors[0]), "{errors:?}");
    assert!(!channel.is_open() && log.take().is_empty());
}

#[test]
fn others_on_the_loop_are_not_held_up() {
    let gate = tidegate_testkit::Gate::new();
    struct Waits(tidegate_testkit::Gate);
    impl Inbound for Waits {
        type In = Bytes;
        type Out = Bytes;
        type Write = Nothing;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            self.0.wait();
            ctx.fire_read(bytes);
        }
    }
    let pool = WorkerPool::builder("slow").core(1).max(1).build().unwrap();
    let executor = Arc::new(pool.clone());
    let group = tidegate_net::pinned("io", 1).unwrap();
    let own = gate.clone();
    let slow = serve(&group, move |p| {
        let waits = Handler::inbound_on(executor.clone(), Waits(own.clone()));
        p.add_handler("waits", waits).add("echo", Echo)
    });
    let quick = serve(&group, |p| p.add("echo", Echo));
    let mut waiting = dial(&slow);
    std::io::Write::write_all(&mut waiting, b"slow").unwrap();
    assert_eq!(round_trip(&mut dial(&quick), b"quick"), b"quick");
    gate.open();
    let mut back = [0; 4];
    std::io::Read::read_exact(&mut waiting, &mut back).unwrap();
    assert_eq!(&back, b"slow");
}

#[test]
fn what_the_user_wishes_of_reading_outlives_that_much_waits() {
    let mut fixture = Fixture::new();
    for _ in 0..300 {
        fixture.channel.receive("x");
    }
    // Auto-read is changed while reading is paused because the inbox is full.
    fixture.channel.channel().set_auto_read(false);
    fixture.run();
    let received = fixture.log.take().concat().len();
    assert!((200..300).contains(&received), "{received}");
    fixture.channel.channel().set_auto_read(true);
    fixture.run();
    assert_eq!(
        received + fixture.log.take().concat().len(),
        300,
        "and nothing is lost"
    );
}

#[test]
fn a_wish_to_read_does_not_lift_the_bound_of_what_waits() {
    let mut fixture = Fixture::new();
    for _ in 0..300 {
        fixture.channel.receive("x");
    }
    fixture.channel.channel().set_auto_read(true);
    for _ in 0..300 {
        fixture.channel.receive("x");
    }
    fixture.manual_loop.run_until_idle();
    let first = fixture.log.take().concat().len();
    assert!((200..300).contains(&first), "{first}");
    fixture.run();
    assert_eq!(
        first + fixture.log.take().concat().len(),
        600,
        "and nothing is lost"
    );
}

#[test]
fn a_handler_that_passes_on_by_demand_goes_on_when_less_waits() {
    let log = Log::new();
    let (home, manual_loop) = EventLoop::builder("apart").build_manual().unwrap();
    let notes = Handler::duplex_on(home.executor(), LogEvents(log.clone()));
    let channel = EmbeddedChannel::new(|p| {
        let lines = LineFrames::max(80);
        let flow = FlowControl::new();
        p.add("lines", lines)
            .add_duplex("flow", flow)
            .add_handler("notes", notes)
    });
    let mut fixture = Fixture {
        channel: channel.unwrap(),
        log,
        manual_loop,
        home,
    };
    fixture.run();
    let _ = fixture.log.take();
    // All messages arrive at once, and no read follows.
    fixture.channel.receive("x\n".repeat(1_000));
    fixture.run();
    assert_eq!(fixture.log.take().len(), 1_000);
}

#[test]
fn a_handler_on_another_executor_has_writability_flags_of_its_own() {
    let mut fixture = Fixture::new();
    fixture.channel.receive("pause");
    fixture.run();
    fixture.channel.channel().set_auto_read(true);
    fixture.channel.receive("pause");
    fixture.run();
    let _ = fixture.log.take();
    fixture.channel.receive("unread");
    fixture.run();
    let received = fixture.log.take();
    assert!(received.is_empty(), "it paused again: {received:?}");
    fixture.channel.channel().set_auto_read(true);
    fixture.run();
    fixture.channel.receive("full");
    fixture.run();
    assert!(!fixture.channel.channel().is_writable());
    fixture.channel.receive("free");
    fixture.run();
    assert!(fixture.channel.channel().is_writable());
}

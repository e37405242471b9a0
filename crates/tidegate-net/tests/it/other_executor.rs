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
            "boom" => panic!("as asked"),
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
struct Apart {
    channel: EmbeddedChannel,
    log: Log<String>,
    hand: ManualLoop,
    home: EventLoop,
}

impl Apart {
    fn new() -> Self {
        let log = Log::new();
        let (home, hand) = EventLoop::builder("apart").build_manual().unwrap();
        let notes = Handler::duplex_on(home.executor(), LogEvents(log.clone()));
        let channel = EmbeddedChannel::new(|p| p.add_handler("notes", notes)).unwrap();
        let mut this = Self {
            channel,
            log,
            hand,
            home,
        };
        this.run();
        let _ = this.log.take();
        this
    }

    /// Runs both event loops until they are idle.
    fn run(&mut self) {
        for _ in 0..20 {
            self.hand.run_until_idle();
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
fn everything_is_heard_elsewhere_in_order_and_goes_on_from_its_place() {
    let mut apart = Apart::new();
    apart.channel.receive("one");
    apart.channel.channel().fire_event("an event");
    apart.channel.run();
    apart.channel.receive("two");
    let sent = apart.channel.channel().write_with("out");
    apart.channel.channel().flush();
    apart.channel.run();
    assert!(apart.log.take().is_empty(), "not on the channel's loop");
    assert!(apart.passed().is_empty() && apart.channel.sent().is_empty());
    apart.run();
    assert_eq!(apart.log.take(), ["one", "event", "two", "write"]);
    assert_eq!(apart.passed(), ["<one>", "<two>"]);
    assert_eq!(apart.channel.sent(), "[out]");
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
fn a_panic_elsewhere_is_an_error_of_its_channel_alone() {
    let mut apart = Apart::new();
    apart.channel.receive("boom");
    apart.run();
    let errors = apart.channel.errors();
    assert!(errors[0].is_panic(), "{errors:?}");
    assert!(!apart.channel.is_open());
    assert_eq!(apart.log.take(), ["boom", "inactive", "removed"]);
    assert_eq!(
        apart
            .home
            .submit(|| 7)
            .map(|done| {
                apart.hand.run_until_idle();
                done.wait().unwrap()
            })
            .unwrap(),
        7
    );
}

#[test]
fn removal_waits_for_what_is_queued_and_nothing_overtakes_it() {
    let mut apart = Apart::new();
    apart.channel.receive("one");
    apart.channel.receive("two");
    let removed = apart
        .channel
        .channel()
        .change(|| PipelineChange::remove("notes"));
    apart.channel.run();
    removed.wait().unwrap();
    assert!(apart.channel.names().is_empty());
    apart.channel.receive("three");
    apart.channel.write_outbound(Bytes::from("plain"));
    assert!(apart.passed().is_empty(), "three waits behind one and two");
    apart.run();
    assert_eq!(apart.log.take(), ["one", "two", "removed"]);
    assert_eq!(apart.passed(), ["<one>", "<two>", "three"]);
    assert_eq!(apart.channel.sent(), "plain");
    apart.channel.receive("four");
    assert_eq!(apart.passed(), ["four"], "straight on, now that it is gone");
}

#[test]
fn a_close_lets_the_queue_be_heard_and_fails_what_is_written() {
    let mut apart = Apart::new();
    apart.channel.receive("one");
    let late = apart.channel.channel().write_with("never");
    apart.channel.run();
    apart.channel.close();
    // The close has to pass through the handler, which has not run yet.
    assert!(apart.channel.is_open());
    apart.channel.end_input();
    assert!(!apart.channel.is_open());
    apart.run();
    assert_eq!(apart.log.take(), ["one", "write", "inactive", "removed"]);
    assert!(late.wait().is_err());
}

#[test]
fn timers_and_wishes_reach_the_channel_and_the_chain_is_changed_by_the_channel_only() {
    let mut apart = Apart::new();
    apart.channel.receive("timer");
    apart.channel.receive("change");
    apart.channel.receive("pause");
    apart.run();
    let _ = apart.log.take();
    apart.channel.receive("unread");
    apart.channel.advance(Duration::from_secs(1));
    apart.run();
    assert_eq!(apart.log.take(), ["timer 7"]);
    assert_eq!(apart.channel.sent(), "late");
}

#[test]
fn when_much_waits_the_channel_reads_no_more_for_a_while() {
    let mut apart = Apart::new();
    for _ in 0..1_000 {
        apart.channel.receive("x");
    }
    let heard = || apart.log.take().len();
    apart.hand.run_until_idle();
    let first = heard();
    assert!((200..400).contains(&first), "{first}");
    apart.run();
    assert_eq!(
        first + apart.log.take().concat().len(),
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
    let mut apart = Apart::new();
    for _ in 0..300 {
        apart.channel.receive("x");
    }
    // Auto-read is changed while reading is paused because the inbox is full.
    apart.channel.channel().set_auto_read(false);
    apart.run();
    let heard = apart.log.take().concat().len();
    assert!((200..300).contains(&heard), "{heard}");
    apart.channel.channel().set_auto_read(true);
    apart.run();
    assert_eq!(
        heard + apart.log.take().concat().len(),
        300,
        "and nothing is lost"
    );
}

#[test]
fn a_wish_to_read_does_not_lift_the_bound_of_what_waits() {
    let mut apart = Apart::new();
    for _ in 0..300 {
        apart.channel.receive("x");
    }
    apart.channel.channel().set_auto_read(true);
    for _ in 0..300 {
        apart.channel.receive("x");
    }
    apart.hand.run_until_idle();
    let first = apart.log.take().concat().len();
    assert!((200..300).contains(&first), "{first}");
    apart.run();
    assert_eq!(
        first + apart.log.take().concat().len(),
        600,
        "and nothing is lost"
    );
}

#[test]
fn a_handler_that_passes_on_by_demand_goes_on_when_less_waits() {
    let log = Log::new();
    let (home, hand) = EventLoop::builder("apart").build_manual().unwrap();
    let notes = Handler::duplex_on(home.executor(), LogEvents(log.clone()));
    let channel = EmbeddedChannel::new(|p| {
        let lines = LineFrames::max(80);
        let flow = FlowControl::new();
        p.add("lines", lines)
            .add_duplex("flow", flow)
            .add_handler("notes", notes)
    });
    let mut apart = Apart {
        channel: channel.unwrap(),
        log,
        hand,
        home,
    };
    apart.run();
    let _ = apart.log.take();
    // All messages arrive at once, and no read follows.
    apart.channel.receive("x\n".repeat(1_000));
    apart.run();
    assert_eq!(apart.log.take().len(), 1_000);
}

#[test]
fn a_handler_elsewhere_says_the_same_again_and_has_flags_of_its_own() {
    let mut apart = Apart::new();
    apart.channel.receive("pause");
    apart.run();
    apart.channel.channel().set_auto_read(true);
    apart.channel.receive("pause");
    apart.run();
    let _ = apart.log.take();
    apart.channel.receive("unread");
    apart.run();
    let heard = apart.log.take();
    assert!(heard.is_empty(), "it was asked to pause again: {heard:?}");
    apart.channel.channel().set_auto_read(true);
    apart.run();
    apart.channel.receive("full");
    apart.run();
    assert!(!apart.channel.channel().is_writable());
    apart.channel.receive("free");
    apart.run();
    assert!(apart.channel.channel().is_writable());
}

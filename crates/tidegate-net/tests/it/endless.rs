//! Handlers that answer each other endlessly: a turn ends nevertheless, and other channels are
//! served.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidegate_loop::Quiet;
use tidegate_net::ChannelPlacement;
use tidegate_net::{
    AnyMessage, Channel, Client, EmbeddedChannel, Handler, HandlerContext, Inbound, InboundContext,
    NetError, NetGroup, Nothing, Outbound, OutboundContext, PipelineBuilder, PipelineChange,
    Server, UserEvent,
};
use tidegate_promise::Failure;
use tidegate_testkit::{Counter, Log, until};

use crate::acts::Acts;
use crate::{Echo, dial, group, group_by, marks, roaming, round_trip, serve};

/// How each method of an `Everything` handler ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    GoOn,
    Close,
    CloseWhenFlushed,
    Panic,
}

const EVERY_END: [Then; 4] = [Then::GoOn, Then::Close, Then::CloseWhenFlushed, Then::Panic];

/// Does everything that a handler can do in each of its methods, once it is armed. Before that it
/// passes everything on.
#[derive(Clone)]
struct Everything {
    armed: Arc<AtomicBool>,
    then: Then,
    /// Counts the handlers that were inserted.
    more: Counter,
}

impl Everything {
    fn new(then: Then) -> Self {
        Self {
            armed: Arc::default(),
            then,
            more: Counter::new(),
        }
    }

    fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
    }

    fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }

    /// Does what both kinds of handlers can do.
    fn everything(&self, ctx: &mut HandlerContext<'_>) {
        ctx.fire_event(UserEvent::new("again"));
        ctx.fire_error(Failure::new("again"));
        ctx.fire_active();
        ctx.fire_inactive();
        ctx.fire_read_complete();
        ctx.fire_writability(true);
        ctx.set_auto_read(false);
        ctx.read();
        ctx.set_auto_read(true);
        let _ = ctx.set_user_writable(1, false);
        let _ = ctx.set_user_writable(1, true);
        if ctx.hold(100).is_ok() {
            ctx.release(100);
        }
        drop(ctx.schedule(Duration::ZERO, 7));
        if self.more.hit() <= 100 {
            let _ = ctx.change(PipelineChange::add_last("", Handler::duplex(self.clone())));
        }
        let channel = ctx.channel();
        channel.write("by channel");
        channel.fire_event("by channel");
        channel.set_user_writable(2, true);
        drop(channel.deregister());
        drop(channel.register());
        channel.flush();
        ctx.flush();
        let _ = ctx.remove_me();
        match self.then {
            Then::GoOn => {}
            Then::Close => ctx.close(),
            Then::CloseWhenFlushed => ctx.close_when_flushed(),
            Then::Panic => panic!("on top of it all"),
        }
    }

    fn inbound(&self, ctx: &mut InboundContext<'_, Self>) -> bool {
        if self.is_armed() {
            ctx.write("a reply");
            drop(ctx.write_with("another reply"));
            ctx.fire_read("a message");
            self.everything(ctx);
        }
        self.is_armed()
    }

    fn outbound(&self, ctx: &mut OutboundContext<'_, Self>) -> bool {
        if self.is_armed() {
            ctx.write("something else");
            self.everything(ctx);
        }
        self.is_armed()
    }
}

impl Inbound for Everything {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.inbound(ctx);
    }

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.inbound(ctx);
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if !self.inbound(ctx) {
            ctx.fire_active();
        }
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.inbound(ctx);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if !self.inbound(ctx) {
            ctx.fire_read(bytes);
        }
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.inbound(ctx);
    }

    fn writability(&mut self, _: bool, ctx: &mut InboundContext<'_, Self>) {
        self.inbound(ctx);
    }

    fn event(&mut self, _: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        self.inbound(ctx);
    }

    fn error(&mut self, _: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.inbound(ctx);
    }

    fn timer(&mut self, _: u64, ctx: &mut InboundContext<'_, Self>) {
        self.inbound(ctx);
    }
}

impl Outbound for Everything {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        if !self.outbound(ctx) {
            ctx.write(bytes);
        }
    }

    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if !self.outbound(ctx) {
            ctx.flush();
        }
    }

    fn close(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.outbound(ctx);
        ctx.close();
    }

    fn close_when_flushed(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.outbound(ctx);
        ctx.close_when_flushed();
    }

    fn shutdown_output(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.outbound(ctx);
        ctx.shutdown_output();
    }

    fn read(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.outbound(ctx);
        ctx.read();
    }
}

/// Every operation on an embedded channel.
const ENTRIES: [fn(&mut EmbeddedChannel); 17] = [
    |channel| channel.receive("bytes"),
    |channel| channel.write_inbound(Bytes::from("message")),
    |channel| channel.write_outbound(Bytes::from("message")),
    EmbeddedChannel::end_input,
    |channel| channel.fail(std::io::ErrorKind::ConnectionReset),
    |channel| channel.set_room(Some(0)),
    EmbeddedChannel::close,
    |channel| drop(channel.channel().close_when_flushed()),
    |channel| drop(channel.channel().shutdown_output()),
    |channel| drop(channel.channel().deregister()),
    |channel| channel.channel().fire_event("event"),
    |channel| channel.channel().fire_error(Failure::new("error")),
    |channel| channel.channel().read(),
    |channel| channel.channel().set_auto_read(true),
    |channel| channel.channel().set_user_writable(3, false),
    |channel| drop(channel.channel().change(|| PipelineChange::remove("b"))),
    |channel| channel.channel().write(vec![0; 100_000]),
];

#[test]
fn whatever_handlers_do_in_every_callback_every_entry_returns() {
    for then in EVERY_END {
        for entry in ENTRIES {
            let handler = Everything::new(then);
            let mut channel = EmbeddedChannel::new(|p| {
                p.add_duplex("a", handler.clone())
                    .add_duplex("b", handler.clone())
            })
            .unwrap();
            handler.arm();
            entry(&mut channel);
            channel.run();
            let untouched = handler.more.count() == 0;
            assert!(
                !channel.is_open() || untouched,
                "{then:?}: it was closed or cut"
            );
            channel.advance(Duration::from_secs(60));
        }
    }
}

#[test]
fn a_chain_that_is_cut_says_so_and_fails_what_was_on_its_way() {
    /// Fires an event for every flush, and flushes for every event.
    struct Circle;
    impl Inbound for Circle {
        type In = Bytes;
        type Out = Bytes;
        type Write = Bytes;
        fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
            ctx.fire_event(UserEvent::new("begin"));
        }
    }
    impl Outbound for Circle {
        type Take = Bytes;
        type Write = Bytes;
        fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
            ctx.write(bytes);
        }
        fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
            ctx.fire_event(UserEvent::new("flushed"));
        }
    }
    fn flushes(log: Log<tidegate_promise::Completion<()>>) -> Acts {
        Acts::on_read(|_, _| ()).on_event(move |_, ctx| {
            ctx.flush();
            log.push(ctx.write_with("never"));
            log.push(ctx.write_and_flush_with("never"));
            log.push(ctx.flush_with());
        })
    }
    let writes = Log::new();
    let flushes = flushes(writes.clone());
    let mut channel =
        EmbeddedChannel::new(|p| p.add_duplex("circle", Circle).add("flushes", flushes)).unwrap();
    channel.receive("x");
    assert!(!channel.is_open());
    let cause = channel.channel().close_cause().unwrap();
    assert!(matches!(
        cause.downcast_ref::<NetError>(),
        Some(NetError::HandlerLoop)
    ));
    assert_eq!(channel.errors().len(), 1);
    assert_eq!(channel.channel().pending_bytes(), 0);
    let writes = writes.take();
    assert!(writes.len() > 1);
    assert!(writes.into_iter().all(|write| write.wait().is_err()));
}

#[test]
fn on_a_pinned_loop_others_are_served_whatever_a_handler_does() {
    for then in EVERY_END {
        let group = group(1);
        let echo = serve(&group, |p| p.add("echo", Echo));
        let handler = Everything::new(then);
        let own = handler.clone();
        let server = serve(&group, move |p| {
            p.add_duplex("a", own.clone()).add_duplex("b", own.clone())
        });
        let mut other = dial(&echo);
        assert_eq!(round_trip(&mut other, b"before"), b"before");
        let mut peer = dial(&server);
        handler.arm();
        peer.write_all(b"x").unwrap();
        // The connection is cut or closes itself, with an end or a reset.
        let _ = peer.read_to_end(&mut Vec::new());
        assert_eq!(round_trip(&mut other, b"after"), b"after", "{then:?}");
    }
}

#[test]
fn on_a_roaming_loop_others_are_served_whatever_a_handler_does() {
    for then in EVERY_END {
        // Only two threads: a handler that looped forever on one of them would stop the event loop.
        let (_pool, group) = roaming::roaming(2);
        let echo = serve(&group, |p| p.add("echo", Echo));
        let handler = Everything::new(then);
        let own = handler.clone();
        let server = serve(&group, move |p| {
            p.add_duplex("a", own.clone()).add_duplex("b", own.clone())
        });
        let mut other = dial(&echo);
        assert_eq!(round_trip(&mut other, b"before"), b"before");
        let mut peer = dial(&server);
        handler.arm();
        peer.write_all(b"x").unwrap();
        let _ = peer.read_to_end(&mut Vec::new());
        assert_eq!(round_trip(&mut other, b"after"), b"after", "{then:?}");
        let quiet = Quiet::none(Duration::from_secs(60));
        group.shutdown(quiet).wait().unwrap();
    }
}

/// Writes in each error event and counts the errors; optionally closes once that write is
/// sent.
fn apologises(received: Counter, closes: bool) -> Acts {
    let echo = Acts::on_read(|bytes, ctx| {
        ctx.write(bytes);
        ctx.flush();
    });
    echo.on_error(move |why, ctx| {
        received.hit();
        ctx.write(format!("{why:300}"));
        if closes {
            ctx.close_when_flushed();
        }
    })
}

#[test]
fn a_refused_write_in_a_refusal_event_is_not_reported_until_a_write_is_accepted() {
    let received = Counter::new();
    let handler = apologises(received.clone(), false);
    let mut channel =
        EmbeddedChannel::with_options(marks(100, 200, 500), |p| p.add("handler", handler)).unwrap();
    channel.set_room(Some(0));
    channel.receive(vec![0; 350]);
    assert_eq!(received.count(), 0);
    for _ in 0..3 {
        channel.receive(vec![0; 350]);
    }
    assert_eq!(received.count(), 1, "of one hole once");
    assert!(channel.is_open());
    channel.set_room(None);
    channel.set_room(Some(0));
    channel.receive(vec![0; 350]);
    assert_eq!(received.count(), 1, "it was taken");
    channel.receive(vec![0; 350]);
    assert_eq!(received.count(), 2, "of the next hole, too");
}

#[test]
fn a_handler_that_writes_through_its_channel_in_a_refusal_event_is_notified_once() {
    fn by_channel(count: Counter) -> Acts {
        Acts::on_read(|_, _| ()).on_error(move |_, ctx| {
            count.hit();
            ctx.channel().write_and_flush(vec![0; 450]);
        })
    }
    let received = Counter::new();
    let handler = by_channel(received.clone());
    let mut channel =
        EmbeddedChannel::with_options(marks(100, 200, 500), |p| p.add("handler", handler)).unwrap();
    channel.channel().write(vec![0; 450]);
    channel.run();
    assert_eq!(received.count(), 1);
}

/// Keeps what it reads. Writes one kept message for an event, and another one for every error.
struct Keeps {
    kept: Vec<AnyMessage>,
    received: Counter,
    by_channel: bool,
}

impl Keeps {
    fn answer(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if self.by_channel {
            ctx.channel().write(7_u32);
            ctx.channel().flush();
        } else if let Some(message) = self.kept.pop() {
            ctx.write(message);
        }
    }
}

impl Inbound for Keeps {
    type In = AnyMessage;
    type Out = Nothing;
    type Write = AnyMessage;

    fn read(&mut self, message: AnyMessage, _: &mut InboundContext<'_, Self>) {
        self.kept.push(message);
    }

    fn event(&mut self, _: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        self.answer(ctx);
    }

    fn error(&mut self, _: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.received.hit();
        self.answer(ctx);
    }
}

/// Accepts only text.
struct Text;

impl Outbound for Text {
    type Take = String;
    type Write = Bytes;

    fn write(&mut self, text: String, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(text);
    }
}

#[test]
fn a_message_of_the_wrong_type_in_an_error_event_is_not_reported_again() {
    for by_channel in [false, true] {
        let received = Counter::new();
        let keeps = Keeps {
            kept: Vec::new(),
            received: received.clone(),
            by_channel,
        };
        let mut channel =
            EmbeddedChannel::new(|p| p.add_outbound("text", Text).add("keeps", keeps)).unwrap();
        for number in 0..10_u32 {
            channel.write_inbound(number);
        }
        channel.channel().fire_event("go");
        channel.run();
        assert!(channel.is_open());
        assert_eq!(received.count(), 1, "by channel: {by_channel}");
    }
}

#[test]
fn a_client_that_never_reads_is_closed_and_others_are_served() {
    let clock = tidegate_core::ManualClock::new();
    let group = group_by(&clock);
    let (received, own) = Counter::pair();
    let server = Server::builder(&group)
        .options(marks(100, 200, 500))
        .pipeline(move |p| p.add("handler", apologises(own.clone(), true)))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut deaf = dial(&server);
    // More bytes at once than the cap allows.
    deaf.write_all(&[b'x'; 600]).unwrap();
    received.wait_for(1);
    let mut other = dial(&server);
    assert_eq!(round_trip(&mut other, b"hello"), b"hello");
    assert_eq!(received.count(), 1);
    let _ = deaf.read_to_end(&mut Vec::new());
}

/// Connects two channels that answer each other endlessly.
fn answer_each_other<P: ChannelPlacement>(
    group: &NetGroup<P>,
    local: bool,
    echo: impl Fn(PipelineBuilder<P>) -> PipelineBuilder<P> + Clone + Send + Sync + 'static,
) -> Channel {
    if local {
        let pair = group.local_pair(echo.clone(), echo);
        return pair.wait().unwrap().0;
    }
    let server = serve(group, echo.clone());
    let client = Client::builder(group).pipeline(echo).build();
    client.connect(server.local_addr()).wait().unwrap()
}

#[test]
fn two_ends_that_answer_each_other_do_not_hold_the_shutdown_of_their_loop() {
    fn shut_down<P: ChannelPlacement>(group: &NetGroup<P>, channel: &Channel, hits: &Counter) {
        channel.write_and_flush("ball");
        hits.wait_for(hits.count() + 100);
        let end = group.shutdown(Quiet::none(Duration::from_secs(3600)));
        until("the group has ended", || end.is_done());
        end.wait().unwrap();
        assert!(!channel.is_active());
    }
    for local in [true, false] {
        let hits = Counter::new();
        let own = hits.clone();
        let counts = move || {
            let own = own.clone();
            Acts::on_read(move |bytes, ctx| {
                own.note();
                ctx.write(bytes);
                ctx.flush();
            })
        };
        for loops in [1, 2] {
            let (group, counts) = (group(loops), counts.clone());
            let channel = answer_each_other(&group, local, move |p| p.add("echo", counts()));
            shut_down(&group, &channel, &hits);
        }
        let (_pool, group) = roaming::roaming(2);
        let channel = answer_each_other(&group, local, move |p| p.add("echo", counts()));
        shut_down(&group, &channel, &hits);
    }
}

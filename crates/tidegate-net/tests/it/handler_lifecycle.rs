//! The life cycle of a handler: `added` first, `removed` last, each once.

use bytes::Bytes;
use tidegate_net::{
    AnyMessage, EmbeddedChannel, Inbound, InboundContext, Outbound, OutboundContext,
    PipelineChange, UserEvent,
};
use tidegate_promise::Failure;
use tidegate_testkit::Log;

use crate::{dial, group, round_trip, serve};

/// Logs its events. Calls `then` when it is added.
struct LogEvents {
    name: &'static str,
    log: Log<String>,
    then: fn(&mut InboundContext<'_, Self>),
    panics_when_dropped: bool,
}

fn notes(name: &'static str, log: &Log<String>) -> LogEvents {
    LogEvents {
        name,
        log: log.clone(),
        then: |_| (),
        panics_when_dropped: false,
    }
}

impl LogEvents {
    fn log(&self, what: &str) {
        self.log.push(format!("{} {what}", self.name));
    }

    fn then(mut self, then: fn(&mut InboundContext<'_, Self>)) -> Self {
        self.then = then;
        self
    }
}

impl Inbound for LogEvents {
    type In = AnyMessage;
    type Out = AnyMessage;
    type Write = Bytes;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.log("added");
        (self.then)(ctx);
    }

    fn removed(&mut self, _: &mut InboundContext<'_, Self>) {
        self.log("removed");
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.log("active");
        ctx.fire_active();
    }

    fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
        self.log("read");
        ctx.fire_read(message);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        self.log("event");
        ctx.fire_event(event);
    }

    fn error(&mut self, why: Failure, _: &mut InboundContext<'_, Self>) {
        self.log(&format!("error: {why}"));
    }
}

impl Outbound for LogEvents {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        self.log("write");
        ctx.write(bytes);
    }
}

impl Drop for LogEvents {
    fn drop(&mut self) {
        if self.panics_when_dropped {
            self.log("dropped");
            panic!("at the end of {}", self.name);
        }
    }
}

#[test]
fn all_handlers_are_added_before_the_first_event_however_early_it_is_fired() {
    let log = Log::new();
    let fires = notes("a", &log).then(|ctx| {
        ctx.fire_event(UserEvent::new("early"));
        ctx.write("early");
    });
    let writes = notes("c", &log).then(|ctx| ctx.write("early"));
    let _channel = EmbeddedChannel::new(|p| {
        p.add_duplex("a", fires)
            .add_duplex("b", notes("b", &log))
            .add_duplex("c", writes)
    })
    .unwrap();
    let expected = [
        "a added", "b added", "c added", "b event", "c event", "b write", "a write", "a active",
        "b active", "c active",
    ];
    assert_eq!(log.take(), expected);
}

#[test]
fn a_handler_that_another_one_removes_when_it_is_added_receives_both_events_in_order() {
    let log = Log::new();
    let removes = notes("a", &log).then(|ctx| ctx.change(PipelineChange::remove("b")).unwrap());
    let mut channel =
        EmbeddedChannel::new(|p| p.add_duplex("a", removes).add_duplex("b", notes("b", &log)))
            .unwrap();
    assert_eq!(log.take(), ["a added", "b added", "b removed", "a active"]);
    assert_eq!(channel.names(), ["a"]);
}

#[test]
fn a_handler_that_panics_when_it_is_added_is_removed_and_the_others_are_added_first() {
    let log = Log::new();
    let panics = notes("a", &log).then(|_| panic!("not today"));
    let mut channel =
        EmbeddedChannel::new(|p| p.add_duplex("a", panics).add_duplex("b", notes("b", &log)))
            .unwrap();
    let received = log.take();
    assert_eq!(received[..3], ["a added", "b added", "a removed"]);
    assert!(received[3].starts_with("b error") && received[3].contains("not today"));
    assert_eq!(received[4..], ["b active"]);
    assert_eq!(channel.names(), ["b"]);
}

#[test]
fn a_panic_in_the_drop_of_a_handler_does_not_affect_other_handlers() {
    for closes in [false, true] {
        let log = Log::new();
        let mut bad = notes("b", &log);
        bad.panics_when_dropped = true;
        let mut channel = EmbeddedChannel::new(|p| {
            p.add_duplex("a", notes("a", &log))
                .add_duplex("b", bad)
                .add_duplex("c", notes("c", &log))
        })
        .unwrap();
        let _ = log.take();
        let change = channel.channel().change(|| PipelineChange::remove("b"));
        channel.run();
        change.wait().unwrap();
        assert_eq!(log.take(), ["b removed", "b dropped"]);
        assert_eq!(channel.names(), ["a", "c"]);
        if closes {
            channel.close();
            assert_eq!(log.take(), ["c removed", "a removed"]);
        } else {
            channel.write_inbound(Bytes::from("x"));
            assert_eq!(log.take(), ["a read", "c read"]);
        }
    }
}

/// A message that no handler takes and whose drop panics.
struct Bad;

impl Drop for Bad {
    fn drop(&mut self) {
        panic!("at the end of a message");
    }
}

/// Echoes. Passes a `Bad` message on when it is added and for each read.
struct Passes;

impl Inbound for Passes {
    type In = Bytes;
    type Out = Bad;
    type Write = Bytes;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(Bad);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(Bad);
        ctx.write(bytes);
        ctx.flush();
    }
}

#[test]
fn a_panic_in_the_drop_of_an_unhandled_message_does_not_affect_handlers() {
    let group = group(1);
    let server = serve(&group, |p| p.add("passes", Passes));
    let mut peer = dial(&server);
    for _ in 0..3 {
        assert_eq!(round_trip(&mut peer, b"hello"), b"hello");
    }
}

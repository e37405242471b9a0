//! The order of events, reads and writes, and handlers that are skipped.

use bytes::Bytes;
use tidegate_net::{Inbound, InboundContext, Nothing, Outbound, OutboundContext};
use tidegate_promise::Failure;
use tidegate_testkit::Log;

use super::{Names, embedded, note, twice};
use crate::Echo;

#[test]
fn events_go_in_from_first_to_last_and_writes_out_from_last_to_first() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("a", note("a", &log))
            .add_duplex("b", note("b", &log))
            .add("echo", Echo)
    });
    assert_eq!(log.take(), ["a added", "b added", "a active", "b active"]);
    channel.receive("x");
    assert_eq!(
        log.take(),
        [
            "a read", "b read", "b write", "a write", "b flush", "a flush"
        ]
    );
    assert_eq!(channel.sent(), "x");
    channel.channel().fire_event("hello");
    channel.run();
    assert_eq!(log.take(), ["a event", "b event"]);
    channel.close();
    assert_eq!(
        log.take(),
        ["a inactive", "b inactive", "b removed", "a removed"]
    );
}

#[test]
fn what_a_handler_says_is_carried_out_in_order_each_with_all_that_follows() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("out", note("out", &log))
            .add("twice", twice())
            .add("echo", Echo)
    });
    channel.receive("x");
    assert_eq!(channel.sent(), "x[x]x");
}

#[test]
fn a_handler_is_not_entered_again_while_it_runs() {
    /// Writes from within `read`; that write must not re-enter this handler.
    struct Loop(u32);
    impl Inbound for Loop {
        type In = Bytes;
        type Out = Bytes;
        type Write = Bytes;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            self.0 += 1;
            assert_eq!(self.0, 1, "entered while it runs");
            ctx.fire_read(bytes);
            self.0 -= 1;
        }
    }
    impl Outbound for Loop {
        type Take = Bytes;
        type Write = Bytes;
        fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
            self.0 += 1;
            assert_eq!(self.0, 1, "entered while it runs");
            ctx.write(bytes);
            self.0 -= 1;
        }
    }
    let mut channel = embedded(|p| p.add_duplex("loop", Loop(0)).add("echo", Echo));
    channel.receive("x");
    assert_eq!(channel.sent(), "x");
    assert!(channel.errors().is_empty());
}

#[test]
fn the_promise_of_a_write_rides_with_the_last_thing_made_of_it() {
    struct Splits;
    impl Outbound for Splits {
        type Take = String;
        type Write = Bytes;
        fn write(&mut self, text: String, ctx: &mut OutboundContext<'_, Self>) {
            for byte in text.into_bytes() {
                ctx.write(vec![byte]);
            }
        }
    }
    struct LogText(Log<&'static str>);
    impl Inbound for LogText {
        type In = Bytes;
        type Out = Nothing;
        type Write = String;
        fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
            let log = self.0.clone();
            ctx.write_with("abc").finally(move |_| log.push("sent"));
            ctx.flush();
        }
    }
    let (log, own) = Log::pair();
    let mut channel = embedded(|p| p.add_outbound("splits", Splits).add("says", LogText(own)));
    channel.set_room(Some(2));
    channel.receive("go");
    assert!(log.is_empty(), "two of three bytes are sent");
    channel.set_room(None);
    assert_eq!(log.take(), ["sent"]);
    assert_eq!(channel.sent(), "abc");
}

#[test]
fn a_handler_without_a_callback_is_called_once_and_then_skipped() {
    // `twice` does not implement `read_complete`. The default method passes the first event on, and
    // later events skip `twice`. Either way the next handler gets each event once.
    struct Counts(Log<u32>);
    impl Inbound for Counts {
        type In = Bytes;
        type Out = Nothing;
        type Write = Nothing;
        fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}
        fn read_complete(&mut self, _: &mut InboundContext<'_, Self>) {
            self.0.push(1);
        }
    }
    let log = Log::new();
    let mut channel = embedded(|p| p.add("twice", twice()).add("counts", Counts(log.clone())));
    for _ in 0..3 {
        channel.receive("x");
    }
    assert_eq!(log.len(), 3);
}

/// Logs messages and the ends of reads, and passes both on.
struct Ends {
    name: &'static str,
    log: Names,
    /// `true` if the first message panics.
    breaks: bool,
}

impl Inbound for Ends {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.log.push(format!("{} read", self.name));
        assert!(!std::mem::take(&mut self.breaks), "on purpose");
        ctx.fire_read(bytes);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.log.push(format!("{} end", self.name));
        ctx.fire_read_complete();
    }

    fn error(&mut self, _: Failure, _: &mut InboundContext<'_, Self>) {
        self.log.push(format!("{} error", self.name));
    }
}

fn ends(name: &'static str, log: &Names, breaks: bool) -> Ends {
    Ends {
        name,
        log: log.clone(),
        breaks,
    }
}

#[test]
fn a_read_ends_behind_all_that_its_messages_caused_once_for_each_handler() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add("a", ends("a", &log, false))
            .add("b", ends("b", &log, false))
    });
    for _ in 0..2 {
        channel.receive("x");
        assert_eq!(log.take(), ["a read", "b read", "a end", "b end"]);
    }
    let mut alone = embedded(|p| p.add("a", ends("a", &log, false)));
    alone.receive("x");
    assert_eq!(log.take(), ["a read", "a end"]);
}

#[test]
fn a_read_whose_handler_panicked_ends_all_the_same() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add("a", ends("a", &log, true))
            .add("b", ends("b", &log, false))
    });
    channel.receive("x");
    assert_eq!(log.take(), ["a read", "a error", "a end", "b end"]);
    channel.receive("x");
    assert_eq!(log.take(), ["a read", "b read", "a end", "b end"]);
}

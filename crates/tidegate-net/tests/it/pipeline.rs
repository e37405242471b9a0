//! Handlers in a row: order, types, panics, changes.

use bytes::Bytes;
use tidegate_net::handlers::{LineFrames, Strings};
use tidegate_net::{
    Assembly, Change, EmbeddedChannel, Handler, Inbound, InboundContext, Nothing, Outbound,
    OutboundContext, Passing, PipelineError, UserEvent,
};
use tidegate_promise::Failure;
use tidegate_testkit::Log;

use crate::Echo;

type Names = Log<String>;

/// Notes everything that passes, both ways.
struct Note {
    name: &'static str,
    log: Names,
}

fn note(name: &'static str, log: &Names) -> Note {
    Note {
        name,
        log: log.clone(),
    }
}

impl Note {
    fn say(&self, what: &str) {
        self.log.push(format!("{} {what}", self.name));
    }
}

impl Inbound for Note {
    type In = Passing;
    type Out = Passing;
    type Write = Nothing;

    fn added(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.say("added");
    }

    fn removed(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.say("removed");
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.say("active");
        ctx.fire_active();
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.say("inactive");
        ctx.fire_inactive();
    }

    fn read(&mut self, message: Passing, ctx: &mut InboundContext<'_, Self>) {
        self.say("read");
        ctx.fire_read(message);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        self.say("event");
        ctx.fire_event(event);
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.say(&format!("error: {why}"));
        ctx.fire_error(why);
    }
}

impl Outbound for Note {
    type Take = Passing;
    type Write = Passing;

    fn write(&mut self, message: Passing, ctx: &mut OutboundContext<'_, Self>) {
        self.say("write");
        ctx.write(message);
    }

    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.say("flush");
        ctx.flush();
    }
}

fn embedded(assemble: impl FnOnce(Assembly) -> Assembly) -> EmbeddedChannel {
    EmbeddedChannel::new(assemble).unwrap()
}

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

/// Says twice what it reads: once to the peer, once to the next handler.
struct Twice;

impl Inbound for Twice {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes.clone());
        ctx.write(format!("[{}]", String::from_utf8_lossy(&bytes)));
        ctx.fire_read(bytes);
    }
}

#[test]
fn what_a_handler_says_is_carried_out_in_order_each_with_all_that_follows() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("out", note("out", &log))
            .add("twice", Twice)
            .add("echo", Echo)
    });
    channel.receive("x");
    assert_eq!(channel.sent(), "x[x]x");
}

#[test]
fn a_handler_is_not_entered_again_while_it_runs() {
    /// Answers itself; a write by it while it reads must not come back into it.
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
fn handlers_that_do_not_fit_are_refused_naming_both() {
    let misfit = |assemble: fn(Assembly) -> Assembly| EmbeddedChannel::new(assemble).unwrap_err();
    let why = misfit(|p| p.add_duplex("text", Strings::utf8()).add("echo", Echo));
    let said = why.to_string();
    assert!(
        said.contains("`text` passes on alloc::string::String"),
        "{said}"
    );
    assert!(said.contains("`echo` takes bytes::bytes::Bytes"), "{said}");
    let why = misfit(|p| {
        p.add_duplex("text", Strings::utf8())
            .add("out", WritesBytes)
    });
    let said = why.to_string();
    assert!(
        said.contains("`out` writes bytes::bytes::Bytes, but `text` takes"),
        "{said}"
    );
    let why = misfit(|p| p.add("echo", Echo).add("late", Twice));
    assert!(why.to_string().contains("Nothing"), "{why}");
    let why = misfit(|p| p.add("echo", Echo).add("echo", Echo));
    assert_eq!(
        why,
        PipelineError::Duplicate {
            name: "echo".to_owned()
        }
    );
}

/// Takes text, and writes bytes past it.
struct WritesBytes;

impl Inbound for WritesBytes {
    type In = String;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, text: String, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(text);
    }
}

#[test]
fn a_handler_without_a_name_is_called_by_its_type_and_a_number() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("", note("a", &log))
            .add_duplex("", note("b", &log))
            .add("", Echo)
    });
    assert_eq!(channel.names(), ["Note#0", "Note#1", "Echo#0"]);
}

/// Panics where it is told to.
struct Panics(&'static str);

impl Panics {
    fn at(&self, place: &str) {
        assert_ne!(self.0, place, "as asked");
    }
}

impl Inbound for Panics {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn added(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.at("added");
    }

    fn removed(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.at("removed");
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
        self.at("read");
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        if self.0 == "error" {
            panic!("again");
        }
        ctx.fire_error(why);
    }
}

impl Outbound for Panics {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        self.at("write");
        ctx.write(bytes);
    }

    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.at("flush");
        ctx.flush();
    }
}

#[test]
fn a_panic_in_an_event_is_an_error_event_that_begins_at_that_handler() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("before", note("before", &log))
            .add_duplex("bad", Panics("read"))
            .add_duplex("after", note("after", &log))
    });
    let _ = log.take();
    channel.receive("x");
    let said = log.take();
    assert_eq!(
        said[..2],
        ["before read", "after read"],
        "what it said before stays said"
    );
    assert!(said[2].starts_with("after error: panicked") && said[2].contains("as asked"));
    let errors = channel.errors();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].is_panic());
    assert!(
        !channel.is_open(),
        "an error that nobody takes closes the channel"
    );
}

#[test]
fn an_error_that_a_handler_takes_leaves_the_channel_open() {
    struct Takes(Log<String>);
    impl Inbound for Takes {
        type In = Passing;
        type Out = Passing;
        type Write = Nothing;
        fn read(&mut self, message: Passing, ctx: &mut InboundContext<'_, Self>) {
            ctx.fire_read(message);
        }
        fn error(&mut self, why: Failure, _ctx: &mut InboundContext<'_, Self>) {
            self.0.push(why.to_string());
        }
    }
    let log = Log::new();
    let mut channel = embedded(|p| {
        p.add_duplex("bad", Panics("read"))
            .add("takes", Takes(log.clone()))
    });
    channel.receive("x");
    assert_eq!(log.take().len(), 1);
    assert!(channel.is_open());
    channel.channel().write_and_flush("still here");
    channel.run();
    assert_eq!(channel.sent(), "still here");
}

#[test]
fn a_panic_in_a_write_fails_its_promise_and_fires_nothing() {
    let mut channel = embedded(|p| p.add_duplex("bad", Panics("write")));
    let sent = channel.channel().write_with("x");
    channel.channel().flush();
    channel.run();
    let why = sent.wait().unwrap_err();
    assert!(why.to_string().contains("as asked"), "{why}");
    assert!(channel.errors().is_empty() && channel.is_open());
}

#[test]
fn a_panic_in_a_flush_is_an_error_event() {
    let mut channel = embedded(|p| p.add_duplex("bad", Panics("flush")));
    channel.channel().write_and_flush("x");
    channel.run();
    assert_eq!(channel.errors().len(), 1);
}

#[test]
fn a_panic_in_a_write_that_nobody_waits_for_is_an_error_event() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("bad", Panics("write"))
            .add_duplex("after", note("after", &log))
    });
    let _ = log.take();
    channel.channel().write_and_flush("x");
    channel.run();
    let said = log.take();
    let told = said.iter().filter(|said| said.starts_with("after error"));
    assert_eq!(told.count(), 1, "{said:?}");
    assert!(channel.errors()[0].is_panic() && !channel.is_open());
}

#[test]
fn a_panic_in_an_error_handler_is_an_error_for_those_behind_it_and_closes_the_channel() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("bad", Panics("error"))
            .add_duplex("after", note("after", &log))
    });
    let _ = log.take();
    channel.channel().fire_error(Failure::new("first"));
    channel.run();
    let said = log.take();
    assert!(
        said[0].starts_with("after error: panicked") && said[0].contains("again"),
        "{said:?}"
    );
    let errors = channel.errors();
    assert!(errors.len() == 1 && errors[0].is_panic(), "{errors:?}");
    assert!(!channel.is_open());
    let why = channel.channel().close_cause().unwrap();
    assert!(why.is_panic(), "{why}");
}

#[test]
fn a_panic_while_it_is_added_takes_a_handler_out_again() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("bad", Panics("added"))
            .add_duplex("after", note("after", &log))
    });
    assert_eq!(
        channel.names().len(),
        0,
        "nobody took the error: the channel is closed"
    );
    let said = log.take();
    assert!(
        said.iter().any(|said| said.starts_with("after error")),
        "{said:?}"
    );
}

#[test]
fn a_panic_while_it_is_removed_is_an_error_event_and_the_handler_is_gone() {
    struct Quiet;
    impl Inbound for Quiet {
        type In = Passing;
        type Out = Passing;
        type Write = Nothing;
        fn read(&mut self, message: Passing, ctx: &mut InboundContext<'_, Self>) {
            ctx.fire_read(message);
        }
        fn error(&mut self, _why: Failure, ctx: &mut InboundContext<'_, Self>) {
            ctx.channel().set_attribute("heard");
        }
    }
    let mut channel = embedded(|p| p.add_duplex("bad", Panics("removed")).add("quiet", Quiet));
    let done = channel.channel().change(|| Change::remove("bad"));
    channel.run();
    done.wait().unwrap();
    assert_eq!(channel.names(), ["quiet"]);
    assert_eq!(channel.channel().attribute::<&str>(), Some("heard"));
}

#[test]
fn handlers_are_added_removed_and_replaced_and_told() {
    let log = Names::new();
    let mut channel = embedded(|p| p.add_duplex("b", note("b", &log)));
    let _ = log.take();
    let (first, last, new) = (note("a", &log), note("c", &log), note("d", &log));
    let handle = channel.channel();
    let adds = [
        handle.change(|| Change::add_first("a", Handler::duplex(first))),
        handle.change(|| Change::add_last("c", Handler::duplex(last))),
    ];
    channel.run();
    for add in adds {
        add.wait().unwrap();
    }
    assert_eq!(channel.names(), ["a", "b", "c"]);
    assert_eq!(log.take(), ["a added", "c added"]);
    channel.receive("x");
    assert_eq!(log.take(), ["a read", "b read", "c read"]);
    let replaced = handle.change(|| Change::replace("b", "d", Handler::duplex(new)));
    channel.run();
    replaced.wait().unwrap();
    assert_eq!(
        log.take(),
        ["d added", "b removed"],
        "the new one is told first"
    );
    assert_eq!(channel.names(), ["a", "d", "c"]);
    channel.receive("x");
    assert_eq!(log.take(), ["a read", "d read", "c read"]);
}

#[test]
fn a_change_that_would_not_fit_is_refused_and_the_old_chain_stays() {
    let mut channel = embedded(|p| {
        p.add_duplex("text", Strings::utf8())
            .add("shout", WritesText)
    });
    let handle = channel.channel();
    let misfit = handle.change(|| Change::remove("text"));
    let twice = handle.change(|| Change::add_last("text", Handler::inbound(Echo)));
    let missing = handle.change(|| Change::remove("nobody"));
    channel.run();
    // A test's head takes anything; behind `shout`, which passes nothing on, nothing fits.
    let late = handle.change(|| Change::add_last("late", Handler::inbound(Echo)));
    channel.run();
    assert!(misfit.wait().is_ok());
    let said = |why: tidegate_promise::WaitError<Failure>| why.to_string();
    assert!(said(twice.wait().unwrap_err()).contains("passes on"));
    assert!(said(missing.wait().unwrap_err()).contains("no handler called `nobody`"));
    assert!(said(late.wait().unwrap_err()).contains("`shout`"));
    assert_eq!(channel.names(), ["shout"]);
}

/// Takes text and writes text.
struct WritesText;

impl Inbound for WritesText {
    type In = String;
    type Out = Nothing;
    type Write = String;

    fn read(&mut self, text: String, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(text.to_uppercase());
        ctx.flush();
    }
}

#[test]
fn a_handler_can_put_another_in_its_place_and_pass_on_what_it_has() {
    /// Reads one line to choose the protocol, then goes.
    struct Greeting;
    impl Inbound for Greeting {
        type In = Bytes;
        type Out = Bytes;
        type Write = Nothing;
        fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
            assert_eq!(line, "echo");
            ctx.change(Change::add_last("echo", Handler::inbound(Echo)))
                .unwrap();
            ctx.remove_me().unwrap();
            assert!(ctx.remove_me().is_err(), "it is as good as gone");
        }
    }
    let mut channel = embedded(|p| {
        p.add("lines", LineFrames::max(80))
            .add("greeting", Greeting)
    });
    channel.receive("echo\nhello\n");
    assert_eq!(channel.names(), ["lines", "echo"]);
    assert_eq!(channel.sent(), "hello");
}

#[test]
fn what_is_emitted_at_its_end_reaches_the_successor() {
    struct Keeps(Vec<Bytes>);
    impl Inbound for Keeps {
        type In = Bytes;
        type Out = Bytes;
        type Write = Nothing;
        fn read(&mut self, bytes: Bytes, _ctx: &mut InboundContext<'_, Self>) {
            self.0.push(bytes);
        }
        fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
            for bytes in self.0.drain(..) {
                ctx.fire_read(bytes);
            }
            ctx.fire_read_complete();
        }
    }
    let mut channel = embedded(|p| p.add("keeps", Keeps(Vec::new())));
    channel.receive("kept");
    let done = channel
        .channel()
        .change(|| Change::replace("keeps", "echo", Handler::inbound(Echo)));
    channel.run();
    done.wait().unwrap();
    assert_eq!(channel.sent(), "kept");
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
    struct Says(Log<&'static str>);
    impl Inbound for Says {
        type In = Bytes;
        type Out = Nothing;
        type Write = String;
        fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
            let log = self.0.clone();
            ctx.write_with("abc").finally(move |_| log.push("sent"));
            ctx.flush();
        }
    }
    let log = Log::new();
    let own = log.clone();
    let mut channel = embedded(|p| p.add_outbound("splits", Splits).add("says", Says(own)));
    channel.set_room(Some(2));
    channel.receive("go");
    assert!(log.is_empty(), "two of three bytes are sent");
    channel.set_room(None);
    assert_eq!(log.take(), ["sent"]);
    assert_eq!(channel.sent(), "abc");
}

#[test]
fn a_message_that_no_outbound_handler_takes_fails_and_says_who() {
    let mut channel = embedded(|p| p.add_duplex("text", Strings::utf8()));
    let sent = channel.channel().write_with("bytes");
    channel.channel().flush();
    channel.run();
    let why = sent.wait().unwrap_err().to_string();
    assert!(
        why.contains("`text` takes alloc::string::String, and got bytes"),
        "{why}"
    );
}

#[test]
fn a_handler_that_does_not_care_is_asked_once_and_then_skipped() {
    // `Twice` writes no `read_complete`: the first one is passed on by the default, later ones
    // go past it; either way the next handler hears each of them once.
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
    let mut channel = embedded(|p| p.add("twice", Twice).add("counts", Counts(log.clone())));
    for _ in 0..3 {
        channel.receive("x");
    }
    assert_eq!(log.len(), 3);
}

/// Notes messages and the ends of reads; passes both on.
struct Ends {
    name: &'static str,
    log: Names,
    /// Panics on its first message.
    breaks: bool,
}

impl Inbound for Ends {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.log.push(format!("{} read", self.name));
        assert!(!std::mem::take(&mut self.breaks), "as asked");
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

/// Counts with something that cannot leave its thread.
struct Stays(std::rc::Rc<std::cell::Cell<u32>>);

impl Inbound for Stays {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.0.set(self.0.get() + 1);
        ctx.fire_read(bytes);
    }
}

#[test]
fn a_handler_that_stays_on_its_thread_can_be_added_later_and_goes_with_a_refused_change() {
    let mut channel =
        EmbeddedChannel::new(|p| p.add("first", Stays(std::rc::Rc::default()))).unwrap();
    let (told, counted) = std::sync::mpsc::channel();
    let handle = channel.channel();
    let added = handle.change(move || {
        let count = std::rc::Rc::new(std::cell::Cell::new(0));
        told.send(std::rc::Rc::as_ptr(&count).addr()).unwrap();
        Change::add_last("stays", Handler::local_inbound(Stays(count)))
    });
    channel.run();
    added.wait().unwrap();
    assert_ne!(counted.recv().unwrap(), 0);
    channel.write_inbound(Bytes::from("x"));
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "x");
    assert_eq!(channel.names(), ["first", "stays"]);
    let count = std::rc::Rc::<std::cell::Cell<u32>>::default();
    let change = Change::add_last(
        "stays",
        Handler::local_inbound(Stays(std::rc::Rc::clone(&count))),
    );
    drop(change);
    assert_eq!(std::rc::Rc::strong_count(&count), 1);
}

//! Handlers that panic.

use bytes::Bytes;
use tidegate_net::{
    AnyMessage, EmbeddedChannel, Inbound, InboundContext, Nothing, Outbound, OutboundContext,
    PipelineChange,
};
use tidegate_promise::Failure;
use tidegate_testkit::{Log, begins, has};

use super::{Names, embedded, note};

/// Panics in the named method.
struct Panics(&'static str);

impl Panics {
    fn at(&self, place: &str) {
        assert_ne!(self.0, place, "on purpose");
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
    let lines = log.take();
    assert_eq!(
        lines[..2],
        ["before read", "after read"],
        "its earlier actions are kept"
    );
    begins(&lines[2], "after error: ");
    has(&lines[2], ["panicked: ", "on purpose"]);
    let errors = channel.errors();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].is_panic());
    assert!(!channel.is_open(), "an unhandled error closes the channel");
}

#[test]
fn an_error_that_a_handler_takes_leaves_the_channel_open() {
    struct Takes(Log<String>);
    impl Inbound for Takes {
        type In = AnyMessage;
        type Out = AnyMessage;
        type Write = Nothing;
        fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
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
    assert!(why.to_string().contains("on purpose"), "{why}");
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
fn a_panic_in_a_write_without_a_promise_is_an_error_event() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("bad", Panics("write"))
            .add_duplex("after", note("after", &log))
    });
    let _ = log.take();
    channel.channel().write_and_flush("x");
    channel.run();
    let lines = log.take();
    let notified = lines
        .iter()
        .filter(|lines| lines.starts_with("after error"));
    assert_eq!(notified.count(), 1, "{lines:?}");
    assert!(channel.errors()[0].is_panic() && !channel.is_open());
}

#[test]
fn a_panic_in_an_error_handler_is_an_error_for_the_handlers_behind_it_and_closes_the_channel() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("bad", Panics("error"))
            .add_duplex("after", note("after", &log))
    });
    let _ = log.take();
    channel.channel().fire_error(Failure::new("first"));
    channel.run();
    let lines = log.take();
    begins(&lines[0], "after error: ");
    has(&lines[0], ["panicked: again"]);
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
        "the error was unhandled: the channel is closed"
    );
    let lines = log.take();
    assert!(
        lines.iter().any(|lines| lines.starts_with("after error")),
        "{lines:?}"
    );
}

#[test]
fn a_panic_while_it_is_removed_is_an_error_event_and_the_handler_is_removed() {
    struct Quiet;
    impl Inbound for Quiet {
        type In = AnyMessage;
        type Out = AnyMessage;
        type Write = Nothing;
        fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
            ctx.fire_read(message);
        }
        fn error(&mut self, _why: Failure, ctx: &mut InboundContext<'_, Self>) {
            ctx.channel().set_attribute("heard");
        }
    }
    let mut channel = embedded(|p| p.add_duplex("bad", Panics("removed")).add("quiet", Quiet));
    let done = channel.channel().change(|| PipelineChange::remove("bad"));
    channel.run();
    done.wait().unwrap();
    assert_eq!(channel.names(), ["quiet"]);
    assert_eq!(channel.channel().attribute::<&str>(), Some("heard"));
}

#[test]
fn the_error_names_the_handler_that_panicked() {
    let panics = |place| EmbeddedChannel::new(|p| p.add("prints", Panics(place))).unwrap();
    let mut channel = panics("read");
    channel.receive("x");
    let error = channel.errors()[0].to_string();
    assert!(error.starts_with("handler `prints` panicked: "), "{error}");
    let mut channel = panics("removed");
    channel.close();
    let error = channel.errors()[0].to_string();
    begins(&error, "a handler that is being removed panicked: ");
}

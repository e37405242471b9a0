//! The end of the peer's stream, plain and by a `close_notify`: what a handler holds back comes
//! before it.

use std::time::Duration;

use tidegate_net::handlers::{FlowControl, LineFrames, MessageLimit, Rate};
use tidegate_net::{
    ChannelOptions, EmbeddedChannel, InputShutdown, PipelineBuilder, PipelineChange,
};
use tidegate_testkit::Log;

use crate::acts::Acts;
use crate::tls::{Authority, Pair};

const SECOND: Duration = Duration::from_secs(1);

/// Logs lines, and that the input has ended. Keeps every event from the next handlers.
fn log_end(log: Log<String>) -> Acts {
    let in_read = log.clone();
    let in_event = log.clone();
    Acts::on_read(move |line, _| in_read.push(String::from_utf8_lossy(&line).into_owned()))
        .on_event(move |event, _| {
            if event.downcast_ref::<InputShutdown>().is_some() {
                in_event.push("end".to_owned());
            }
        })
        .on_inactive(move |_| log.push("closed".to_owned()))
}

/// A channel that splits what it receives into lines, and logs what passes the other handlers.
struct Reader {
    channel: EmbeddedChannel,
    log: Log<String>,
    /// What is logged at the end.
    last: &'static str,
    case: String,
}

impl Reader {
    /// Returns channels that have received `text` and the end of the stream at once: with and
    /// without half-closure, with and without TLS. One read was requested before.
    fn each(
        auto_read: bool,
        text: &'static str,
        holds: impl Fn(PipelineBuilder) -> PipelineBuilder,
    ) -> Vec<Self> {
        let authority = Authority::new();
        let mut all = Vec::new();
        for (half_closure, last) in [(true, "end"), (false, "closed")] {
            let options = ChannelOptions {
                auto_read,
                half_closure,
                ..ChannelOptions::default()
            };
            for with_tls in [false, true] {
                let log = Log::new();
                let end = log_end(log.clone());
                let lines = |p: PipelineBuilder| p.add("lines", LineFrames::max(80));
                let behind = |p| holds(lines(p)).add("end", end);
                let channel = match with_tls {
                    true => encrypted(&authority, options.clone(), text, behind),
                    false => plain(options.clone(), text, behind),
                };
                let case = format!("half_closure {half_closure}, with_tls {with_tls}");
                all.push(Self {
                    channel,
                    log,
                    last,
                    case,
                });
            }
        }
        all
    }

    fn request_read(&mut self) {
        self.channel.channel().read();
        self.channel.run();
    }

    fn advance(&mut self) {
        self.channel.advance(SECOND);
        self.channel.run();
    }

    /// Checks what was logged since the last check. The word `last` stands for the end.
    fn expect(&self, lines: &[&str]) {
        let word = |line: &&str| match *line {
            "last" => self.last.to_owned(),
            line => line.to_owned(),
        };
        let lines: Vec<_> = lines.iter().map(word).collect();
        assert_eq!(self.log.take(), lines, "{}", self.case);
    }

    fn expect_end(&self) {
        assert_eq!(self.channel.is_open(), self.last == "end", "{}", self.case);
    }
}

fn plain(
    options: ChannelOptions,
    text: &'static str,
    assemble: impl FnOnce(PipelineBuilder) -> PipelineBuilder,
) -> EmbeddedChannel {
    let mut server = EmbeddedChannel::with_options(options, assemble).unwrap();
    server.channel().read();
    server.run();
    server.receive(text);
    server.end_input();
    server
}

fn encrypted(
    authority: &Authority,
    options: ChannelOptions,
    text: &'static str,
    assemble: impl FnOnce(PipelineBuilder) -> PipelineBuilder,
) -> EmbeddedChannel {
    let tls = authority.server("a.test");
    let server =
        EmbeddedChannel::with_options(options, |p| assemble(p.add_duplex("tls", tls.handler())));
    let name = authority.client().name("a.test").unwrap();
    let client = EmbeddedChannel::new(|p| p.add_duplex("tls", name.handler()));
    let (server, client) = (server.unwrap(), client.unwrap());
    let mut pair = Pair { server, client };
    pair.run();
    pair.server.channel().read();
    pair.server.run();
    pair.client.channel().write_and_flush(text);
    drop(pair.client.channel().close_when_flushed());
    pair.client.run();
    // The messages, the `close_notify` and the end of the socket's stream arrive at once.
    let there = pair.client.sent();
    pair.server.receive(there);
    pair.server.end_input();
    pair.server
}

fn limit(p: PipelineBuilder) -> PipelineBuilder {
    p.add_duplex("limit", MessageLimit::new(Rate::messages_per_second(1)))
}

fn flow(p: PipelineBuilder) -> PipelineBuilder {
    p.add_duplex("flow", FlowControl::new())
}

#[test]
fn the_end_comes_after_the_messages_above_a_limit() {
    for mut reader in Reader::each(true, "a\nb\nc\n", limit) {
        reader.expect(&["a"]);
        reader.advance();
        reader.expect(&["b"]);
        reader.advance();
        reader.expect(&["c", "last"]);
        reader.expect_end();
    }
}

#[test]
fn messages_may_wait_longer_than_a_close() {
    let waits = ChannelOptions::DEFAULT_CLOSE_TIMEOUT.as_secs() + 1;
    let text: &str = Box::leak("a\n".repeat(1 + waits as usize).into_boxed_str());
    for mut reader in Reader::each(true, text, limit) {
        for _ in 0..waits {
            reader.expect(&["a"]);
            reader.advance();
        }
        reader.expect(&["a", "last"]);
        reader.expect_end();
    }
}

#[test]
fn the_end_comes_with_the_read_behind_the_last_message() {
    for mut reader in Reader::each(false, "a\nb\nc\n", flow) {
        reader.expect(&["a"]);
        for line in ["b", "c"] {
            reader.request_read();
            reader.expect(&[line]);
        }
        assert!(reader.channel.is_open(), "{}", reader.case);
        reader.request_read();
        reader.expect(&["last"]);
        reader.expect_end();
    }
}

#[test]
fn the_end_comes_at_once_if_the_channel_reads_on_its_own_again() {
    for mut reader in Reader::each(false, "a\nb\nc\n", flow) {
        reader.expect(&["a"]);
        reader.channel.channel().set_auto_read(true);
        reader.channel.run();
        reader.expect(&["b", "c", "last"]);
        reader.expect_end();
    }
}

#[test]
fn a_removed_handler_leaves_the_end_behind_the_messages() {
    for mut reader in Reader::each(false, "a\nb\nc\n", flow) {
        reader.expect(&["a"]);
        let channel = reader.channel.channel();
        drop(channel.change(|| PipelineChange::remove("flow")));
        reader.request_read();
        reader.expect(&["b", "c", "last"]);
        reader.expect_end();
    }
    for mut reader in Reader::each(true, "a\nb\nc\n", limit) {
        reader.expect(&["a"]);
        let channel = reader.channel.channel();
        drop(channel.change(|| PipelineChange::remove("limit")));
        reader.channel.run();
        reader.expect(&["b", "c", "last"]);
        reader.expect_end();
    }
}

#[test]
fn the_end_passes_each_of_two_handlers_behind_its_messages() {
    let orders: [fn(PipelineBuilder) -> PipelineBuilder; 2] =
        [|p| flow(limit(p)), |p| limit(flow(p))];
    for holds in orders {
        for mut reader in Reader::each(false, "a\nb\nc\n", holds) {
            reader.expect(&["a"]);
            reader.request_read();
            reader.expect(&[]);
            for _ in 0..3 {
                reader.request_read();
                reader.advance();
            }
            reader.expect(&["b", "c", "last"]);
            reader.expect_end();
        }
    }
}

#[test]
fn a_close_by_the_program_does_not_wait_for_the_messages() {
    for holds in [flow, limit] {
        for mut reader in Reader::each(false, "a\nb\n", holds) {
            reader.expect(&["a"]);
            drop(reader.channel.channel().close_when_flushed());
            reader.channel.run();
            reader.expect(&["closed"]);
            assert!(!reader.channel.is_open(), "{}", reader.case);
        }
    }
}

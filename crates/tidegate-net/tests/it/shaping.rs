//! Handlers that hold messages back or watch the time, while conditions change.

use std::io::Write;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_net::handlers::{
    FlowControl, FlushConsolidation, Idle, LineFrames, Logging, ProxyProtocol, Rate,
    TrafficShaping, WriteTimeout,
};
use tidegate_net::{EmbeddedChannel, Handler, PipelineBuilder, PipelineChange};
use tidegate_promise::Outcome;
use tidegate_testkit::{Log, has};

use crate::acts::Acts;
use crate::handlers::{embedded, frames};
use crate::{dial, marks, no_auto_read, serve};

const SECOND: Duration = Duration::from_secs(1);

fn reads_on_request(assemble: impl FnOnce(PipelineBuilder) -> PipelineBuilder) -> EmbeddedChannel {
    EmbeddedChannel::with_options(no_auto_read(), assemble).unwrap()
}

fn slow_reads(rate: u64) -> TrafficShaping {
    TrafficShaping::new(Some(Rate::bytes_per_second(rate)), None)
}

fn slow_writes(rate: u64) -> TrafficShaping {
    TrafficShaping::new(None, Some(Rate::bytes_per_second(rate)))
}

fn remove(channel: &mut EmbeddedChannel, name: &'static str) {
    let removed = channel
        .channel()
        .change(move || PipelineChange::remove(name));
    channel.run();
    removed.wait().unwrap();
}

#[test]
fn a_removed_shaping_handler_releases_all_held_messages() {
    let both = TrafficShaping::new(
        Some(Rate::bytes_per_second(1)),
        Some(Rate::bytes_per_second(1)),
    );
    let mut channel = embedded(|p| p.add_duplex("slow", both));
    let handle = channel.channel();
    channel.receive("read");
    channel.receive("held");
    let sent: Vec<_> = ["a", "b", "c"].map(|one| handle.write_with(one)).into();
    handle.flush();
    channel.run();
    assert_eq!(channel.sent(), "a");
    assert_eq!(frames(&mut channel), ["read"]);
    remove(&mut channel, "slow");
    assert_eq!(channel.sent(), "bc", "in order and at once");
    for one in sent {
        one.wait().unwrap();
    }
    assert_eq!((handle.pending_bytes(), handle.is_writable()), (0, true));
    channel.receive("more");
    assert_eq!(frames(&mut channel).concat(), b"heldmore", "it reads again");
    channel.advance(3600 * SECOND);
    assert!(channel.is_open() && channel.sent().is_empty());
}

#[test]
fn what_shaping_held_fails_with_its_channel() {
    let mut channel = embedded(|p| p.add_duplex("slow", slow_writes(1)));
    let sent: Vec<_> = ["a", "b"]
        .map(|one| channel.channel().write_with(one))
        .into();
    channel.channel().flush();
    channel.run();
    channel.close();
    let [first, second] = sent.try_into().unwrap();
    first.wait().unwrap();
    let why = second.wait().unwrap_err().to_string();
    assert!(why.contains("closed"), "{why}");
}

#[test]
fn a_pause_leaves_other_read_requests_unchanged() {
    // The channel reads only on request: a pause must not make it read on its own.
    let mut channel = reads_on_request(|p| p.add_duplex("slow", slow_reads(4)));
    let handle = channel.channel();
    handle.read();
    channel.run();
    channel.receive("four");
    assert_eq!(frames(&mut channel), ["four"]);
    channel.advance(10 * SECOND);
    channel.receive("not demanded");
    assert!(frames(&mut channel).is_empty());
    // A read requested during a pause happens at its end.
    handle.read();
    channel.run();
    assert_eq!(frames(&mut channel), ["not demanded"]);
    handle.read();
    channel.run();
    channel.receive("patience");
    assert!(frames(&mut channel).is_empty());
    channel.advance(3 * SECOND);
    assert_eq!(frames(&mut channel), ["patience"]);
    // Auto-read enabled during a pause applies from its end on.
    handle.set_auto_read(true);
    channel.run();
    channel.receive("automatic");
    assert!(frames(&mut channel).is_empty());
    channel.advance(2 * SECOND);
    assert_eq!(frames(&mut channel), ["automatic"]);
}

#[test]
fn messages_kept_back_during_a_pause_are_passed_on_after_it() {
    let mut channel = embedded(|p| {
        p.add_duplex("slow", slow_reads(8))
            .add("lines", LineFrames::max(80))
            .add_duplex("flow", FlowControl::new())
    });
    channel.receive("one\ntwo\n");
    channel.advance(SECOND);
    // The peer waits for the answers to both lines and sends nothing more.
    assert_eq!(frames(&mut channel), ["one", "two"]);
    channel.receive("three\n");
    channel.advance(SECOND);
    assert_eq!(frames(&mut channel), ["three"]);
}

#[test]
fn a_rate_can_be_changed_and_is_never_nothing() {
    let rate = Rate::bytes_per_second(0);
    let shaped = TrafficShaping::new(None, Some(rate.clone()));
    let mut channel = embedded(|p| p.add_duplex("slow", shaped));
    let handle = channel.channel();
    handle.write_and_flush("ab");
    handle.write_and_flush("cd");
    channel.run();
    assert_eq!(channel.sent(), "ab");
    channel.advance(2 * SECOND);
    assert_eq!(channel.sent(), "cd", "one byte a second");
    rate.set(1_000);
    handle.write_and_flush(vec![0; 500]);
    handle.write_and_flush("end");
    channel.run();
    channel.advance(2 * SECOND);
    assert_eq!(channel.sent().len(), 500, "after what was owed before");
    channel.advance(SECOND / 2);
    assert_eq!(channel.sent(), "end");
}

/// Writes the requested number of bytes, and logs whether they were sent.
fn log_sent(log: Log<bool>) -> Acts {
    Acts::on_read(move |size, ctx| {
        let size = std::str::from_utf8(&size).unwrap().parse().unwrap();
        let log = log.clone();
        ctx.write_with(vec![0; size]).finally(move |outcome| {
            log.push(matches!(outcome, Outcome::Success(())));
        });
        ctx.flush();
    })
}

#[test]
fn a_refused_write_is_not_charged_for() {
    let (log, own) = Log::pair();
    let assemble = |p: PipelineBuilder| {
        p.add_duplex("slow", slow_writes(10))
            .add("asks", log_sent(own))
    };
    let mut channel = EmbeddedChannel::with_options(marks(10, 100, 400), assemble).unwrap();
    for size in ["10", "10", "395", "10"] {
        channel.receive(size);
    }
    assert_eq!((channel.sent().len(), log.take()), (10, vec![true, false]));
    for _ in 0..2 {
        channel.advance(SECOND);
        assert_eq!((channel.sent().len(), log.take()), (10, vec![true]));
    }
    channel.receive("10");
    channel.advance(SECOND);
    assert_eq!(channel.sent().len(), 10);
}

/// Writes and flushes for each message. Removes `flush` for `out`, and closes its sending half for
/// `shut`.
fn chatty() -> Acts {
    Acts::on_read(|bytes, ctx| {
        ctx.write("x");
        ctx.flush();
        if bytes == "out" {
            ctx.change(PipelineChange::remove("flush")).unwrap();
        }
    })
}

#[test]
fn flushes_are_let_out_after_a_number_and_when_their_keeper_goes() {
    let chatty = |most| {
        embedded(|p| {
            p.add_duplex("flush", FlushConsolidation::every(most))
                .add("lines", LineFrames::max(9))
                .add("chatty", chatty())
        })
    };
    let mut channel = chatty(100);
    channel.receive("out\n");
    assert_eq!(channel.sent(), "x");
    assert_eq!(channel.names(), ["lines", "chatty"]);
    // With 2, one flush passes after two, and one at the end. One call after the event sends
    // everything.
    for most in [0, 1, 2, 3] {
        let mut channel = chatty(most);
        channel.receive("1\n2\n3\n");
        assert_eq!(channel.sent(), "xxx", "every {most}");
    }
}

#[test]
fn a_watch_that_comes_later_watches_too() {
    for idle in [Idle::reads(10 * SECOND), Idle::all(10 * SECOND)] {
        let mut channel = embedded(|p| p);
        channel.advance(100 * SECOND);
        let add = move || PipelineChange::add_first("idle", Handler::duplex(idle.closes()));
        drop(channel.channel().change(add));
        channel.run();
        channel.advance(9 * SECOND);
        assert!(channel.is_open());
        channel.advance(SECOND);
        assert!(!channel.is_open());
        assert!(channel.errors()[0].to_string().contains("10s"));
    }
}

#[test]
fn a_removed_handler_measures_nothing_more() {
    let mut channel = embedded(|p| p.add_duplex("idle", Idle::all(10 * SECOND).closes()));
    remove(&mut channel, "idle");
    channel.advance(100 * SECOND);
    assert!(channel.is_open());
}

#[test]
fn the_time_that_handlers_take_is_not_the_peers() {
    fn slow(log: Log<ManualClock>) -> Acts {
        Acts::on_read(move |_, _| {
            for clock in log.take() {
                clock.advance(20 * SECOND);
            }
        })
    }
    let (clock, own) = Log::pair();
    let mut channel = embedded(|p| {
        p.add_duplex("idle", Idle::reads(10 * SECOND).closes())
            .add("slow", slow(own))
    });
    clock.push(channel.clock());
    channel.receive("a question that takes long");
    assert!(channel.is_open(), "the peer has only just spoken");
    channel.advance(9 * SECOND);
    assert!(channel.is_open());
    channel.advance(SECOND);
    assert!(!channel.is_open());
}

#[test]
fn no_limit_is_no_limit() {
    let for_ever = Duration::MAX;
    let mut channel = embedded(|p| {
        p.add_duplex("idle", Idle::new(for_ever, Duration::ZERO, for_ever))
            .add_duplex("write", WriteTimeout::new(Duration::ZERO))
    });
    channel.set_room(Some(0));
    channel.channel().write_and_flush("without a peer");
    channel.run();
    channel.advance(1_000_000 * SECOND);
    assert!(channel.is_open());
}

#[test]
fn a_log_says_whose_bytes_they_are_and_how_it_ended() {
    let (log, own) = Log::pair();
    let group = tidegate_net::pinned("io", 1).unwrap();
    let server = serve(&group, move |p| {
        let own = own.clone();
        let log = Logging::new(move |line: &str| own.push(line.to_owned()));
        p.add_duplex("log", log).add("ends", ends())
    });
    let mut client = dial(&server);
    client.write_all(b"hi").unwrap();
    let peer = client.local_addr().unwrap();
    log.wait_for(6);
    let lines = log.take();
    assert!(lines.iter().all(|line| line.starts_with(&peer.to_string())));
    has(&lines[1], ["read 2 bytes\n00000000  68 69 "]);
    assert!(
        lines.iter().any(|line| line.ends_with("shut output")),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with("close when flushed")),
        "{lines:?}"
    );
}

/// Closes the sending half, then the channel.
fn ends() -> Acts {
    Acts::on_read(|_, ctx| {
        ctx.shutdown_output();
        ctx.close_when_flushed();
    })
}

#[test]
fn a_header_that_its_protocol_forbids_is_none() {
    let v2 = |family: u8, body: &[u8]| {
        let size = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&b"\r\n\r\n\0\r\nQUIT\n\x21"[..], &[family], &size, body].concat()
    };
    let refused = [
        b"PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n".to_vec(),
        b"PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n".to_vec(),
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 \r\n".to_vec(),
        b"PROXY TCP4 1.2.3.4  5.6.7.8 1 2\r\n".to_vec(),
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n".to_vec(),
        b"PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n".to_vec(),
        b"proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n".to_vec(),
        v2(0x41, &[0; 12]),
        v2(0x13, &[0; 12]),
        v2(0x21, &[0; 35]),
    ];
    for header in refused {
        let mut channel = embedded(|p| p.add("proxy", ProxyProtocol::new()));
        channel.receive(header.clone());
        assert!(!channel.is_open(), "{header:?}");
        assert!(channel.errors()[0].to_string().contains("no PROXY header"));
    }
    // Headers for other protocols than TCP are accepted, without addresses.
    for header in [v2(0x31, &[7; 216]), v2(0x12, &[0; 12]), v2(0, b"")] {
        let mut channel = embedded(|p| p.add("proxy", ProxyProtocol::new()));
        channel.receive([&header[..], b"rest"].concat());
        assert_eq!(frames(&mut channel), ["rest"]);
    }
}

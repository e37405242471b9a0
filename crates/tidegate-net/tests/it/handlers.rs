//! The ready-made handlers, on a channel without a socket.

use std::time::Duration;

use bytes::Bytes;
use tidegate_net::handlers::{
    DelimiterFrames, FixedFrames, FlowControl, FlushConsolidation, Idle, IdleEvent, IdleKind,
    LengthField, LengthFrames, LengthPrefix, LineFrames, Logging, ProxiedPeer, ProxyProtocol, Rate,
    Strings, TrafficShaping, WriteTimeout,
};
use tidegate_net::{
    AnyMessage, EmbeddedChannel, Inbound, InboundContext, NetError, Nothing, PipelineBuilder,
    PipelineChange, UserEvent,
};
use tidegate_promise::Failure;
use tidegate_testkit::{Log, has};

use crate::acts::Acts;
use crate::{half_closure, marks, no_auto_read};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn embedded(
    assemble: impl FnOnce(PipelineBuilder) -> PipelineBuilder,
) -> EmbeddedChannel {
    EmbeddedChannel::new(assemble).unwrap()
}

/// Handles errors and events, and logs them.
struct Takes(Log<String>);

impl Inbound for Takes {
    type In = AnyMessage;
    type Out = AnyMessage;
    type Write = Nothing;

    fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(message);
    }

    fn event(&mut self, event: UserEvent, _ctx: &mut InboundContext<'_, Self>) {
        if let Some(IdleEvent { what, first }) = event.downcast_ref::<IdleEvent>() {
            self.0.push(format!("{what:?} {first}"));
        }
    }

    fn error(&mut self, why: Failure, _ctx: &mut InboundContext<'_, Self>) {
        let why = why.downcast_ref::<NetError>();
        self.0.push(format!("{why:?}"));
    }
}

pub(crate) fn frames(channel: &mut EmbeddedChannel) -> Vec<Bytes> {
    std::iter::from_fn(|| channel.read_inbound::<Bytes>()).collect()
}

/// Splits `stream` into two at every position, and into single bytes, and compares the results.
pub(crate) fn same_however_it_is_cut(
    stream: &[u8],
    expected: &[&'static [u8]],
    assemble: impl Fn(PipelineBuilder) -> PipelineBuilder,
) {
    let mut whole = embedded(&assemble);
    whole.receive(stream.to_vec());
    assert_eq!(frames(&mut whole), expected);
    for at in 0..=stream.len() {
        let mut channel = embedded(&assemble);
        let (one, two) = stream.split_at(at);
        for part in [one, two] {
            if !part.is_empty() {
                channel.receive(part.to_vec());
            }
        }
        assert_eq!(frames(&mut channel), expected, "cut at {at}");
    }
    let mut bytewise = embedded(&assemble);
    for byte in stream {
        bytewise.receive(vec![*byte]);
    }
    assert_eq!(frames(&mut bytewise), expected);
}

#[test]
fn lines_are_the_same_however_the_stream_is_cut() {
    let expected: [&[u8]; 4] = [b"one", b"two", b"", b"four\rfive"];
    same_however_it_is_cut(b"one\ntwo\r\n\nfour\rfive\nrest", &expected, |p| {
        p.add("lines", LineFrames::max(20))
    });
}

#[test]
fn the_earliest_delimiter_counts_and_there_is_at_least_one() {
    same_however_it_is_cut(b"a;b||c;x", &[b"a", b"b", b"c"], |p| {
        let frames = DelimiterFrames::new(["||", ";"], 20).unwrap();
        p.add("frames", frames)
    });
    let mut channel = embedded(|p| p.add("frames", DelimiterFrames::new(["\n"], 9).unwrap()));
    channel.receive("\n\n");
    assert_eq!(frames(&mut channel), ["", ""]);
    assert!(DelimiterFrames::new(Vec::<Bytes>::new(), 1).is_err());
    assert!(DelimiterFrames::new([""], 1).is_err());
}

#[test]
fn fixed_and_counted_frames_are_the_same_however_the_stream_is_cut() {
    same_however_it_is_cut(b"abcdefgh", &[b"abc", b"def"], |p| {
        p.add("frames", FixedFrames::of(3).unwrap())
    });
    same_however_it_is_cut(b"\0\x02ab\0\0\0\x01c\0", &[b"ab", b"", b"c"], |p| {
        p.add("frames", LengthFrames::new(LengthField::u16(), 20).unwrap())
    });
}

#[test]
fn a_length_field_may_stand_anywhere_and_count_anything() {
    // One byte for the kind; three bytes for the length, least significant first, which includes
    // the header.
    let field = LengthField {
        offset: 1,
        size: 3,
        little_endian: true,
        adjust: -4,
        strip: 0,
    };
    same_however_it_is_cut(
        b"K\x06\0\0hiL\x04\0\0",
        &[b"K\x06\0\0hi", b"L\x04\0\0"],
        |p| p.add("frames", LengthFrames::new(field, 20).unwrap()),
    );
    let odd = LengthField { size: 5, ..field };
    assert!(LengthFrames::new(odd, 20).is_err() && LengthPrefix::new(odd).is_err());
}

#[test]
fn a_frame_that_is_too_long_is_an_error_and_the_next_one_is_whole() {
    for parts in [
        &["0123456789012345\nok\n"][..],
        &["01234567890", "12345", "6\nok\n"],
    ] {
        let (log, own) = Log::pair();
        let mut channel = embedded(|p| p.add("lines", LineFrames::max(8)).add("takes", Takes(own)));
        for part in parts {
            channel.receive(*part);
        }
        assert_eq!(frames(&mut channel), ["ok"], "{parts:?}");
        let errors = log.take();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("at most 8 are allowed"));
    }
    let (log, own) = Log::pair();
    let mut channel = embedded(|p| {
        p.add("frames", LengthFrames::new(LengthField::u16(), 8).unwrap())
            .add("takes", Takes(own))
    });
    channel.receive(&b"\0\x0a012345"[..]);
    channel.receive(&b"6789\0\x02ok"[..]);
    assert_eq!(frames(&mut channel), ["ok"]);
    assert_eq!(log.take().len(), 1);
}

#[test]
fn an_oversized_frame_without_an_error_handler_ends_the_connection() {
    let mut channel = embedded(|p| p.add("lines", LineFrames::max(4)));
    channel.receive("0123456789\n");
    assert!(!channel.is_open());
    assert!(channel.errors()[0].to_string().contains("at most 4"));
}

#[test]
fn a_length_that_makes_no_sense_is_garbage() {
    let field = LengthField {
        adjust: -10,
        ..LengthField::u16()
    };
    let mut channel = embedded(|p| p.add("frames", LengthFrames::new(field, 80).unwrap()));
    channel.receive(&b"\0\x01x"[..]);
    has(channel.errors()[0].to_string(), ["violates the protocol"]);
}

#[test]
fn a_prefix_too_small_for_the_length_fails_the_write() {
    let field = LengthField {
        size: 1,
        ..LengthField::u16()
    };
    let mut channel = embedded(|p| p.add_outbound("prefix", LengthPrefix::new(field).unwrap()));
    let refused = channel.channel().write_with(vec![0; 300]);
    let taken = channel.channel().write_with(vec![7; 2]);
    channel.channel().flush();
    channel.run();
    has(refused.wait().unwrap_err().to_string(), ["at most 255"]);
    taken.wait().unwrap();
    assert_eq!(channel.sent(), &[2, 7, 7][..]);
}

#[test]
fn what_is_not_text_is_an_error_or_replaced() {
    let (log, own) = Log::pair();
    let mut strict = embedded(|p| {
        p.add_duplex("text", Strings::utf8())
            .add("takes", Takes(own))
    });
    strict.receive(&b"\xff"[..]);
    assert!(strict.read_inbound::<String>().is_none());
    assert!(log.take()[0].contains("not UTF-8"));
    let mut lossy = embedded(|p| p.add_duplex("text", Strings::lossy()));
    lossy.receive(&b"a\xff"[..]);
    assert_eq!(lossy.read_inbound::<String>().unwrap(), "a\u{fffd}");
}

#[test]
fn an_idle_channel_receives_idle_events_repeatedly() {
    let (log, own) = Log::pair();
    let idle = Idle::new(10 * SECOND, 20 * SECOND, Duration::ZERO);
    let mut channel = embedded(|p| p.add_duplex("idle", idle).add("takes", Takes(own)));
    channel.advance(9 * SECOND);
    assert!(log.is_empty());
    channel.advance(SECOND);
    assert_eq!(log.take(), ["Read true"]);
    channel.advance(10 * SECOND);
    let mut received = log.take();
    received.sort();
    assert_eq!(received, ["Read false", "Write true"]);
    channel.receive("x");
    channel.advance(10 * SECOND);
    assert_eq!(log.take(), ["Read true"]);
    channel.close();
    channel.advance(100 * SECOND);
    assert!(log.is_empty(), "a closed channel is not idle");
    let _ = IdleKind::All;
}

#[test]
fn activity_moves_the_limit_without_a_new_timer() {
    let (log, own) = Log::pair();
    let mut channel = embedded(|p| {
        p.add_duplex("idle", Idle::all(10 * SECOND))
            .add("takes", Takes(own))
    });
    for _ in 0..5 {
        channel.advance(6 * SECOND);
        channel.receive("x");
        channel.advance(2 * SECOND);
        channel.channel().write_and_flush("y");
        channel.run();
    }
    assert!(log.is_empty());
    channel.advance(10 * SECOND);
    assert_eq!(log.take(), ["All true"]);
}

#[test]
fn a_write_timeout_watches_progress_and_not_the_clock_alone() {
    let mut channel = embedded(|p| p.add_duplex("write", WriteTimeout::new(10 * SECOND)));
    channel.set_room(Some(0));
    channel.channel().write_and_flush("0123456789");
    channel.run();
    for _ in 0..5 {
        channel.advance(9 * SECOND);
        channel.set_room(Some(1));
    }
    assert!(channel.is_open(), "slow, but it moves");
    for _ in 0..2 {
        channel.advance(10 * SECOND);
    }
    assert!(!channel.is_open(), "ten seconds without a byte");
    let cause = channel.channel().close_cause().unwrap().to_string();
    assert!(cause.contains("nothing could be sent for 10s"), "{cause}");
}

#[test]
fn flushes_are_held_back_while_reading_and_let_out_at_the_end() {
    fn chatty() -> Acts {
        Acts::on_read(|_, ctx| {
            ctx.write("x");
            ctx.flush();
        })
    }
    let mut channel = embedded(|p| {
        p.add_duplex("flush", FlushConsolidation::every(100))
            .add("lines", LineFrames::max(9))
            .add("chatty", chatty())
    });
    channel.receive("1\n2\n3\n");
    assert_eq!((channel.sent().len(), channel.write_calls()), (3, 1));
    channel.channel().write_and_flush("outside of a read");
    channel.run();
    assert!(!channel.sent().is_empty());
}

#[test]
fn traffic_is_slowed_down_both_ways_and_together() {
    let both = Rate::bytes_per_second(10);
    let shaped =
        |rate: &Rate| TrafficShaping::new(Some(rate.clone()), Some(Rate::bytes_per_second(5)));
    let mut channel = embedded(|p| p.add_duplex("slow", shaped(&both)));
    channel.receive("0123456789");
    channel.receive("again");
    assert_eq!(frames(&mut channel), ["0123456789"], "reading pauses");
    channel.advance(SECOND);
    assert_eq!(frames(&mut channel), ["again"]);
    let sent: Vec<_> = (0..3)
        .map(|_| channel.channel().write_with("12345"))
        .collect();
    channel.channel().flush();
    channel.run();
    assert_eq!(channel.sent().len(), 5);
    channel.advance(SECOND);
    assert_eq!(channel.sent().len(), 5);
    channel.advance(SECOND);
    assert_eq!(channel.sent().len(), 5);
    for one in sent {
        one.wait().unwrap();
    }
}

#[test]
fn writes_that_a_handler_holds_back_count_as_pending_and_are_sent_before_a_graceful_end() {
    let options = marks(10, 100, 10_000);
    for half in [true, false] {
        let slow = TrafficShaping::new(None, Some(Rate::bytes_per_second(60)));
        let mut channel =
            EmbeddedChannel::with_options(options.clone(), |p| p.add_duplex("slow", slow)).unwrap();
        let handle = channel.channel();
        for _ in 0..3 {
            handle.write_and_flush(vec![b'x'; 60]);
        }
        channel.run();
        assert_eq!(channel.sent().len(), 60);
        assert_eq!(
            (handle.pending_bytes(), handle.is_writable()),
            (2 * (60 + 96), false)
        );
        if half {
            drop(handle.shutdown_output());
        } else {
            drop(handle.close_when_flushed());
        }
        channel.run();
        channel.advance(SECOND);
        assert!(channel.is_open() && !channel.is_output_shut());
        channel.advance(SECOND);
        assert_eq!(channel.sent().len(), 120, "nothing was lost");
        assert_eq!((channel.is_output_shut(), channel.is_open()), (half, half));
    }
}

#[test]
fn a_flush_held_back_goes_out_before_a_graceful_close() {
    let mut channel = embedded(|p| {
        p.add_duplex("flush", FlushConsolidation::every(256))
            .add("bye", bye())
    });
    channel.receive("x");
    assert_eq!(channel.sent(), "bye");
    assert!(!channel.is_open());
}

/// Replies and closes during a read.
fn bye() -> Acts {
    Acts::on_read(|_, ctx| {
        ctx.write("bye");
        ctx.close_when_flushed();
    })
}

#[test]
fn logging_writes_every_event() {
    let (log, own) = Log::pair();
    let tell = Logging::new(move |line: &str| own.push(line.lines().next().unwrap().to_owned()));
    let mut channel = embedded(|p| p.add_duplex("log", tell));
    channel.receive("abc");
    channel.channel().write_and_flush("de");
    channel.run();
    channel.close();
    assert_eq!(
        log.take(),
        [
            "active",
            "read 3 bytes",
            "write 2 bytes",
            "flush",
            "close",
            "inactive"
        ]
    );
}

fn proxied(header: &[u8], cut: usize) -> (Option<ProxiedPeer>, Vec<Bytes>, bool) {
    let mut channel = embedded(|p| p.add("proxy", ProxyProtocol::new()));
    let whole = [header, b"rest"].concat();
    let (one, two) = whole.split_at(cut.min(whole.len()));
    for part in [one, two] {
        if !part.is_empty() {
            channel.receive(part.to_vec());
        }
    }
    let peer = channel.channel().attribute::<ProxiedPeer>();
    (peer, frames(&mut channel), channel.is_open())
}

#[test]
fn both_versions_of_the_proxy_protocol_report_the_client_address() {
    let mut binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f".to_vec();
    binary.extend([192, 0, 2, 1, 192, 0, 2, 9, 0x0f, 0xa0, 1, 0xbb, 1, 2, 3]);
    let text = b"PROXY TCP4 192.0.2.1 192.0.2.9 4000 443\r\n".to_vec();
    for header in [binary, text] {
        for cut in 0..=header.len() {
            let (peer, rest, open) = proxied(&header, cut);
            let (source, destination) = peer.unwrap().addresses.unwrap();
            assert_eq!(source, "192.0.2.1:4000".parse().unwrap());
            assert_eq!(destination, "192.0.2.9:443".parse().unwrap());
            assert_eq!(rest.concat(), b"rest", "cut at {cut}");
            assert!(open);
        }
    }
    let six = b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n";
    let (peer, ..) = proxied(six, 0);
    assert!(peer.unwrap().addresses.unwrap().0.is_ipv6());
    for silent in [
        &b"PROXY UNKNOWN whatever\r\n"[..],
        b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    ] {
        let (peer, rest, _) = proxied(silent, 3);
        assert_eq!(peer, Some(ProxiedPeer { addresses: None }));
        assert_eq!(rest.concat(), b"rest");
    }
}

#[test]
fn a_header_that_is_none_ends_the_connection() {
    let long = [&b"PROXY TCP4 "[..], &[b'1'; 200]].concat();
    for garbage in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
        b"PROXY TCP4 ::1 ::2 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 99999\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x01x",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
        &long,
    ] {
        let (peer, rest, open) = proxied(garbage, 0);
        assert_eq!((peer, rest.len(), open), (None, 0, false), "{garbage:?}");
    }
}

#[test]
fn a_connection_that_ends_within_its_proxy_header_fails() {
    for (header, is_error) in [
        ("", false),
        ("PROXY TCP4 192.0", true),
        ("PROXY UNKNOWN\r\n", false),
    ] {
        let mut channel =
            EmbeddedChannel::with_options(half_closure(), |p| p.add("proxy", ProxyProtocol::new()))
                .unwrap();
        channel.receive(header);
        channel.end_input();
        let errors = channel.errors();
        assert_eq!(errors.len(), usize::from(is_error), "{header}: {errors:?}");
        assert_eq!(channel.is_open(), !is_error, "{header}");
    }
}

#[test]
fn flow_control_passes_one_message_for_each_wish_and_all_once_reading_is_free() {
    let mut channel = EmbeddedChannel::with_options(no_auto_read(), |p| {
        p.add("lines", LineFrames::max(80))
            .add_duplex("flow", FlowControl::new())
    })
    .unwrap();
    let handle = channel.channel();
    channel.receive("one\ntwo\nthree\nfour\nfi");
    assert!(frames(&mut channel).is_empty(), "not requested");
    for wish in ["one", "two"] {
        handle.read();
        channel.run();
        assert_eq!(frames(&mut channel), [wish]);
    }
    handle.set_auto_read(true);
    channel.run();
    assert_eq!(frames(&mut channel), ["three", "four"]);
    handle.set_auto_read(false);
    channel.run();
    // A partial message does not satisfy the request: the channel keeps reading.
    handle.read();
    channel.run();
    channel.receive("v");
    assert!(frames(&mut channel).is_empty());
    channel.receive("e\nsix\n");
    assert_eq!(frames(&mut channel), ["five"]);
    drop(handle.change(|| PipelineChange::remove("flow")));
    channel.run();
    assert_eq!(frames(&mut channel), ["six"], "what it held is not lost");
}

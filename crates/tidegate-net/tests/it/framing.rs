//! Frames in unusual circumstances: extreme limits, decoders that are removed in the middle of a
//! stream, writes that are cancelled or refused.

use bytes::Bytes;
use tidegate_net::handlers::{
    DelimiterFrames, FixedFrames, LengthField, LengthFrames, LengthPrefix, LineFrames,
    ProxyProtocol,
};
use tidegate_net::{
    EmbeddedChannel, Handler, NetError, Outbound, OutboundContext, PipelineBuilder, PipelineChange,
};
use tidegate_testkit::Log;

use crate::acts::Acts;
use crate::handlers::{embedded, frames, same_however_it_is_cut};
use crate::marks;

/// Logs errors, so that they do not close the channel.
fn errors(log: Log<String>) -> Acts {
    Acts::on_read(|bytes, ctx| ctx.fire_read(bytes)).on_error(move |why, _| {
        let why = why.downcast_ref::<NetError>().unwrap();
        log.push(why.to_string());
    })
}

#[test]
fn a_limit_may_be_as_large_as_numbers_are() {
    same_however_it_is_cut(b"one\ntwo\n", &[b"one", b"two"], |p| {
        p.add("lines", LineFrames::max(usize::MAX))
    });
    same_however_it_is_cut(b"one||two||", &[b"one", b"two"], |p| {
        p.add("frames", DelimiterFrames::new(["||"], usize::MAX).unwrap())
    });
    same_however_it_is_cut(b"\0\x01a", &[b"a"], |p| {
        let field = LengthField::u16();
        p.add("frames", LengthFrames::new(field, usize::MAX).unwrap())
    });
}

#[test]
fn the_delimiter_that_is_whole_first_counts_however_the_stream_is_cut() {
    same_however_it_is_cut(b"a\r\nb\nc\r\rd", &[b"a", b"b"], |p| {
        p.add("frames", DelimiterFrames::new(["\n", "\r\n"], 20).unwrap())
    });
    same_however_it_is_cut(b"xabcy..zbc", &[b"x", b"y..z"], |p| {
        p.add("frames", DelimiterFrames::new(["abc", "bc"], 20).unwrap())
    });
    // Whether these were found would depend on where the stream is split.
    for hidden in [[";", ";;"], ["abc", "b"]] {
        let why = DelimiterFrames::new(hidden, 20).unwrap_err();
        assert!(why.to_string().contains("never found"), "{why}");
    }
}

#[test]
fn a_delimiter_is_found_across_many_reads_and_after_a_frame_that_is_too_long() {
    let (log, own) = Log::pair();
    let delimiter = DelimiterFrames::new(["<end>", "|"], 6).unwrap();
    let mut channel = embedded(|p| p.add("frames", delimiter).add("errors", errors(own)));
    for byte in b"one<end>far too long<en<end>two|<e<end>" {
        channel.receive(vec![*byte]);
    }
    assert_eq!(frames(&mut channel), ["one", "two", "<e"]);
    assert_eq!(log.take().len(), 1);
}

#[test]
fn lengths_of_every_width_in_both_orders_with_adjustments() {
    for size in [1, 2, 3, 4, 8] {
        for little_endian in [false, true] {
            for (offset, adjust) in [(0, 0), (3, 0), (0, -2), (3, 2), (1, i64::MIN + 300)] {
                let field = LengthField {
                    offset,
                    size,
                    little_endian,
                    adjust,
                    strip: offset + size,
                };
                let message = i128::from(5_i64) - i128::from(adjust);
                let fits = u64::try_from(message)
                    .is_ok_and(|message| size == 8 || message < 1 << (8 * size));
                if !fits {
                    continue;
                }
                let message = u64::try_from(message).unwrap();
                let mut stream = vec![b'h'; offset];
                match little_endian {
                    true => stream.extend(&message.to_le_bytes()[..size]),
                    false => stream.extend(&message.to_be_bytes()[8 - size..]),
                }
                stream.extend(b"hello");
                same_however_it_is_cut(&stream.repeat(2), &[b"hello", b"hello"], |p| {
                    p.add("frames", LengthFrames::new(field, 40).unwrap())
                });
            }
        }
    }
}

#[test]
fn lengths_at_the_end_of_numbers_are_errors_and_no_panics() {
    for (adjust, message, expected) in [
        (i64::MAX, u64::MAX, "18446744073709551615 bytes"),
        (0, u64::MAX, "at most 40"),
        (i64::MIN, 0, "violates the protocol"),
        (i64::MIN, u64::MAX, "at most 40"),
        (-1, 0, "violates the protocol"),
    ] {
        let field = LengthField {
            size: 8,
            adjust,
            ..LengthField::u32()
        };
        let frames = LengthFrames::new(field, 40).unwrap();
        let mut channel = embedded(|p| p.add("frames", frames));
        channel.receive(message.to_be_bytes().to_vec());
        let errors = channel.errors();
        assert!(errors[0].to_string().contains(expected), "{errors:?}");
        assert!(!channel.is_open());
    }
}

#[test]
fn a_field_beyond_the_longest_frame_is_refused() {
    let far = LengthField {
        offset: 40,
        ..LengthField::u16()
    };
    let stripped = LengthField {
        strip: 41,
        ..LengthField::u16()
    };
    for field in [far, stripped] {
        let why = LengthFrames::new(field, 40).unwrap_err();
        assert!(why.to_string().contains("length field"), "{why}");
    }
    assert!(LengthFrames::new(far, 42).is_ok());
}

/// Removes the decoder before it after the first frame.
fn upgrades(name: &'static str) -> Acts {
    Acts::on_read(move |bytes, ctx| {
        let last = bytes == "up";
        ctx.fire_read(bytes);
        if last {
            ctx.change(PipelineChange::remove(name)).unwrap();
        }
    })
}

#[test]
fn a_decoder_that_is_taken_out_passes_on_what_it_holds() {
    fn check(
        add: impl Fn(PipelineBuilder) -> PipelineBuilder,
        stream: &'static [u8],
        rest: &'static [u8],
    ) {
        let mut channel = embedded(|p| add(p).add("upgrades", upgrades("frames")));
        channel.receive(stream);
        channel.receive("more");
        let got = frames(&mut channel);
        assert_eq!(got.concat(), [b"up", rest, b"more"].concat());
        assert_eq!(got[0], "up");
        assert_eq!(channel.names(), ["upgrades"]);
    }
    check(
        |p| p.add("frames", LineFrames::max(20)),
        b"up\nrest",
        b"rest",
    );
    let frames_of_two = || FixedFrames::of(2).unwrap();
    check(|p| p.add("frames", frames_of_two()), b"upr", b"r");
    let counted = || LengthFrames::new(LengthField::u16(), 20).unwrap();
    check(
        |p| p.add("frames", counted()),
        b"\0\x02up\0\x0aab",
        b"\0\x0aab",
    );
    let delimited = || DelimiterFrames::new(["||", ";"], 20).unwrap();
    check(|p| p.add("frames", delimited()), b"up;ab|", b"ab|");
}

#[test]
fn what_would_overtake_frames_that_are_under_way_is_an_error() {
    let assemble = |p: PipelineBuilder| {
        p.add("frames", LineFrames::max(20))
            .add("upgrades", upgrades("frames"))
    };
    let mut channel = embedded(assemble);
    channel.receive("up\ntwo\nrest");
    assert_eq!(frames(&mut channel), ["up"]);
    let errors = channel.errors();
    assert!(errors[0].to_string().contains("4 bytes"), "{errors:?}");
    assert!(!channel.is_open());
    // A change through the handle runs when no frame is on its way.
    let mut channel = embedded(assemble);
    channel.receive("one\ntwo\nrest");
    drop(
        channel
            .channel()
            .change(|| PipelineChange::remove("frames")),
    );
    channel.run();
    assert_eq!(frames(&mut channel), ["one", "two", "rest"]);
}

#[test]
fn undecoded_bytes_go_to_the_replacing_handler_and_are_dropped_at_the_end() {
    let mut channel = embedded(|p| p.add("frames", LineFrames::max(20)));
    channel.receive("one\ntw");
    let other = || Handler::inbound(DelimiterFrames::new([";"], 20).unwrap());
    drop(
        channel
            .channel()
            .change(move || PipelineChange::replace("frames", "others", other())),
    );
    channel.run();
    channel.receive("o;rest");
    assert_eq!(frames(&mut channel), ["one", "two"]);
    channel.close();
    assert!(frames(&mut channel).is_empty(), "part of a frame is none");

    let mut channel = embedded(|p| p.add("proxy", ProxyProtocol::new()));
    channel.receive("PROX");
    drop(channel.channel().change(|| PipelineChange::remove("proxy")));
    channel.run();
    assert_eq!(frames(&mut channel), ["PROX"]);
}

#[test]
fn the_rest_of_a_frame_that_was_given_up_is_not_passed_on() {
    let (log, own) = Log::pair();
    let frames_of = DelimiterFrames::new(["<end>"], 4).unwrap();
    let mut channel = embedded(|p| p.add("frames", frames_of).add("errors", errors(own)));
    channel.receive("much too long<e");
    assert_eq!(log.take().len(), 1);
    drop(
        channel
            .channel()
            .change(|| PipelineChange::remove("frames")),
    );
    channel.run();
    assert!(frames(&mut channel).is_empty());
}

#[test]
fn a_frame_that_is_cancelled_or_refused_leaves_no_length_behind() {
    let prefix = || LengthPrefix::new(LengthField::u16()).unwrap();
    let assemble = |p: PipelineBuilder| p.add_outbound("prefix", prefix());
    let mut channel = EmbeddedChannel::with_options(marks(100, 200, 1_000), assemble).unwrap();
    let handle = channel.channel();
    let cancelled = handle.write_with("cancelled");
    channel.run();
    assert!(cancelled.cancel());
    channel.set_room(Some(0));
    let first = handle.write_with(vec![b'x'; 500]);
    let refused = handle.write_with(vec![b'y'; 300]);
    handle.flush();
    channel.run();
    let why = refused.wait().unwrap_err();
    assert!(why.to_string().contains("cap"), "{why}");
    channel.set_room(None);
    first.wait().unwrap();
    handle.write_and_flush("end");
    channel.run();
    let expected = [&[1, 244][..], &[b'x'; 500], b"\0\x03end"].concat();
    assert_eq!(channel.sent(), expected);
}

/// Writes a header, and then the message itself.
struct HeadAndBody;

impl Outbound for HeadAndBody {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, body: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(format!("{}:", body.len()));
        ctx.write(body);
    }
}

#[test]
fn what_a_handler_made_several_of_goes_out_as_a_whole_or_not_at_all() {
    let mut channel = embedded(|p| p.add_outbound("head and body", HeadAndBody));
    let handle = channel.channel();
    let begun = handle.write_with("body");
    // A write alone does not wake the event loop; the next other request does.
    handle.set_auto_read(true);
    channel.run();
    assert!(!begun.cancel(), "its head is on its way");
    handle.flush();
    channel.run();
    begun.wait().unwrap();
    assert_eq!(channel.sent(), "4:body");
}

#[test]
fn a_length_below_zero_cannot_be_written() {
    let field = LengthField {
        adjust: 5,
        ..LengthField::u16()
    };
    let mut channel = embedded(|p| p.add_outbound("prefix", LengthPrefix::new(field).unwrap()));
    let refused = channel.channel().write_with("four");
    channel.channel().write_and_flush("longer");
    channel.run();
    let why = refused.wait().unwrap_err().to_string();
    assert!(why.contains("below zero"), "{why}");
    assert_eq!(channel.sent(), "\0\x01longer");
}

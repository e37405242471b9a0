//! Decoders with random and mutated input in random pieces: the pieces do not change the result,
//! and nothing panics.

use bytes::Bytes;
use tidegate_net::handlers::{
    DelimiterFrames, FixedFrames, LengthField, LengthFrames, LineFrames, ProxyProtocol, Strings,
};
use tidegate_net::{EmbeddedChannel, NetError, PipelineBuilder};
use tidegate_testkit::{Log, Rng, model, short_or_long};

use crate::acts::Acts;

/// The output of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Out {
    Frame(Bytes),
    TooLong,
    Garbage,
    /// Any output that must not occur.
    Other(String),
}

/// Logs the output of the decoder before it, and handles errors so that the channel stays open.
fn collects(log: Log<Out>) -> Acts {
    let in_read = log.clone();
    Acts::on_read(move |frame, _| in_read.push(Out::Frame(frame))).on_error(move |why, _| {
        let out = match why.downcast_ref::<NetError>() {
            Some(NetError::FrameTooLong { .. }) => Out::TooLong,
            Some(NetError::ProtocolViolation(_)) => Out::Garbage,
            _ => Out::Other(why.to_string()),
        };
        log.push(out);
    })
}

/// Feeds `pieces` to the decoder that `add` adds, and returns its output.
fn decode(
    add: fn(PipelineBuilder) -> PipelineBuilder,
    pieces: impl IntoIterator<Item = Bytes>,
) -> Vec<Out> {
    let log = Log::new();
    let end = collects(log.clone());
    let mut channel = EmbeddedChannel::new(|p| add(p).add("end", end)).unwrap();
    for piece in pieces {
        channel.write_inbound(piece);
    }
    assert!(channel.is_open() && channel.errors().is_empty());
    log.take()
}

/// Splits `bytes` into pieces of up to `most` bytes.
fn cut(rng: &mut Rng, mut bytes: Bytes, most: usize) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let size = (1 + rng.index(most)).min(bytes.len());
        pieces.push(bytes.split_to(size));
    }
    pieces
}

/// Generates input from some `words`, some noise, and a few changed, missing and doubled bytes.
fn input(rng: &mut Rng, words: &[&[u8]]) -> Bytes {
    let mut bytes = Vec::new();
    for _ in 0..rng.index(12) {
        if rng.chance(0.7) {
            bytes.extend_from_slice(words[rng.index(words.len())]);
        } else {
            let noise = (0..rng.index(20)).map(|_| rng.next_u64() as u8);
            bytes.extend(noise.collect::<Vec<_>>());
        }
    }
    for _ in 0..rng.index(4) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.index(bytes.len());
        match rng.below(3) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, bytes[at]),
        }
    }
    bytes.into()
}

/// Checks a decoder with many inputs. `join` makes two outputs comparable.
fn check(
    add: fn(PipelineBuilder) -> PipelineBuilder,
    words: &[&[u8]],
    join: fn(Vec<Out>) -> Vec<Out>,
) {
    model(0..short_or_long(40, 5_000), |rng| {
        let bytes = input(rng, words);
        let whole = join(decode(add, [bytes.clone()]));
        let strange = whole.iter().find(|out| matches!(out, Out::Other(_)));
        assert_eq!(strange, None);
        for most in [1, 3, 50] {
            let pieces = cut(rng, bytes.clone(), most);
            let in_pieces = join(decode(add, pieces));
            assert_eq!(in_pieces, whole, "{bytes:?} in pieces of up to {most}");
        }
    });
}

fn as_it_is(outs: Vec<Out>) -> Vec<Out> {
    outs
}

#[test]
fn lines_are_the_same_however_they_come() {
    let words: [&[u8]; 4] = [b"line\r\n", b"\n", b"a line that is too long\n", b"\r"];
    check(|p| p.add("", LineFrames::max(12)), &words, as_it_is);
}

#[test]
fn delimited_frames_are_the_same_however_they_come() {
    let add = |p: PipelineBuilder| p.add("", DelimiterFrames::new(["||", ";"], 12).unwrap());
    let words: [&[u8]; 5] = [
        b"one||",
        b"two;",
        b"|",
        b"||||",
        b"a frame that is too long;",
    ];
    check(add, &words, as_it_is);
}

#[test]
fn fixed_frames_are_the_same_however_they_come() {
    let add = |p: PipelineBuilder| p.add("", FixedFrames::of(7).unwrap());
    check(add, &[b"1234567", b"12"], as_it_is);
}

#[test]
fn frames_with_a_length_are_the_same_however_they_come() {
    let add = |p: PipelineBuilder| p.add("", LengthFrames::new(LengthField::u16(), 40).unwrap());
    let words: [&[u8]; 4] = [b"\0\x03abc", b"\0\0", b"\0\x30", b"\xff\xff"];
    check(add, &words, as_it_is);
    let add = |p: PipelineBuilder| {
        let field = LengthField {
            offset: 1,
            size: 3,
            little_endian: true,
            adjust: -4,
            strip: 2,
        };
        p.add("", LengthFrames::new(field, 40).unwrap())
    };
    let words: [&[u8]; 3] = [b"x\x07\0\0abc", b"x\0\0\0", b"x\xff\xff\xff"];
    check(add, &words, as_it_is);
}

#[test]
fn the_header_of_a_proxy_is_the_same_however_it_comes() {
    /// Joins adjacent frames: after the header the size of the pieces does not matter.
    fn joined(outs: Vec<Out>) -> Vec<Out> {
        let mut joined: Vec<Out> = Vec::new();
        for out in outs {
            match (joined.last_mut(), out) {
                (Some(Out::Frame(before)), Out::Frame(more)) => {
                    *before = [&before[..], &more[..]].concat().into();
                }
                (_, out) => joined.push(out),
            }
        }
        joined
    }
    let add = |p: PipelineBuilder| p.add("", ProxyProtocol::new());
    let words: [&[u8]; 4] = [
        b"PROXY TCP4 192.0.2.1 192.0.2.9 4000 443\r\n",
        b"PROXY UNKNOWN\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x09\x0f\xa0\x01\xbb",
        b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    ];
    for word in words {
        check(add, &[word], joined);
    }
}

#[test]
fn what_is_not_text_is_an_error_and_no_panic() {
    model(0..100, |rng| {
        let bytes = input(rng, &["grüezi".as_bytes(), b"\xf0\x9f", b"plain"]);
        let mut channel = EmbeddedChannel::new(|p| p.add_duplex("", Strings::utf8())).unwrap();
        channel.write_inbound(bytes.clone());
        let text = channel.read_inbound::<String>();
        assert_eq!(text, String::from_utf8(bytes.to_vec()).ok());
        assert_eq!(channel.errors().len(), usize::from(text.is_none()));
        let mut channel = EmbeddedChannel::new(|p| p.add_duplex("", Strings::lossy())).unwrap();
        channel.write_inbound(bytes.clone());
        let text = channel.read_inbound::<String>().unwrap();
        assert_eq!(text, String::from_utf8_lossy(&bytes));
    });
}

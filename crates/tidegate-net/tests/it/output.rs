//! Memory of the loop that handlers write into, and received memory that they give back.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_net::{
    EmbeddedChannel, Inbound, InboundContext, NetError, Nothing, Outbound, OutboundContext,
    PipelineBuilder,
};
use tidegate_promise::Failure;
use tidegate_testkit::{Log, Rng, model, short_or_long};

use crate::acts::Acts;
use crate::roaming::roaming;
use crate::{dial, group, marks, serve};

/// Does what the function says for each message, and flushes when the read is complete.
struct Does(fn(&Bytes, &mut InboundContext<'_, Does>));

impl Inbound for Does {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        (self.0)(&bytes, ctx);
        ctx.give_back(bytes);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

/// Writes each message back, in brackets.
fn brackets() -> Acts {
    Acts::on_read(|bytes, ctx| ctx.write([b"<", &bytes[..], b">"].concat()))
}

/// Logs the errors that reach it.
fn log_errors(log: Log<Failure>) -> Acts {
    Acts::on_read(|_, _| ()).on_error(move |why, _| log.push(why))
}

fn does(what: fn(&Bytes, &mut InboundContext<'_, Does>)) -> EmbeddedChannel {
    EmbeddedChannel::new(|p| p.add("does", Does(what))).unwrap()
}

fn writes(channel: &mut EmbeddedChannel) -> Vec<Bytes> {
    std::iter::from_fn(|| channel.read_outbound::<Bytes>()).collect()
}

#[test]
fn appended_bytes_are_one_write_until_another_operation() {
    let mut channel = does(|bytes, ctx| {
        ctx.output().extend_from_slice(b"a");
        ctx.output().extend_from_slice(bytes);
        ctx.write("c");
        ctx.output().extend_from_slice(b"d");
        ctx.flush();
        ctx.output().extend_from_slice(b"e");
    });
    for _ in 0..3 {
        channel.receive("b");
        assert_eq!(writes(&mut channel), ["ab", "c", "d", "e"]);
    }
    assert_eq!(channel.write_calls(), 3, "one for each read");
}

#[test]
fn an_output_without_bytes_is_no_write_and_one_without_a_flush_is_not_sent() {
    let mut channel = does(|_, ctx| {
        let _ = ctx.output();
        drop(ctx.flush_with());
        assert!(ctx.output().is_empty() && !ctx.has_unsent());
    });
    channel.receive("x");
    assert_eq!(channel.write_calls(), 0);
    fn lazy() -> Acts {
        Acts::on_read(|_, ctx| ctx.output().extend_from_slice(b"later"))
    }
    let mut channel = EmbeddedChannel::new(|p| p.add("lazy", lazy())).unwrap();
    channel.receive("x");
    assert!(channel.sent().is_empty() && channel.channel().pending_bytes() > 5);
    channel.channel().flush();
    channel.run();
    assert_eq!(channel.sent(), "later");
}

#[test]
fn ends_come_behind_the_output_that_was_begun_before_them() {
    let mut shut = does(|_, ctx| {
        ctx.output().extend_from_slice(b"bye");
        ctx.shutdown_output();
        ctx.output().extend_from_slice(b"too late");
    });
    shut.receive("x");
    assert!(shut.is_output_shut() && shut.is_open());
    assert_eq!(shut.sent(), "bye");
    let mut closed = does(|_, ctx| {
        ctx.output().extend_from_slice(b"bye");
        ctx.close_when_flushed();
        ctx.output().extend_from_slice(b"too late");
    });
    closed.receive("x");
    assert!(!closed.is_open());
    assert_eq!(closed.sent(), "bye");
}

#[test]
fn what_other_handlers_write_for_an_event_keeps_its_place_between_two_outputs() {
    let first = |bytes: &Bytes, ctx: &mut InboundContext<'_, Does>| {
        ctx.output().extend_from_slice(b"1");
        ctx.fire_read(bytes.clone());
        ctx.output().extend_from_slice(b"3");
        ctx.fire_read(bytes.clone());
        ctx.fire_read(bytes.clone());
        ctx.output().extend_from_slice(b"6");
    };
    let assemble = |p: PipelineBuilder| p.add("does", Does(first)).add("next", brackets());
    let mut channel = EmbeddedChannel::new(assemble).unwrap();
    channel.receive("x");
    assert_eq!(channel.sent(), "1<x>3<x><x>6");
    assert_eq!(channel.channel().pending_bytes(), 0);
}

#[test]
fn a_panic_drops_what_is_not_a_write_yet() {
    let panics = |bytes: &Bytes, ctx: &mut InboundContext<'_, Does>| {
        ctx.output().extend_from_slice(b"whole");
        ctx.write("|");
        ctx.output().extend_from_slice(b"half");
        assert_ne!(bytes, "panic", "on purpose");
    };
    let (log, own) = Log::pair();
    let assemble = |p: PipelineBuilder| p.add("does", Does(panics)).add("errors", log_errors(own));
    let mut channel = EmbeddedChannel::new(assemble).unwrap();
    for _ in 0..2 {
        channel.receive("panic");
        assert_eq!(channel.sent(), "whole|");
        assert!(log.take()[0].is_panic());
        channel.receive("go on");
        assert_eq!(channel.sent(), "whole|half");
    }
    assert!(channel.is_open() && log.is_empty());
}

#[test]
fn an_output_above_the_high_mark_is_taken_and_above_the_cap_refused() {
    let (log, own) = Log::pair();
    let fill = |bytes: &Bytes, ctx: &mut InboundContext<'_, Does>| {
        let size = bytes.len() * 1_000;
        ctx.output().resize(size, b'x');
    };
    let assemble = |p: PipelineBuilder| p.add("does", Does(fill)).add("errors", log_errors(own));
    let mut channel = EmbeddedChannel::with_options(marks(500, 1_000, 20_000), assemble).unwrap();
    channel.set_room(Some(0));
    for size in [1, 12, 30] {
        channel.receive(vec![0; size]);
        assert!(!channel.channel().is_writable());
    }
    let why = log.take();
    let refused = why[0].downcast_ref::<NetError>();
    assert!(
        matches!(refused, Some(NetError::WriteQueueFull { .. })),
        "{why:?}"
    );
    channel.set_room(Some(500));
    channel.set_room(None);
    assert_eq!(channel.sent().len(), 13_000);
    assert!(channel.channel().is_writable() && channel.channel().pending_bytes() == 0);
    channel.receive("x");
    assert_eq!(channel.sent().len(), 1_000);
}

#[test]
fn an_outbound_handler_writes_into_it_and_the_promise_is_that_of_its_last_write() {
    struct Quote;
    impl Outbound for Quote {
        type Take = Bytes;
        type Write = Bytes;
        fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
            ctx.output().extend_from_slice(b"'");
            ctx.write(bytes);
            ctx.output().extend_from_slice(b"'");
        }
    }
    let mut channel = EmbeddedChannel::new(|p| p.add_outbound("quote", Quote)).unwrap();
    channel.set_room(Some(0));
    let sent = channel.channel().write_and_flush_with("text");
    channel.run();
    channel.set_room(Some(5));
    assert!(!sent.is_done(), "the last quote is missing");
    channel.set_room(None);
    sent.wait().unwrap();
    assert_eq!(channel.sent(), "'text'");
}

#[test]
fn a_closed_channel_takes_no_output_and_leaves_none_behind() {
    struct Late;
    impl Inbound for Late {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            ctx.output().extend_from_slice(&bytes);
            ctx.flush();
        }
        fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
            ctx.output().extend_from_slice(b"too late");
            ctx.flush();
        }
        fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
            ctx.output().extend_from_slice(b"much too late");
        }
    }
    let mut channel = EmbeddedChannel::new(|p| p.add("late", Late)).unwrap();
    channel.set_room(Some(2));
    channel.receive("unsent");
    channel.close();
    assert_eq!(channel.sent(), "un");
    assert_eq!(channel.channel().pending_bytes(), 0);
}

/// Returns the byte as two digits.
fn digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]
}

/// Appends each received byte as two digits.
fn hex(bytes: &Bytes, ctx: &mut InboundContext<'_, Does>) {
    for byte in bytes {
        ctx.output().extend_from_slice(&digits(*byte));
    }
}

#[test]
fn sockets_of_pinned_and_roaming_loops_send_what_was_appended() {
    let exchange = |server: &tidegate_net::Server| {
        let mut streams: Vec<_> = (0..10).map(|_| dial(server)).collect();
        for size in [1, 300, 5_000, 100_000] {
            let sent: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let expected: Vec<_> = sent.iter().flat_map(|byte| digits(*byte)).collect();
            for stream in &mut streams {
                let own = stream.try_clone().unwrap();
                let back = answer(stream, own, &sent);
                assert!(back == expected, "{size} bytes");
            }
        }
    };
    let pinned = group(1);
    let server = serve(&pinned, |p| p.add("hex", Does(hex)));
    exchange(&server);
    let (_pool, roams) = roaming(2);
    let server = serve(&roams, |p| p.add("hex", Does(hex)));
    exchange(&server);
}

/// Sends `bytes` while it reads the answer, which has twice as many.
fn answer(
    reader: &mut std::net::TcpStream,
    mut writer: std::net::TcpStream,
    bytes: &[u8],
) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut back = vec![0; 2 * bytes.len()];
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(bytes).unwrap());
        reader.read_exact(&mut back).unwrap();
    });
    back
}

#[cfg(feature = "tls")]
#[test]
fn with_tls_in_front_it_is_a_write_like_any_other() {
    use crate::tls::{Authority, Pair, whole};
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.server =
        EmbeddedChannel::new(|p| p.add_duplex("tls", server.handler()).add("hex", Does(hex)))
            .unwrap();
    pair.run();
    for _ in 0..3 {
        pair.client.channel().write_and_flush("0!");
        pair.client.run();
        pair.run();
        assert_eq!(whole(&mut pair.client), "3021");
    }
}

/// Carries out operations that a test chose, and records the bytes that they write.
struct Script(Arc<dyn Fn() -> Vec<u8> + Send + Sync>);

impl Inbound for Script {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
        for operation in (self.0)() {
            match operation % 8 {
                0..=3 => ctx.output().extend_from_slice(&[operation]),
                4 => ctx.write(vec![operation]),
                5 => ctx.fire_read(vec![operation]),
                6 => ctx.flush(),
                _ => drop(ctx.write_and_flush_with(vec![operation])),
            }
        }
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

/// Writes back what it reads.
fn back() -> Acts {
    Acts::on_read(|bytes, ctx| {
        ctx.output().extend_from_slice(&bytes);
        ctx.give_back(bytes);
    })
}

/// Passes writes on, into memory of its own.
struct Copies;

impl Outbound for Copies {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        ctx.output().extend_from_slice(&bytes);
        ctx.give_back(bytes);
    }
}

#[test]
fn whatever_a_handler_does_the_bytes_are_sent_in_the_order_of_its_calls() {
    model(0..short_or_long(300, 5_000), |rng: &mut Rng| {
        let operations: Vec<u8> = (0..rng.below(12)).map(|_| rng.below(256) as u8).collect();
        let expected: Vec<u8> = operations
            .iter()
            .copied()
            .filter(|operation| operation % 8 != 6)
            .collect();
        let own = operations.clone();
        let script = Script(Arc::new(move || own.clone()));
        let copies = rng.below(2) == 0;
        let mut channel = EmbeddedChannel::new(|p| {
            let p = match copies {
                true => p.add_outbound("copies", Copies),
                false => p,
            };
            p.add("script", script).add("back", back())
        })
        .unwrap();
        for _ in 0..2 {
            channel.receive("x");
            assert_eq!(channel.sent(), expected, "{operations:?}");
        }
        assert_eq!(channel.channel().pending_bytes(), 0);
    });
}

//! Random operations on a channel without a socket, checked against the invariants of every
//! channel.

use bytes::Bytes;
use tidegate_net::{
    AnyMessage, ChannelOptions, EmbeddedChannel, Handler, Inbound, InboundContext, Nothing,
    Outbound, OutboundContext, PipelineChange, ReadSize, WaterMarks,
};
use tidegate_promise::Failure;
use tidegate_testkit::{Counter, Rng, model, short_or_long};

use crate::Echo;

/// Passes everything on, and panics if a message requests it.
struct Passes;

impl Inbound for Passes {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        assert!(!bytes.starts_with(b"!"), "on purpose");
        ctx.fire_read(bytes);
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        if !why.is_panic() {
            ctx.fire_error(why);
        }
    }
}

impl Outbound for Passes {
    type Take = AnyMessage;
    type Write = AnyMessage;

    fn write(&mut self, message: AnyMessage, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(message);
    }
}

fn options(rng: &mut Rng) -> ChannelOptions {
    ChannelOptions {
        read_size: ReadSize::bounded(1, 1 + rng.below(64) as u32, 4096).unwrap(),
        marks: WaterMarks::new(500, 1000, 1 << 20).unwrap(),
        write_spin: 1 + rng.index(4),
        ..ChannelOptions::default()
    }
}

/// What is received is sent back in order and once, whatever else happens. Every write completes
/// once. At the end nothing is counted as pending.
#[test]
fn random_operations_lose_nothing_and_end_everything_once() {
    model(0..short_or_long(200, 2_000), |rng| {
        let assemble =
            |p: tidegate_net::PipelineBuilder| p.add_duplex("base", Passes).add("echo", Echo);
        let mut channel = EmbeddedChannel::with_options(options(rng), assemble).unwrap();
        let handle = channel.channel();
        let (mut expected, mut sent) = (0_usize, 0_usize);
        let (asked, ended) = (Counter::new(), Counter::new());
        let mut extra = 0_u32;
        for _ in 0..60 {
            match rng.below(14) {
                0..=2 => {
                    let size = 1 + rng.index(300);
                    channel.receive(vec![b'a'; size]);
                    expected += size;
                }
                3 => channel.set_room(Some(rng.index(200))),
                4 => channel.set_room(None),
                5 => {
                    asked.hit();
                    let count = ended.clone();
                    handle
                        .write_with(vec![b'b'; rng.index(100)])
                        .finally(move |_| {
                            count.hit();
                        });
                }
                6 => handle.flush(),
                7 => {
                    extra += 1;
                    let name = format!("extra {extra}");
                    let change = move || PipelineChange::add_first(name, Handler::duplex(Passes));
                    drop(handle.change(change));
                }
                8 => {
                    let name = format!("extra {}", rng.below(5));
                    drop(handle.change(move || PipelineChange::remove(name)));
                }
                9 => drop(handle.deregister()),
                10 => drop(handle.register()),
                11 => handle.set_auto_read(rng.below(2) == 0),
                12 => {
                    let flag = 1 + rng.below(31) as u8;
                    handle.set_user_writable(flag, rng.below(2) == 0);
                }
                _ => channel.write_inbound(Bytes::from_static(b"!panics")),
            }
            channel.run();
            sent += count_a(&channel.sent());
            assert!(sent <= expected && channel.is_open());
        }
        let ends_early = rng.below(4) == 0;
        if !ends_early {
            handle.set_auto_read(true);
            drop(handle.register());
            channel.set_room(None);
            handle.flush();
            channel.run();
            sent += count_a(&channel.sent());
            assert_eq!(sent, expected);
            assert_eq!(ended.count(), asked.count());
            assert_eq!(handle.pending_bytes(), 0);
        }
        channel.close();
        assert!(handle.closed().is_done());
        assert_eq!(ended.count(), asked.count(), "sent or failed, once each");
    });
}

fn count_a(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'a').count()
}

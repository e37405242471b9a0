//! Messages that are not bytes count for the size that their types state.

use bytes::Bytes;
use tidegate_net::{
    EmbeddedChannel, Inbound, InboundContext, Message, NetError, Nothing, Outbound, OutboundContext,
};
use tidegate_testkit::Log;

use crate::marks;

/// A message that is encoded as this number of zero bytes.
struct Zeros(usize);

impl Message for Zeros {
    fn size(&self) -> usize {
        self.0
    }
}

/// Encodes the zeros.
struct Encode;

impl Outbound for Encode {
    type Take = Zeros;
    type Write = Bytes;

    fn write(&mut self, Zeros(count): Zeros, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(vec![0; count]);
    }
}

/// Replies with zeros, and logs after each reply whether the channel is writable.
struct Replies(Log<bool>);

impl Inbound for Replies {
    type In = Bytes;
    type Out = Nothing;
    type Write = Zeros;

    fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
        for _ in 0..3 {
            ctx.write(Zeros(900));
            self.0.push(ctx.is_writable());
        }
        ctx.flush();
    }
}

#[test]
fn a_message_from_another_thread_counts_for_the_size_that_its_type_states() {
    let assemble = |p: tidegate_net::PipelineBuilder| p.add_outbound("encode", Encode);
    let mut embedded = EmbeddedChannel::with_options(marks(1000, 2000, 10_000), assemble).unwrap();
    let channel = embedded.channel();
    let sent = channel.write_with(Zeros(5000));
    assert!(channel.pending_bytes() >= 5000 && !channel.is_writable());
    let refused = channel.write_with(Zeros(6000));
    let why = refused.wait().unwrap_err().failure().unwrap();
    let why = why.downcast_ref::<NetError>();
    assert!(
        matches!(why, Some(NetError::WriteQueueFull { .. })),
        "{why:?}"
    );
    channel.flush();
    embedded.run();
    sent.wait().unwrap();
    assert_eq!(embedded.sent().len(), 5000);
    assert!(channel.is_writable() && channel.pending_bytes() == 0);
}

#[test]
fn a_message_of_a_handler_counts_before_it_has_become_bytes() {
    let (log, own) = Log::pair();
    let mut embedded = EmbeddedChannel::with_options(marks(1000, 2000, 10_000), |p| {
        let p = p.add_outbound("encode", Encode);
        p.add("answers", Replies(own))
    })
    .unwrap();
    embedded.receive("?");
    assert_eq!(log.take(), [true, true, false]);
    assert_eq!(embedded.sent().len(), 2700);
    assert_eq!(embedded.channel().pending_bytes(), 0);
}

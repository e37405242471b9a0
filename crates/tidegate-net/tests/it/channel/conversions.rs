//! What a handle writes gets the type that the handler or the socket takes.

use std::io::Read;
use std::net::TcpListener;

use bytes::{Bytes, BytesMut};
use tidegate_net::handlers::Strings;
use tidegate_net::{
    AnyMessage, Client, EmbeddedChannel, Message, Outbound, OutboundContext, PipelineBuilder,
};

use crate::group;

#[test]
fn text_stays_text_for_a_handler_that_takes_it() {
    let text = |p: PipelineBuilder| p.add_duplex("text", Strings::utf8());
    let mut channel = EmbeddedChannel::new(text).unwrap();
    let handle = channel.channel();
    handle.write("a literal, ");
    handle.write("a string, ".to_owned());
    let last = handle.write_and_flush_with(Box::<str>::from("a box"));
    channel.run();
    last.wait().unwrap();
    assert_eq!(channel.sent(), "a literal, a string, a box");
}

/// Returns what a peer receives when `write` writes to a channel with these handlers.
fn received(
    assemble: impl Fn(PipelineBuilder) -> PipelineBuilder + Send + Sync + 'static,
    write: impl FnOnce(&tidegate_net::Channel),
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let group = group(1);
    let client = Client::builder(&group).pipeline(assemble);
    let channel = client
        .connect(listener.local_addr().unwrap())
        .wait()
        .unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    write(&channel);
    channel.close_when_flushed().wait().unwrap();
    let mut text = String::new();
    peer.read_to_string(&mut text).unwrap();
    text
}

fn write_all(channel: &tidegate_net::Channel) {
    channel.write("a literal, ");
    channel.write("a string, ".to_owned());
    channel.write(Box::<str>::from("a box, "));
    channel.write(b"a slice, ".as_slice());
    channel.write(b"a vector, ".to_vec());
    channel.write(BytesMut::from("a buffer, "));
    channel.write(Box::<[u8]>::from(b"boxed bytes, ".as_slice()));
    channel
        .write_and_flush_with(Bytes::from("bytes"))
        .wait()
        .unwrap();
}

const ALL: &str = "a literal, a string, a box, a slice, a vector, a buffer, boxed bytes, bytes";

#[test]
fn text_and_binary_data_become_bytes_on_a_channel_without_handlers() {
    assert_eq!(received(|p| p, write_all), ALL);
    let mut embedded = EmbeddedChannel::new(|p| p).unwrap();
    let handle = embedded.channel();
    handle.write_and_flush("text".to_owned());
    embedded.run();
    assert_eq!(embedded.sent(), "text");
}

/// Passes everything on.
struct Passes;

impl Outbound for Passes {
    type Take = AnyMessage;
    type Write = AnyMessage;

    fn write(&mut self, message: AnyMessage, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(message);
    }
}

/// Takes a type of messages, and writes their bytes.
struct Takes<M>(std::marker::PhantomData<fn(M)>);

impl<M: Message + AsRef<[u8]>> Outbound for Takes<M> {
    type Take = M;
    type Write = Bytes;

    fn write(&mut self, message: M, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(Bytes::copy_from_slice(message.as_ref()));
    }
}

fn takes<M>() -> Takes<M> {
    Takes(std::marker::PhantomData)
}

#[test]
fn text_becomes_bytes_behind_handlers_that_pass_anything_or_take_bytes() {
    assert_eq!(
        received(|p| p.add_outbound("passes", Passes), write_all),
        ALL
    );
    let bytes = |p: PipelineBuilder| p.add_outbound("bytes", takes::<Bytes>());
    assert_eq!(received(bytes, write_all), ALL);
}

#[test]
fn binary_data_reaches_a_handler_that_takes_vectors_as_a_vector() {
    fn sent<M: Message + AsRef<[u8]>>(message: M) -> Bytes {
        let takes = takes::<M>();
        let mut channel = EmbeddedChannel::new(|p| p.add_outbound("takes", takes)).unwrap();
        channel.channel().write_and_flush(message);
        channel.run();
        assert!(channel.errors().is_empty());
        channel.sent()
    }
    assert_eq!(sent(b"a vector".to_vec()), "a vector");
    assert_eq!(sent(BytesMut::from("a buffer")), "a buffer");
    assert_eq!(sent(Box::<[u8]>::from(b"a box".as_slice())), "a box");
    assert_eq!(sent("a literal"), "a literal");
}

//! Messages for handlers on the loop of their channel, and for its socket.

use std::net::TcpListener;

use bytes::Bytes;
use tidegate_net::{
    AnyMessage, Client, EmbeddedChannel, Inbound, InboundContext, Message, NetGroup, Nothing,
    Outbound, OutboundContext, PipelineBuilder, UserEvent,
};
use tidegate_promise::Failure;
use tidegate_testkit::Log;

use super::{Note, Taker, calm};
use crate::pass::Pass;

#[test]
fn a_message_that_its_handler_does_not_take_is_handed_back() {
    let ends = Log::new();
    let mut embedded =
        EmbeddedChannel::new(|p| p.add_duplex("pass", Pass).add("calm", calm())).unwrap();
    let handle = embedded.channel();
    handle.write_and_flush(Note::new("plain", &ends));
    let written = handle.write_and_flush_with(Some(Box::new(Note::new("promised", &ends))));
    embedded.run();
    let expected = ["plain refused: wrong type", "promised refused: wrong type"];
    assert_eq!(ends.take(), expected);
    assert!(written.wait().is_err());
}

#[test]
fn a_message_that_the_socket_does_not_take_is_handed_back() {
    let group = NetGroup::builder("io").loops(1);
    let group = group.on_unhandled(|_, _| ()).build().unwrap();
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::builder(&group).build();
    let connected = client.connect(peer.local_addr().unwrap());
    let (channel, ends) = (connected.wait().unwrap(), Log::new());
    let written = channel.write_and_flush_with(Note::new("one", &ends));
    assert!(written.wait().is_err());
    channel.write_and_flush(Note::new("two", &ends));
    ends.wait_for(2);
    let expected = ["one refused: wrong type", "two refused: wrong type"];
    assert_eq!(ends.take(), expected);
}

#[test]
fn a_message_behind_the_end_of_the_output_is_handed_back() {
    let ends = Log::new();
    let mut embedded = EmbeddedChannel::new(|p| p).unwrap();
    let handle = embedded.channel();
    let shut = handle.shutdown_output();
    handle.write_and_flush(Note::new("plain", &ends));
    let written = handle.write_and_flush_with(Note::new("promised", &ends));
    embedded.run();
    shut.wait().unwrap();
    let expected = [
        "plain refused: output shut",
        "promised refused: output shut",
    ];
    assert_eq!(ends.take(), expected);
    assert!(written.wait().is_err());
}

#[test]
fn a_message_of_a_cancelled_write_is_handed_back() {
    let ends = Log::new();
    let mut embedded = EmbeddedChannel::new(|p| p).unwrap();
    let handle = embedded.channel();
    let again = handle.clone();
    let note = Note::new("one", &ends).then(move || again.flush());
    let written = handle.write_and_flush_with(note);
    assert!(written.cancel());
    embedded.run();
    assert_eq!(ends.len(), 1);
    assert!(ends.take()[0].starts_with("one refused: "));
    handle.write_and_flush(Note::new("two", &ends));
    embedded.run();
    embedded.read_outbound::<Note>().unwrap().handled();
    assert_eq!(ends.take(), ["two handled"]);
}

/// Fires an event for each flush.
struct Answers;

impl Outbound for Answers {
    type Take = AnyMessage;
    type Write = AnyMessage;

    fn write(&mut self, message: AnyMessage, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(message);
    }

    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.fire_event(UserEvent::new("again"));
    }
}

/// Flushes and writes a note for each event.
struct Asks(Log<String>);

impl Inbound for Asks {
    type In = Bytes;
    type Out = Nothing;
    type Write = Note;

    fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}

    fn event(&mut self, _: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
        ctx.write(Note::new("one", &self.0));
    }
}

#[test]
fn messages_of_handlers_that_answer_each_other_without_end_are_handed_back() {
    let ends = Log::new();
    let asks = Asks(ends.clone());
    let assemble = |p: PipelineBuilder| {
        let p = p
            .add_duplex("taker", Taker)
            .add_outbound("answers", Answers);
        p.add("asks", asks)
    };
    let mut embedded = EmbeddedChannel::new(assemble).unwrap();
    embedded.channel().fire_event("begin");
    embedded.run();
    assert!(!embedded.is_open());
    let ends = ends.take();
    assert!(ends.len() > 100, "{}", ends.len());
    assert!(ends.iter().all(|end| end == "one refused: cut"), "{ends:?}");
}

/// Keeps what is written until an event, and hands it back then.
struct Keeps(Vec<AnyMessage>);

impl Inbound for Keeps {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}

    fn event(&mut self, _: UserEvent, _: &mut InboundContext<'_, Self>) {
        for message in self.0.drain(..) {
            message.refused(Failure::new("no more"));
        }
    }
}

impl Outbound for Keeps {
    type Take = AnyMessage;
    type Write = AnyMessage;

    fn write(&mut self, message: AnyMessage, _: &mut OutboundContext<'_, Self>) {
        self.0.push(message);
    }
}

#[test]
fn a_handler_of_any_messages_can_hand_them_back() {
    let ends = Log::new();
    let mut embedded = EmbeddedChannel::new(|p| p.add_duplex("keeps", Keeps(Vec::new()))).unwrap();
    let handle = embedded.channel();
    handle.write_and_flush(Note::new("one", &ends));
    handle.write_and_flush("text");
    embedded.run();
    assert!(ends.is_empty());
    handle.fire_event("now");
    embedded.run();
    assert_eq!(ends.take(), ["one refused: no more"]);
}

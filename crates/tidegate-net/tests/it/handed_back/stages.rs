//! Messages for a handler on another executor.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::Executor;
use tidegate_net::{
    AnyMessage, ChannelOptions, EmbeddedChannel, Handler, Inbound, InboundContext, NetError,
    Nothing, Outbound, OutboundContext, PipelineBuilder, PipelineChange, UserEvent, WaterMarks,
};
use tidegate_promise::Failure;
use tidegate_testkit::{Log, explode};

use super::{Calm, Desk, Note, Submitted, Taker};
use crate::pass::Pass;

const CAP: usize = 1_000;

fn options() -> ChannelOptions {
    ChannelOptions {
        marks: WaterMarks::new(100, 200, CAP).unwrap(),
        ..ChannelOptions::default()
    }
}

/// Counts as many bytes as pending as an event says.
struct Holds;

impl Inbound for Holds {
    type In = AnyMessage;
    type Out = AnyMessage;
    type Write = Nothing;

    fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(message);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if let Some(bytes) = event.downcast_ref::<usize>() {
            ctx.hold(*bytes).unwrap();
        }
    }
}

/// Passes on what is written.
struct Relay;

impl Inbound for Relay {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }
}

impl Outbound for Relay {
    type Take = AnyMessage;
    type Write = AnyMessage;

    fn write(&mut self, message: AnyMessage, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(message);
    }
}

fn on<H: Inbound + Outbound + Send>(desk: &Arc<Desk>, handler: H) -> Handler {
    Handler::duplex_on(Arc::clone(desk) as Arc<dyn Executor>, handler)
}

/// Returns a channel with a handler on another executor that takes notes. If it is `calm`, no error
/// closes it.
fn parts(calm: bool) -> (Arc<Desk>, EmbeddedChannel, Log<String>) {
    let desk = Desk::new();
    let taker = on(&desk, Taker);
    let assemble = |p: PipelineBuilder| {
        let p = p.add("holds", Holds).add_duplex("pass", Pass);
        let p = p.add_handler("taker", taker);
        if calm { p.add("calm", Calm) } else { p }
    };
    let embedded = EmbeddedChannel::with_options(options(), assemble).unwrap();
    desk.work();
    (desk, embedded, Log::new())
}

/// Ends the connection. Handlers that do not run cannot hold that up, unlike a close.
fn reset(embedded: &mut EmbeddedChannel) {
    embedded.fail(io::ErrorKind::ConnectionReset);
    assert!(!embedded.is_open());
}

#[test]
fn a_message_that_the_stage_has_no_room_for_is_handed_back() {
    let (desk, mut embedded, ends) = parts(true);
    let handle = embedded.channel();
    handle.fire_event(CAP - 200);
    let written = handle.write_and_flush_with(Note::new("promised", &ends).sized(300));
    handle.write_and_flush(Note::new("plain", &ends).sized(300));
    handle.write_and_flush(Note::new("small", &ends));
    embedded.run();
    assert_eq!(
        ends.take(),
        ["promised refused: full", "plain refused: full"]
    );
    let why = written.wait().unwrap_err().failure();
    let why = why.as_ref().and_then(Failure::downcast_ref);
    assert!(matches!(why, Some(NetError::WriteQueueFull { .. })));
    desk.work();
    assert_eq!(ends.take(), ["small handled"]);
}

/// Makes two large notes of a note.
struct Grows;

impl Inbound for Grows {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }
}

impl Outbound for Grows {
    type Take = Note;
    type Write = Note;

    fn write(&mut self, note: Note, ctx: &mut OutboundContext<'_, Self>) {
        for name in ["first", "second"] {
            ctx.write(Note::new(name, &note.ends).sized(CAP / 2));
        }
        note.handled();
    }
}

#[test]
fn the_output_of_one_stage_that_the_next_has_no_room_for_is_handed_back() {
    let (near, far, ends) = (Desk::new(), Desk::new(), Log::new());
    let (taker, grows) = (on(&near, Taker), on(&far, Grows));
    let assemble = |p: PipelineBuilder| {
        let p = p.add_handler("taker", taker).add_handler("grows", grows);
        p.add("calm", Calm)
    };
    let mut embedded = EmbeddedChannel::with_options(options(), assemble).unwrap();
    let written = embedded
        .channel()
        .write_and_flush_with(Note::new("one", &ends));
    embedded.run();
    far.work();
    assert_eq!(ends.take(), ["one handled"]);
    embedded.run();
    assert_eq!(ends.take(), ["second refused: full"]);
    assert!(written.wait().is_err(), "it has the promise of the whole");
    near.work();
    assert_eq!(ends.take(), ["first handled"]);
}

#[test]
fn a_message_that_waits_while_the_channel_closes_reaches_its_handler() {
    let (desk, mut embedded, ends) = parts(false);
    embedded.channel().write_and_flush(Note::new("one", &ends));
    embedded.run();
    reset(&mut embedded);
    drop(embedded);
    assert!(ends.is_empty());
    desk.work();
    assert_eq!(ends.take(), ["one handled"]);
}

#[test]
fn a_message_is_handed_back_if_the_executor_ends_after_the_channel() {
    let (desk, mut embedded, ends) = parts(false);
    let handle = embedded.channel();
    handle.write_and_flush(Note::new("one", &ends));
    let written = handle.write_and_flush_with(Note::new("two", &ends));
    embedded.run();
    reset(&mut embedded);
    assert!(ends.is_empty());
    desk.end();
    assert_eq!(ends.take(), ["one refused: closed", "two refused: closed"]);
    let why = written.wait().unwrap_err().failure();
    let why = why.as_ref().and_then(Failure::downcast_ref);
    assert!(matches!(why, Some(NetError::Closed(_))), "{why:?}");
}

#[test]
fn a_message_is_handed_back_if_the_executor_ends_before_the_channel() {
    let (desk, mut embedded, ends) = parts(false);
    embedded.channel().write_and_flush(Note::new("one", &ends));
    embedded.run();
    desk.set(Submitted::Refused);
    desk.end();
    assert!(ends.is_empty(), "a later message would submit a task again");
    // The error of the executor closes the channel.
    embedded.run();
    assert!(!embedded.is_open());
    assert_eq!(ends.take(), ["one refused: closed"]);
}

#[test]
fn a_message_is_handed_back_if_the_executor_refuses_its_task_or_panics() {
    for submitted in [Submitted::Refused, Submitted::Panics] {
        let (desk, mut embedded, ends) = parts(false);
        desk.set(submitted);
        let handle = embedded.channel();
        handle.write_and_flush(Note::new("one", &ends));
        handle.write_and_flush(Note::new("two", &ends));
        embedded.run();
        assert!(!embedded.is_open());
        assert_eq!(ends.take(), ["one refused: closed", "two refused: closed"]);
    }
}

#[test]
fn a_message_whose_task_was_refused_waits_for_the_next_if_the_channel_goes_on() {
    let (desk, mut embedded, ends) = parts(true);
    let handle = embedded.channel();
    desk.set(Submitted::Refused);
    handle.write_and_flush(Note::new("one", &ends));
    embedded.run();
    assert!(embedded.is_open() && ends.is_empty());
    desk.set(Submitted::Kept);
    handle.write_and_flush(Note::new("two", &ends));
    embedded.run();
    desk.work();
    assert_eq!(ends.take(), ["one handled", "two handled"]);
    desk.set(Submitted::Refused);
    handle.write_and_flush(Note::new("three", &ends));
    embedded.run();
    assert!(embedded.is_open() && ends.is_empty());
    reset(&mut embedded);
    assert_eq!(ends.take(), ["three refused: closed"]);
}

#[test]
fn a_message_behind_the_removal_of_the_handler_is_passed_on_or_handed_back() {
    for closes in [false, true] {
        let (desk, mut embedded, ends) = parts(true);
        let handle = embedded.channel();
        handle.write_and_flush(Note::new("before", &ends));
        let removed = handle.change(|| PipelineChange::remove("taker"));
        embedded.run();
        removed.wait().unwrap();
        handle.write_and_flush(Note::new("behind", &ends));
        embedded.run();
        if closes {
            reset(&mut embedded);
        }
        assert!(ends.is_empty());
        desk.work();
        embedded.run();
        // Without the handler, the next one gets a message that it does not take.
        let why = ["wrong type", "closed"][usize::from(closes)];
        let behind = format!("behind refused: {why}");
        assert_eq!(ends.take(), ["before handled".to_owned(), behind]);
    }
}

#[test]
fn a_message_that_waits_while_its_handler_is_replaced_reaches_one_of_the_two() {
    let (desk, mut embedded, ends) = parts(false);
    let handle = embedded.channel();
    handle.write_and_flush(Note::new("before", &ends));
    let (other, own) = (Desk::new(), Arc::clone(&desk));
    let desks = Arc::clone(&other);
    let replaced =
        handle.change(move || PipelineChange::replace("taker", "other", on(&desks, Taker)));
    embedded.run();
    replaced.wait().unwrap();
    handle.write_and_flush(Note::new("behind", &ends));
    embedded.run();
    reset(&mut embedded);
    other.end();
    assert_eq!(ends.take(), ["behind refused: closed"]);
    own.work();
    assert_eq!(ends.take(), ["before handled"]);
}

/// How a channel ends that a stage sends something to.
#[derive(Clone, Copy)]
enum End {
    /// The channel is closed when it comes.
    Closed,
    /// The channel and its loop are gone when it comes.
    Gone,
    /// It waits for the loop, which ends.
    Waits,
}

#[test]
fn the_output_of_a_stage_that_the_channel_does_not_take_any_more_is_handed_back() {
    for end in [End::Closed, End::Gone, End::Waits] {
        let (desk, ends) = (Desk::new(), Log::new());
        let relay = on(&desk, Relay);
        let assemble =
            |p: PipelineBuilder| p.add_duplex("taker", Taker).add_handler("relay", relay);
        let mut embedded = EmbeddedChannel::new(assemble).unwrap();
        let handle = embedded.channel();
        handle.write_and_flush(Note::new("one", &ends));
        let written = handle.write_and_flush_with(Note::new("two", &ends));
        embedded.run();
        match end {
            End::Closed => reset(&mut embedded),
            End::Gone => drop(embedded),
            End::Waits => {
                desk.work();
                assert!(ends.is_empty());
                drop(embedded);
            }
        }
        desk.work();
        assert_eq!(ends.take(), ["one refused: closed", "two refused: closed"]);
        assert!(written.wait().is_err());
    }
}

#[test]
fn a_message_of_another_type_is_handed_back_by_the_handler_of_a_stage() {
    let (desk, ends) = (Desk::new(), Log::new());
    let pass = on(&desk, Pass);
    let mut embedded = EmbeddedChannel::new(|p| p.add_handler("pass", pass)).unwrap();
    embedded.channel().write_and_flush(Note::new("one", &ends));
    embedded.run();
    assert!(ends.is_empty());
    desk.work();
    assert_eq!(ends.take(), ["one refused: wrong type"]);
}

#[test]
fn messages_behind_one_at_which_the_handler_panics_reach_it() {
    let (desk, mut embedded, ends) = parts(false);
    let handle = embedded.channel();
    for name in ["one", "boom", "two"] {
        handle.write_and_flush(Note::new(name, &ends));
    }
    embedded.run();
    desk.work();
    // The error of the panic closes the channel; the message has waited before that.
    embedded.run();
    assert_eq!(ends.take(), ["one handled", "boom handled", "two handled"]);
    handle.write_and_flush(Note::new("late", &ends));
    assert_eq!(ends.take(), ["late refused: closed"]);
}

/// Panics when it is added.
struct Fails;

impl Inbound for Fails {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn added(&mut self, _: &mut InboundContext<'_, Self>) {
        explode();
    }

    fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}
}

impl Outbound for Fails {
    type Take = Note;
    type Write = Bytes;

    fn write(&mut self, note: Note, _: &mut OutboundContext<'_, Self>) {
        note.handled();
    }
}

#[test]
fn a_message_for_a_handler_that_fails_to_begin_is_handed_back() {
    let (desk, ends) = (Desk::new(), Log::new());
    let fails = on(&desk, Fails);
    let assemble = |p: PipelineBuilder| p.add_duplex("pass", Pass).add_handler("fails", fails);
    let mut embedded = EmbeddedChannel::new(assemble).unwrap();
    embedded.channel().write_and_flush(Note::new("one", &ends));
    embedded.run();
    desk.work();
    assert!(ends.is_empty(), "it goes back to the channel");
    embedded.run();
    assert_eq!(ends.len(), 1);
    assert!(ends.take()[0].starts_with("one refused: "));
}

#[test]
fn a_message_that_is_handed_back_may_write_close_and_panic() {
    let (desk, mut embedded, ends) = parts(true);
    let handle = embedded.channel();
    handle.fire_event(CAP - 200);
    let (own, more) = (handle.clone(), Note::new("again", &ends));
    let note = Note::new("large", &ends).sized(300).then(move || {
        own.write_and_flush(more);
        own.close();
        explode();
    });
    handle.write_and_flush(note);
    handle.write_and_flush(Note::new("next", &ends));
    embedded.run();
    assert_eq!(ends.take(), ["large refused: full"]);
    desk.work();
    assert_eq!(ends.take(), ["next handled", "again handled"]);
    embedded.run();
    assert!(!embedded.is_open());
    // The same on the thread of the executor, behind the close.
    let (desk, mut embedded, ends) = parts(false);
    let handle = embedded.channel();
    let (own, more) = (handle.clone(), Note::new("again", &ends));
    let note = Note::new("one", &ends).then(move || {
        own.write_and_flush(more);
        own.close();
        explode();
    });
    handle.write_and_flush(note);
    handle.write_and_flush(Note::new("two", &ends));
    embedded.run();
    reset(&mut embedded);
    desk.end();
    let expected = [
        "one refused: closed",
        "again refused: closed",
        "two refused: closed",
    ];
    assert_eq!(ends.take(), expected);
}

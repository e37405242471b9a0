//! Handlers that are added, removed and replaced while the channel is open.

use bytes::Bytes;
use tidegate_net::handlers::{LineFrames, Strings};
use tidegate_net::{
    EmbeddedChannel, Handler, Inbound, InboundContext, Nothing, PipelineBuilder, PipelineChange,
};
use tidegate_promise::Failure;

use super::{Names, embedded, note, twice};
use crate::Echo;
use crate::acts::Acts;

#[test]
fn handlers_are_added_removed_replaced_and_notified() {
    let log = Names::new();
    let mut channel = embedded(|p| p.add_duplex("b", note("b", &log)));
    let _ = log.take();
    let (first, last, new) = (note("a", &log), note("c", &log), note("d", &log));
    let handle = channel.channel();
    let adds = [
        handle.change(|| PipelineChange::add_first("a", Handler::duplex(first))),
        handle.change(|| PipelineChange::add_last("c", Handler::duplex(last))),
    ];
    channel.run();
    for add in adds {
        add.wait().unwrap();
    }
    assert_eq!(channel.names(), ["a", "b", "c"]);
    assert_eq!(log.take(), ["a added", "c added"]);
    channel.receive("x");
    assert_eq!(log.take(), ["a read", "b read", "c read"]);
    let replaced = handle.change(|| PipelineChange::replace("b", "d", Handler::duplex(new)));
    channel.run();
    replaced.wait().unwrap();
    assert_eq!(
        log.take(),
        ["d added", "b removed"],
        "the new one is notified first"
    );
    assert_eq!(channel.names(), ["a", "d", "c"]);
    channel.receive("x");
    assert_eq!(log.take(), ["a read", "d read", "c read"]);
}

#[test]
fn a_change_that_would_not_fit_is_refused_and_the_old_chain_stays() {
    let mut channel = embedded(|p| {
        p.add_duplex("text", Strings::utf8())
            .add("shout", WritesText)
    });
    let handle = channel.channel();
    let misfit = handle.change(|| PipelineChange::remove("text"));
    let twice = handle.change(|| PipelineChange::add_last("text", Handler::inbound(Echo)));
    let missing = handle.change(|| PipelineChange::remove("nobody"));
    channel.run();
    // The head of an embedded channel accepts any type. Behind `shout`, which passes nothing on, no
    // handler fits.
    let late = handle.change(|| PipelineChange::add_last("late", Handler::inbound(Echo)));
    channel.run();
    assert!(misfit.wait().is_ok());
    let message = |why: tidegate_promise::WaitError<Failure>| why.to_string();
    assert!(message(twice.wait().unwrap_err()).contains("passes on"));
    assert!(message(missing.wait().unwrap_err()).contains("no handler called `nobody`"));
    assert!(message(late.wait().unwrap_err()).contains("`shout`"));
    assert_eq!(channel.names(), ["shout"]);
}

/// Takes text and writes text.
struct WritesText;

impl Inbound for WritesText {
    type In = String;
    type Out = Nothing;
    type Write = String;

    fn read(&mut self, text: String, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(text.to_uppercase());
        ctx.flush();
    }
}

#[test]
fn a_handler_can_put_another_in_its_place_and_pass_on_what_it_has() {
    /// Reads one line to choose the protocol, then removes itself.
    fn greeting() -> Acts {
        Acts::on_read(|line, ctx| {
            assert_eq!(line, "echo");
            ctx.change(PipelineChange::add_last("echo", Handler::inbound(Echo)))
                .unwrap();
            ctx.remove_me().unwrap();
            assert!(ctx.remove_me().is_err(), "it is as good as gone");
        })
    }
    let mut channel = embedded(|p| {
        p.add("lines", LineFrames::max(80))
            .add("greeting", greeting())
    });
    channel.receive("echo\nhello\n");
    assert_eq!(channel.names(), ["lines", "echo"]);
    assert_eq!(channel.sent(), "hello");
}

#[test]
fn what_is_emitted_at_its_end_reaches_the_successor() {
    struct Keeps(Vec<Bytes>);
    impl Inbound for Keeps {
        type In = Bytes;
        type Out = Bytes;
        type Write = Nothing;
        fn read(&mut self, bytes: Bytes, _ctx: &mut InboundContext<'_, Self>) {
            self.0.push(bytes);
        }
        fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
            for bytes in self.0.drain(..) {
                ctx.fire_read(bytes);
            }
            ctx.fire_read_complete();
        }
    }
    let mut channel = embedded(|p| p.add("keeps", Keeps(Vec::new())));
    channel.receive("kept");
    let done = channel
        .channel()
        .change(|| PipelineChange::replace("keeps", "echo", Handler::inbound(Echo)));
    channel.run();
    done.wait().unwrap();
    assert_eq!(channel.sent(), "kept");
}

/// Counts with a value that is not `Send`.
struct Stays(std::rc::Rc<std::cell::Cell<u32>>);

impl Inbound for Stays {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.0.set(self.0.get() + 1);
        ctx.fire_read(bytes);
    }
}

#[test]
fn a_handler_that_stays_on_its_thread_can_be_added_later_and_goes_with_a_refused_change() {
    let mut channel =
        EmbeddedChannel::new(|p| p.add("first", Stays(std::rc::Rc::default()))).unwrap();
    let (notified, counted) = std::sync::mpsc::channel();
    let handle = channel.channel();
    let added = handle.change(move || {
        let count = std::rc::Rc::new(std::cell::Cell::new(0));
        notified.send(std::rc::Rc::as_ptr(&count).addr()).unwrap();
        PipelineChange::add_last("stays", Handler::local_inbound(Stays(count)))
    });
    channel.run();
    added.wait().unwrap();
    assert_ne!(counted.recv().unwrap(), 0);
    channel.write_inbound(Bytes::from("x"));
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "x");
    assert_eq!(channel.names(), ["first", "stays"]);
    let count = std::rc::Rc::<std::cell::Cell<u32>>::default();
    let change = PipelineChange::add_last(
        "stays",
        Handler::local_inbound(Stays(std::rc::Rc::clone(&count))),
    );
    drop(change);
    assert_eq!(std::rc::Rc::strong_count(&count), 1);
}

#[test]
fn many_handlers_can_be_removed_and_added_again() {
    // A check of all pairs of handlers with each change would take seconds.
    let mut channel = embedded(|p| {
        let adds = |p: PipelineBuilder, _| p.add("", twice());
        (0..1_000).fold(p.add("first", twice()), adds)
    });
    let handle = channel.channel();
    let removed = (0..1_000).step_by(3);
    let removed =
        removed.map(|at| handle.change(move || PipelineChange::remove(format!("Acts#{at}"))));
    let removed: Vec<_> = removed.collect();
    channel.run();
    let count = removed.len();
    removed.into_iter().for_each(|one| one.wait().unwrap());
    let names = channel.names();
    assert_eq!((names.len(), &names[1][..]), (1_001 - count, "Acts#1"));
    let again = handle.change(|| PipelineChange::add_last("", Handler::inbound(twice())));
    channel.run();
    again.wait().unwrap();
    assert_eq!(channel.names().last().unwrap(), "Acts#0");
}

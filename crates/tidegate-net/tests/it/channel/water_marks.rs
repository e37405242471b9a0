//! Water marks: when a channel is writable, and the cap on pending bytes.

use bytes::Bytes;
use tidegate_net::{
    ChannelOptions, EmbeddedChannel, Inbound, InboundContext, Nothing, Outbound, OutboundContext,
    PipelineBuilder,
};
use tidegate_promise::Completion;
use tidegate_testkit::{Log, has};

use super::notes;
use crate::acts::Acts;
use crate::marks;

#[test]
fn writability_changes_above_high_and_below_low_and_is_fired_once_each() {
    let (mut channel, log) = notes(marks(300, 1000, 10_000));
    channel.set_room(Some(0));
    let handle = channel.channel();
    // Each message counts for 104 + 96 = 200 bytes.
    for _ in 0..5 {
        handle.write(vec![0; 104]);
    }
    handle.flush();
    channel.run();
    assert!(log.take().is_empty(), "1000 is not above 1000");
    handle.write_and_flush("x");
    channel.run();
    assert_eq!(log.take(), ["writable false"]);
    channel.set_room(Some(104 * 3));
    assert!(log.take().is_empty(), "497 are between the marks");
    channel.set_room(Some(104));
    assert_eq!(log.take(), ["writable true"]);
}

#[test]
fn handlers_that_saw_it_unwritable_are_notified_when_it_is_writable_however_soon() {
    let (mut channel, log) = notes(marks(300, 1000, 10_000));
    let handle = channel.channel();
    handle.write(vec![0; 2000]);
    handle.flush();
    channel.run();
    assert_eq!(log.take(), ["writable false", "writable true"]);
}

#[test]
fn a_writer_on_another_thread_can_wait_for_room() {
    let (mut channel, _log) = notes(marks(300, 1000, 10_000));
    let handle = channel.channel();
    assert!(handle.writable().is_done(), "there is room");
    channel.set_room(Some(0));
    handle.write(vec![0; 2000]);
    let room = handle.writable();
    channel.run();
    assert!(!room.is_done());
    channel.set_room(None);
    room.wait().unwrap();
    // `writable` itself flushes a message that was written through the handle and not flushed.
    handle.write(vec![0; 2000]);
    let room = handle.writable();
    channel.run();
    room.wait().unwrap();
    channel.set_room(Some(0));
    handle.write(vec![0; 2000]);
    let never = handle.writable();
    channel.close();
    assert!(never.wait().is_err());
    assert!(handle.writable().wait().is_err());
}

#[test]
fn flags_of_the_users_own_are_joined_with_the_marks() {
    let (mut channel, log) = notes(ChannelOptions::default());
    let handle = channel.channel();
    handle.set_user_writable(1, false);
    handle.set_user_writable(2, false);
    channel.run();
    assert_eq!(log.take(), ["writable false"]);
    assert!(!handle.is_writable());
    handle.set_user_writable(1, true);
    handle.set_user_writable(0, true);
    handle.set_user_writable(32, false);
    channel.run();
    assert!(log.take().is_empty());
    handle.set_user_writable(2, true);
    channel.run();
    assert_eq!(log.take(), ["writable true"]);
}

#[test]
fn above_the_cap_a_write_fails_and_one_without_a_promise_is_an_error() {
    let (mut channel, log) = notes(marks(10, 100, 500));
    channel.set_room(Some(0));
    let handle = channel.channel();
    handle.write_and_flush(vec![0; 300]);
    let refused = handle.write_with(vec![0; 300]);
    channel.run();
    handle.flush();
    channel.run();
    let why = refused.wait().unwrap_err().to_string();
    assert!(why.contains("the cap is 500"), "{why}");
    let _ = log.take();
    handle.write_and_flush(vec![0; 300]);
    channel.run();
    assert!(log.take()[0].contains("the cap is 500"));
}

#[test]
fn the_cap_holds_for_writes_that_a_busy_loop_has_not_seen_and_one_error_reports_them() {
    let (mut channel, log) = notes(marks(10, 100, 1_000));
    let handle = channel.channel();
    let sent: Vec<_> = (0..100).map(|_| handle.write_with(vec![0; 104])).collect();
    for _ in 0..100 {
        handle.write(vec![0; 104]);
    }
    assert_eq!(handle.pending_bytes(), 1_000);
    handle.flush();
    channel.run();
    let (taken, refused): (Vec<_>, Vec<_>) = sent
        .into_iter()
        .map(Completion::wait)
        .partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (5, 95));
    let received = log.take();
    let errors = received
        .iter()
        .filter(|message| message.contains("the cap is 1000"));
    assert_eq!(errors.count(), 1, "{received:?}");
    handle.write(vec![0; 904]);
    handle.write("x");
    channel.run();
    assert!(
        log.take()
            .iter()
            .any(|message| message.contains("the cap is 1000")),
        "reported again"
    );
}

#[test]
fn a_handler_that_writes_whenever_it_may_leaves_the_others_their_turn() {
    struct Floods;
    impl Inbound for Floods {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
            while ctx.is_writable() {
                ctx.write(vec![0; 1000]);
            }
            ctx.flush();
        }
        fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
            if writable && ctx.channel().attribute::<bool>().is_none() {
                self.read(Bytes::new(), ctx);
            }
        }
    }
    let mut channel =
        EmbeddedChannel::with_options(marks(1000, 2000, 1 << 20), |p| p.add("floods", Floods))
            .unwrap();
    channel.channel().set_attribute(true);
    channel.receive("go");
    assert!(channel.sent().len() >= 2000);
    assert!(channel.is_open());
}

#[test]
fn a_write_that_is_above_the_cap_by_itself_is_refused_though_nothing_waits() {
    let (mut channel, log) = notes(marks(10, 100, 500));
    let handle = channel.channel();
    let refused = handle.write_with(vec![0; 405]);
    let why = refused.wait().unwrap_err().to_string();
    has(&why, ["501 bytes", "the cap is 500"]);
    handle.write_and_flush(vec![0; 405]);
    channel.run();
    assert!(log.take()[0].contains("the cap is 500"));
    let taken = handle.write_with(vec![0; 404]);
    handle.flush();
    channel.run();
    taken.wait().unwrap();
    assert_eq!(channel.sent().len(), 404);
}

#[test]
fn a_write_of_another_thread_above_the_high_mark_is_reported_without_a_flush() {
    let (mut channel, log) = notes(marks(300, 1000, 10_000));
    let handle = channel.channel();
    handle.write(vec![0; 904]);
    channel.run();
    assert!(log.is_empty(), "1000 is not above 1000");
    handle.write("x");
    channel.run();
    assert_eq!(log.take(), ["writable false"]);
    assert!(channel.sent().is_empty(), "nothing was flushed");
    handle.flush();
    channel.run();
    assert_eq!(log.take(), ["writable true"]);
}

/// Writes when it reads, and then through the handle, which does not yet show the first write.
fn both(log: Log<String>) -> Acts {
    Acts::on_read(|bytes, ctx| {
        ctx.write(bytes);
        ctx.channel().write("from elsewhere");
    })
    .on_writability(move |writable, _ctx| log.push(format!("writable {writable}")))
}

#[test]
fn a_write_of_another_thread_is_reported_though_it_has_not_seen_the_pending_bytes() {
    let log = Log::new();
    let both = both(log.clone());
    let mut channel =
        EmbeddedChannel::with_options(marks(300, 1000, 10_000), |p| p.add("both", both)).unwrap();
    channel.receive(vec![0; 900]);
    assert_eq!(log.take(), ["writable false"]);
}

/// Logs what handles see while the loop takes a write: the pending size, whether the channel is
/// writable, and whether one more write is refused.
struct Looks(Log<(usize, bool, bool)>);

impl Outbound for Looks {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        let handle = ctx.channel();
        let refused = handle.write_with(vec![0; 104]).is_done();
        let seen = (handle.pending_bytes(), handle.is_writable(), refused);
        self.0.push(seen);
        ctx.write(bytes);
    }
}

#[test]
fn a_write_is_pending_for_all_threads_while_the_loop_takes_it() {
    let (log, own) = Log::pair();
    let looks = |p: PipelineBuilder| p.add_outbound("looks", Looks(own));
    let mut channel = EmbeddedChannel::with_options(marks(10, 700, 1_000), looks).unwrap();
    channel.set_room(Some(0));
    let handle = channel.channel();
    for _ in 0..2 {
        // Each counts for 404 + 96 = 500 bytes.
        handle.write(vec![0; 404]);
    }
    handle.flush();
    channel.run();
    assert_eq!(log.take(), [(1_000, false, true); 2]);
    assert_eq!(
        (handle.pending_bytes(), handle.is_writable()),
        (1_000, false)
    );
    channel.set_room(None);
    assert_eq!((handle.pending_bytes(), handle.is_writable()), (0, true));
}

#[test]
fn a_handler_cannot_hold_more_than_the_cap_however_much_it_says() {
    let (log, own) = Log::pair();
    let holds = Acts::on_read(move |_, ctx| {
        own.push([1, usize::MAX, usize::MAX - 1].map(|bytes| ctx.hold(bytes).is_ok()));
    });
    let mut channel = EmbeddedChannel::new(|p| p.add("holds", holds)).unwrap();
    channel.receive("x");
    assert_eq!(log.take(), [[true, false, false]]);
    assert_eq!(channel.channel().pending_bytes(), 1);
}

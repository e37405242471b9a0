//! Messages that a channel takes without its mailbox.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Sender};

use bytes::Bytes;
use tidegate_promise::Failure;
use tidegate_testkit::{Log, Stop};

use super::stream_room::StreamRoom;
use crate::message::Msg;
use crate::reactor;
use crate::sys::{Readiness, Ready};
use crate::{
    Channel, ChannelOptions, Client, Message, Neighbour, NetGroup, Outbound, OutboundContext,
    PipelineBuilder, WaterMarks, pinned,
};

fn write(channel: &Channel, text: &'static str) -> bool {
    let written = channel.shared().write_directly(Some(text.into()), true);
    written.is_ok()
}

fn pass(channel: &Channel, text: impl Message) -> bool {
    channel
        .shared()
        .pass_directly(Msg::from_handle(text))
        .is_ok()
}

/// Connects a channel without handlers on the only loop of its group.
fn pair(marks: WaterMarks) -> (NetGroup, Channel, UnixStream) {
    pair_with(marks, |p| p)
}

/// Connects a channel with these handlers on the only loop of its group.
fn pair_with(
    marks: WaterMarks,
    assemble: impl Fn(PipelineBuilder) -> PipelineBuilder + Send + Sync + 'static,
) -> (NetGroup, Channel, UnixStream) {
    let group = pinned("io", 1).unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    let options = ChannelOptions {
        marks,
        ..ChannelOptions::default()
    };
    let client = Client::builder(&group).options(options).pipeline(assemble);
    let client = client.build();
    let channel = client.adopt_unix(near).wait().unwrap();
    (group, channel, far)
}

fn read(peer: &mut UnixStream, expected: &str) {
    let mut got = vec![0; expected.len()];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8(got).unwrap(), expected);
}

#[test]
fn one_message_waits_for_its_turn_and_what_follows_it_stays_behind_it() {
    let (group, channel, mut peer) = pair(WaterMarks::new(500, 1000, 2000).unwrap());
    assert!(!pass(&channel, "-"), "this thread drives no loop");
    let home = group.loops().next();
    for _ in 0..3 {
        let own = channel.clone();
        let task = home.submit(move || {
            assert!(!pass(&own, "-".repeat(1000)), "it would not be writable");
            assert!(pass(&own, "1 "));
            assert!(!pass(&own, "-"), "another one waits");
            assert!(!write(&own, "-"), "bytes would overtake it");
            let counted = own.pending_bytes();
            assert!(counted > 2 && StreamRoom::has_writes_coming(&own));
            Neighbour::of(&own).pass("2 ");
            assert_eq!(own.pending_bytes(), 2 * counted);
            Neighbour::of(&own).write_and_flush("3 ");
        });
        task.unwrap().wait().unwrap();
        read(&mut peer, "1 2 3 ");
        let own = channel.clone();
        let task = home.submit(move || {
            own.write("4 ");
            assert!(!pass(&own, "-"), "a request waits");
            Neighbour::of(&own).pass("5 ");
            own.flush();
        });
        task.unwrap().wait().unwrap();
        read(&mut peer, "4 5 ");
        let flushed = channel.flush_with();
        flushed.wait().unwrap();
        assert_eq!(channel.pending_bytes(), 0);
    }
    let own = channel.clone();
    let task = home.submit(move || {
        assert!(pass(&own, "last"));
        own.close_when_flushed();
        assert!(!pass(&own, "-"), "it comes after the end");
    });
    task.unwrap().wait().unwrap();
    read(&mut peer, "last");
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    channel.closed().wait().unwrap();
    let task = home.submit(move || pass(&channel, "-"));
    assert!(!task.unwrap().wait().unwrap());
}

#[test]
fn a_message_to_a_channel_that_closes_before_its_turn_is_refused_once() {
    struct Told(Sender<String>);
    impl Message for Told {
        fn size(&self) -> usize {
            1
        }
        fn refused(self, why: Failure) {
            self.0.send(why.to_string()).unwrap();
        }
    }
    let (group, channel, peer) = pair(WaterMarks::default());
    let (told, refusals) = mpsc::channel();
    let own = channel.clone();
    let task = group.loops().next().submit(move || {
        assert!(pass(&own, Told(told)));
        drop(peer);
        let (token, readiness) = (own.shared().token(), Readiness::READ | Readiness::HANG_UP);
        assert!(reactor::dispatch(Ready { token, readiness }));
        assert!(!own.is_active());
        assert_eq!(own.pending_bytes(), 0);
    });
    task.unwrap().wait().unwrap();
    let all: Vec<String> = refusals.iter().collect();
    assert_eq!(all, ["the channel is closed"]);
}

#[test]
fn calls_that_only_repeat_each_other_queue_no_further_request() {
    let calls: [fn(&Channel); 3] = [
        |channel| channel.write_and_flush("-".repeat(200)),
        |channel| assert!(channel.writable().cancel()),
        |channel| {
            // Refused, unwritable, and a flush in between.
            channel.write_and_flush("-".repeat(200));
            assert!(!Neighbour::of(channel).is_writable());
        },
    ];
    for call in calls {
        let (group, channel, _peer) = pair(WaterMarks::new(5, 10, 200).unwrap());
        let stop = Stop::new();
        let home = group.loops().next();
        let task = home.submit(stop.closure());
        stop.reached();
        channel.write("first ");
        (0..1_000).for_each(|_| call(&channel));
        let queued = channel.shared().take_requests();
        assert!(queued.len() <= 5, "{} requests wait", queued.len());
        stop.go_on();
        task.unwrap().wait().unwrap();
    }
}

#[test]
fn a_passed_message_is_pending_until_its_turn_is_over() {
    let (log, own) = Log::pair();
    let (group, channel, mut peer) = pair_with(WaterMarks::default(), move |p| {
        p.add_outbound("looks", Looks(own.clone()))
    });
    for _ in 0..3 {
        let own = channel.clone();
        let task = group.loops().next().submit(move || {
            assert!(pass(&own, "message"));
            own.pending_bytes()
        });
        let counted = task.unwrap().wait().unwrap();
        read(&mut peer, "message");
        channel.flush_with().wait().unwrap();
        assert_eq!((log.take(), channel.pending_bytes()), (vec![counted], 0));
    }
}

/// Logs the pending size while the loop takes a write, and sends it.
struct Looks(Log<usize>);

impl Outbound for Looks {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        self.0.push(ctx.channel().pending_bytes());
        ctx.write(bytes);
        ctx.flush();
    }
}

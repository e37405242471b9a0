//! Writes and flushes: what is sent, when, and with how many calls.

use tidegate_net::handlers::Strings;
use tidegate_net::{EmbeddedChannel, PipelineBuilder};

use super::notes;
use crate::acts::Acts;
use crate::{Echo, marks};

#[test]
fn a_message_from_outside_completes_when_it_is_sent_and_fails_if_no_handler_accepts_it() {
    let strings = |p: PipelineBuilder| p.add_duplex("text", Strings::utf8());
    let mut channel = EmbeddedChannel::new(strings).unwrap();
    let handle = channel.channel();
    let sent = handle.write_with("text".to_owned());
    handle.flush();
    channel.run();
    sent.wait().unwrap();
    assert_eq!(channel.sent(), "text");
    let misfit = handle.write_with(7_u8);
    handle.flush();
    channel.run();
    let why = misfit.wait().unwrap_err().to_string();
    assert!(why.contains("`text` takes"), "{why}");
}

#[test]
fn a_write_from_outside_counts_at_once_and_is_sent_with_the_flush() {
    let (mut channel, log) = notes(marks(100, 1000, 10_000));
    let handle = channel.channel();
    handle.write(vec![0; 2000]);
    assert_eq!(handle.pending_bytes(), 2000 + 96);
    assert!(!handle.is_writable(), "before the loop has seen it");
    channel.run();
    assert!(channel.sent().is_empty(), "nothing is sent before a flush");
    handle.flush();
    channel.run();
    assert_eq!(channel.sent().len(), 2000);
    assert_eq!(handle.pending_bytes(), 0);
    assert!(handle.is_writable());
    assert!(
        log.take()
            .iter()
            .all(|message| message.starts_with("writable"))
    );
}

#[test]
fn while_the_socket_is_full_a_flush_does_nothing() {
    let mut channel = EmbeddedChannel::new(|p| p.add("echo", Echo)).unwrap();
    channel.set_room(Some(1));
    channel.receive("12");
    let calls = channel.write_calls();
    channel.channel().flush();
    channel.channel().flush();
    channel.run();
    assert_eq!(channel.write_calls(), calls);
    channel.set_room(None);
    assert_eq!(channel.sent(), "12");
}

#[test]
fn many_writes_and_flushes_of_one_event_are_one_call() {
    fn chatty() -> Acts {
        Acts::on_read(|_, ctx| {
            for _ in 0..10 {
                ctx.write("x");
                ctx.flush();
            }
        })
    }
    let mut channel = EmbeddedChannel::new(|p| p.add("chatty", chatty())).unwrap();
    channel.receive("go");
    assert_eq!((channel.sent().len(), channel.write_calls()), (10, 1));
}

#[test]
fn a_flush_completes_when_everything_before_it_is_sent() {
    let mut channel = EmbeddedChannel::new(|p| p).unwrap();
    let handle = channel.channel();
    assert!(handle.flush_with().peek().is_none(), "not before its turn");
    channel.set_room(Some(5));
    handle.write("0123456789");
    let flushed = handle.flush_with();
    channel.run();
    assert!(flushed.peek().is_none());
    channel.set_room(None);
    flushed.wait().unwrap();
    channel.set_room(Some(0));
    handle.write("lost");
    let lost = handle.flush_with();
    channel.run();
    channel.close();
    assert!(lost.wait().is_err());
    assert!(handle.flush_with().wait().is_err(), "closed");
}

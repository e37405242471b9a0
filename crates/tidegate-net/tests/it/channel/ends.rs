//! Ends of a channel and of its halves, and writes after them.

use std::io::ErrorKind;

use tidegate_net::{ChannelOptions, NetError};

use super::notes;
use crate::half_closure;

#[test]
fn the_end_of_input_closes_after_what_came_before_it() {
    let (mut channel, log) = notes(ChannelOptions::default());
    channel.receive("last words");
    channel.end_input();
    assert_eq!(log.take(), ["read 10", "complete", "inactive"]);
    assert!(!channel.is_open());
    assert!(channel.channel().closed().is_done());
}

#[test]
fn with_half_closure_the_other_half_stays_open() {
    let (mut channel, log) = notes(half_closure());
    channel.end_input();
    assert_eq!(log.take(), ["input shut"]);
    channel.channel().write_and_flush("answer");
    channel.run();
    assert_eq!(channel.sent(), "answer");
    drop(channel.channel().shutdown_output());
    channel.run();
    assert!(!channel.is_open(), "both halves are shut");
}

#[test]
fn shutting_the_output_waits_for_what_was_written() {
    let (mut channel, _log) = notes(half_closure());
    channel.set_room(Some(3));
    channel.channel().write_and_flush("12345");
    let shut = channel.channel().shutdown_output();
    channel.run();
    assert!(!channel.is_output_shut() && !shut.is_done());
    channel.set_room(None);
    assert!(channel.is_output_shut());
    shut.wait().unwrap();
    let again = channel.channel().shutdown_output();
    channel.run();
    again.wait().unwrap();
    assert_eq!(channel.sent(), "12345");
    assert!(channel.is_open(), "the peer may still write");
}

#[test]
fn a_wait_for_the_end_of_one_half_is_completed_by_the_end_of_both() {
    let (mut channel, _log) = notes(ChannelOptions::default());
    channel.set_room(Some(3));
    channel.channel().write_and_flush("12345");
    let shut = channel.channel().shutdown_output();
    channel.run();
    channel.close();
    let late = channel.channel().shutdown_output();
    for lost in [shut, late] {
        assert!(lost.wait().unwrap_err().to_string().contains("closed"));
    }
}

#[test]
fn a_failed_read_fires_an_error_and_closes() {
    let (mut channel, log) = notes(ChannelOptions::default());
    channel.fail(ErrorKind::ConnectionReset);
    let received = log.take();
    assert!(received[0].contains("reset"), "{received:?}");
    assert_eq!(received[1], "inactive");
    let cause = channel.channel().close_cause().unwrap();
    assert!(cause.downcast_ref::<std::io::Error>().is_some());
}

#[test]
fn a_write_after_the_end_fails_with_the_cause() {
    let (mut channel, _log) = notes(ChannelOptions::default());
    channel.fail(ErrorKind::ConnectionReset);
    let late = channel.channel().write_with("late");
    let why = late.wait().unwrap_err().failure().unwrap();
    let Some(NetError::Closed(Some(cause))) = why.downcast_ref::<NetError>() else {
        panic!("{why:?}");
    };
    assert!(cause.to_string().contains("reset"));
}

#[test]
fn a_closed_channel_is_not_writable_and_never_will_be() {
    let (mut channel, _log) = notes(ChannelOptions::default());
    let handle = channel.channel();
    assert!(handle.is_writable());
    channel.close();
    assert!(!handle.is_writable());
    handle.writable().wait().unwrap_err();
}

#[test]
fn closing_fails_what_was_not_sent_and_is_idempotent() {
    let (mut channel, log) = notes(ChannelOptions::default());
    channel.set_room(Some(0));
    let waits = channel.channel().write_with("waits");
    channel.channel().flush();
    channel.run();
    let (first, second) = (channel.channel().close(), channel.channel().close());
    channel.run();
    assert!(first.is_done() && second.is_done());
    assert!(waits.wait().is_err());
    assert_eq!(log.take(), ["inactive"]);
    assert!(channel.channel().close().is_done(), "a later one, too");
}

#[test]
fn closing_when_flushed_sends_first() {
    let (mut channel, _log) = notes(ChannelOptions::default());
    channel.set_room(Some(0));
    channel.channel().write("bye");
    let closed = channel.channel().close_when_flushed();
    channel.run();
    assert!(!closed.is_done());
    channel.set_room(None);
    assert!(closed.is_done());
    assert_eq!(channel.sent(), "bye");
}

#[test]
fn after_the_end_nothing_waits_and_nothing_is_taken() {
    let (mut channel, _log) = notes(ChannelOptions::default());
    channel.set_room(Some(0));
    let handle = channel.channel();
    handle.write_and_flush(vec![0; 1_000]);
    channel.run();
    handle.write("not seen yet");
    channel.close();
    assert_eq!((handle.pending_bytes(), handle.is_writable()), (0, false));
    let late = handle.write_with("late").wait().unwrap_err();
    assert!(late.to_string().contains("closed"));
}

//! Handlers that wait for their own channels, and for the channels of each other.

use std::io::{Read, Write};
use std::sync::{Arc, Barrier};

use tidegate_net::{Channel, Handler, PipelineChange};
use tidegate_promise::{Failure, SharedCompletion, WaitError};
use tidegate_testkit::Log;

use super::roaming;
use crate::acts::Acts;
use crate::{dial, serve};

/// Waits for an operation of the channel.
type Wait = fn(&Channel) -> Result<(), WaitError<Failure>>;

const WAITS: [(&str, Wait); 8] = [
    ("a write", |own| own.write_and_flush_with("never").wait()),
    ("a flush", |own| own.flush_with().wait()),
    ("a close", |own| ended(own.close())),
    ("the end", |own| ended(own.closed())),
    ("an end of its half", |own| own.shutdown_output().wait()),
    ("leaving the loop", |own| own.deregister().wait()),
    ("a release", |own| own.release().wait().map(drop)),
    ("a change", |own| {
        let change = || PipelineChange::add_last("more", Handler::inbound(crate::Echo));
        own.change(change).wait().map(drop)
    }),
];

fn ended(closed: SharedCompletion<()>) -> Result<(), WaitError<Failure>> {
    closed.wait().map(|_| ())
}

#[test]
fn a_handler_that_waits_for_its_own_channel_gets_an_error() {
    let (_pool, group) = roaming(4);
    let (log, own) = Log::pair();
    let server = serve(&group, move |p| {
        let log = own.clone();
        let waits = Acts::on_read(move |which, ctx| {
            let (what, wait) = WAITS[usize::from(which[0])];
            let refused = wait(&ctx.channel()).is_err_and(|why| why.is_refused());
            log.push((what, refused));
        });
        p.add_handler("waits", Handler::inbound(waits))
    });
    for (which, (what, _)) in (0..).zip(WAITS) {
        let mut client = dial(&server);
        client.write_all(&[which]).unwrap();
        log.wait_for(1);
        assert_eq!(log.take(), [(what, true)]);
    }
}

#[test]
fn of_two_handlers_that_wait_for_each_others_channels_one_gets_an_error() {
    let (_pool, group) = roaming(4);
    let (channels, refused) = (Log::<Channel>::new(), Log::new());
    let (both, open, log) = (Arc::new(Barrier::new(2)), channels.clone(), refused.clone());
    let server = serve(&group, move |p| {
        let (both, open, log) = (Arc::clone(&both), open.clone(), log.clone());
        let waits = Acts::on_read(move |_, ctx| {
            let other: Channel = ctx.channel().take_attribute().unwrap();
            both.wait();
            let written = other.write_and_flush_with("done").wait();
            log.push(written.is_err_and(|why| why.is_refused()));
        });
        let waits = waits.on_active(move |ctx| open.push(ctx.channel()));
        p.add_handler("waits", Handler::inbound(waits))
    });
    let mut clients = [dial(&server), dial(&server)];
    channels.wait_for(2);
    let [one, other]: [Channel; 2] = channels.take().try_into().unwrap();
    one.set_attribute(other.clone());
    other.set_attribute(one);
    for client in &mut clients {
        client.write_all(b"go").unwrap();
    }
    refused.wait_for(2);
    let mut refused = refused.take();
    refused.sort_unstable();
    assert_eq!(refused, [false, true]);
    for client in &mut clients {
        client.read_exact(&mut [0; 4]).unwrap();
    }
}

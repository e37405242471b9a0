//! Several channels of an event loop that are ready at once.

use std::io::Write;

use bytes::Bytes;
use tidegate_net::{Inbound, InboundContext, NetGroup, Nothing, Server};
use tidegate_testkit::{Log, Stop};

use crate::{dial, group, serve};

/// Logs, for each message, the number of reads of the event loop so far.
#[derive(Clone)]
struct LogEvents {
    group: NetGroup,
    log: Log<(u64, Bytes)>,
}

impl Inbound for LogEvents {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, _ctx: &mut InboundContext<'_, Self>) {
        let reads = self.group.io_metrics()[0].reads;
        self.log.push((reads, bytes));
    }
}

/// Creates a server on one event loop with a `LogEvents` handler for each connection.
fn noting() -> (NetGroup, LogEvents, Server) {
    let group = group(1);
    let notes = LogEvents {
        group: group.clone(),
        log: Log::new(),
    };
    let own = notes.clone();
    let server = serve(&group, move |p| p.add("notes", own.clone()));
    (group, notes, server)
}

/// Keeps the event loop busy while `work` runs, so that it finds all the events at once afterwards.
fn while_busy(group: &NetGroup, work: impl FnOnce()) {
    let stop = Stop::new();
    let busy = group.submit(stop.closure());
    stop.reached();
    work();
    stop.go_on();
    busy.unwrap().wait().unwrap();
}

#[test]
fn several_channels_receive_before_the_first_handler_runs_and_each_gets_its_own_data() {
    let (group, notes, server) = noting();
    let mut peers: Vec<_> = (0..40).map(|_| dial(&server)).collect();
    for peer in &mut peers {
        peer.write_all(b"hello").unwrap();
    }
    notes.log.wait_for(peers.len());
    drop(notes.log.take());
    let before = group.io_metrics()[0].reads;
    while_busy(&group, || {
        for (at, peer) in peers.iter_mut().enumerate() {
            peer.write_all(&[at as u8; 3]).unwrap();
        }
    });
    notes.log.wait_for(peers.len());
    let log = notes.log.take();
    let seen: Vec<u64> = log.iter().map(|(reads, _)| reads - before).collect();
    let groups: Vec<u64> = (1..=5).flat_map(|group| [8 * group; 8]).collect();
    assert_eq!(seen, groups, "8 at a time");
    let mut received: Vec<&Bytes> = log.iter().map(|(_, bytes)| bytes).collect();
    received.sort();
    let sent: Vec<_> = (0..40_u8).map(|at| Bytes::from(vec![at; 3])).collect();
    assert_eq!(received, sent.iter().collect::<Vec<_>>());
}

#[test]
fn a_single_ready_channel_receives_in_its_turn() {
    let (_group, notes, server) = noting();
    let mut peer = dial(&server);
    for round in 1..=3 {
        peer.write_all(b"hello").unwrap();
        notes.log.wait_for(1);
        assert_eq!(notes.log.take(), [(round, Bytes::from("hello"))]);
    }
}

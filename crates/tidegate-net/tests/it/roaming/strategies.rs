//! What the choice of a strategy means for a server: which thread runs a handler, and what a handler
//! that blocks stops.

use std::io::{Read, Write};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::Ticker;
use tidegate_loop::{Quiet, ShutdownError, Watchdog};
use tidegate_net::handlers::LineFrames;
use tidegate_net::{Blocking, Inbound, InboundContext, Nothing};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Gate, Log, until};

use super::*;
use crate::{Echo, dial, round_trip, serve};

const SECOND: Duration = Duration::from_secs(1);

/// Echoes lines. For the line `block` it waits for the gate first.
#[derive(Clone)]
struct Blocks {
    arrived: Gate,
    go_on: Gate,
}

impl Blocks {
    fn new() -> Self {
        Self {
            arrived: Gate::new(),
            go_on: Gate::new(),
        }
    }
}

impl Inbound for Blocks {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if &line[..] == b"block" {
            self.arrived.open();
            self.go_on.wait();
        }
        ctx.write(line);
        ctx.write("\n");
        ctx.flush();
    }
}

fn serve_blocks(group: &NetGroup<Roaming>, blocks: &Blocks) -> Server {
    let blocks = blocks.clone();
    serve(group, move |p| {
        p.add("lines", LineFrames::max(80))
            .add("blocks", blocks.clone())
    })
}

#[test]
fn each_strategy_shows_in_the_counters_of_its_loop() {
    for kind in KINDS {
        let (pool, group) = roaming_with(kind, 8);
        pool.prestart();
        until("threads are idle", || pool.metrics().ready == 8);
        let server = serve(&group, |p| p.add("echo", Echo));
        let mut peer = dial(&server);
        for _ in 0..50 {
            assert_eq!(round_trip(&mut peer, b"hello"), b"hello");
        }
        let counts = group.metrics()[0];
        let chosen = match kind {
            Kind::Pc => counts.pc,
            Kind::Pec => counts.pec,
            Kind::Epc | Kind::Ewyk => counts.epc,
            Kind::Eager => counts.epc + counts.pec,
            // A stand-in, or a thread that finds none, gives tasks away.
            Kind::Late => counts.lent + counts.epc + counts.pec,
        };
        assert!(chosen >= 50, "{kind:?}: {counts}");
    }
}

/// Handlers that may block and handlers that do not, together, on few threads and on many.
#[test]
fn handlers_of_all_kinds_answer_side_by_side() {
    struct Quick(Counter);
    impl Inbound for Quick {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        const BLOCKING: Blocking = Blocking::Never;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            self.0.hit();
            ctx.write(bytes);
            ctx.flush();
        }
    }
    for (kind, threads) in KINDS.into_iter().flat_map(|kind| [(kind, 2), (kind, 8)]) {
        let (_pool, group) = roaming_with(kind, threads);
        let (quick, counter) = Counter::pair();
        let never = serve(&group, move |p| p.add("quick", Quick(counter.clone())));
        let may = serve_blocks(&group, &Blocks::new());
        let (mut one, mut other) = (dial(&never), dial(&may));
        for _ in 0..30 {
            assert_eq!(round_trip(&mut one, b"hello"), b"hello");
            assert_eq!(round_trip(&mut other, b"there\n"), b"there\n");
        }
        assert_eq!(quick.count(), 30, "{kind:?}");
        let over = group.shutdown(Quiet::none(60 * SECOND));
        over.wait().unwrap();
    }
}

#[test]
fn a_drain_ends_idle_connections_under_every_strategy() {
    for (kind, threads) in KINDS.into_iter().flat_map(|kind| [(kind, 2), (kind, 8)]) {
        let (_pool, group, clock) = roaming_by(kind, threads);
        let server = serve_blocks(&group, &Blocks::new());
        let mut peers = [dial(&server), dial(&server)];
        for peer in &mut peers {
            assert_eq!(round_trip(peer, b"hello\n"), b"hello\n");
        }
        let drained = server.drain(10 * SECOND);
        clock.jump(10 * SECOND);
        let report = drained.wait().unwrap();
        assert_eq!((report.open, report.still_running), (2, 0), "{kind:?}");
        for mut peer in peers {
            assert_eq!(peer.read_to_end(&mut Vec::new()).unwrap(), 0);
        }
        let over = group.shutdown(Quiet::none(60 * SECOND));
        over.wait().unwrap();
    }
}

/// Two threads: the loop has one, and one handler blocks the other. The loop itself goes on, and
/// handlers that never block are answered.
#[test]
fn with_two_threads_a_loop_goes_on_beside_a_handler_that_blocks() {
    for kind in [Kind::Pec, Kind::Ewyk, Kind::Eager, Kind::Late] {
        let (_pool, group) = roaming_with(kind, 2);
        let blocks = Blocks::new();
        let server = serve_blocks(&group, &blocks);
        let mut stuck = dial(&server);
        stuck.write_all(b"block\n").unwrap();
        blocks.arrived.wait();
        let timer = group.schedule(Duration::ZERO, || 7).unwrap();
        assert_eq!(timer.wait().unwrap(), 7, "{kind:?}");
        blocks.go_on.open();
        assert_eq!(round_trip(&mut stuck, b"again\n"), b"block\n");
    }
}

#[test]
fn under_produce_consume_a_handler_that_blocks_stops_its_loop_and_can_be_seen() {
    let (_pool, group, clock) = roaming_by(Kind::Pc, 4);
    let (log, told) = Log::pair();
    let (ticker, steps) = Ticker::manual();
    let watchdog = Watchdog::builder().threshold(2 * SECOND).ticker(ticker);
    let watchdog = watchdog.on_stall(move |stall| told.push(stall.name.clone()));
    let watchdog = watchdog.watch(group.next()).build().unwrap();
    let blocks = Blocks::new();
    let server = serve_blocks(&group, &blocks);
    let mut stuck = dial(&server);
    assert_eq!(round_trip(&mut stuck, b"hello\n"), b"hello\n");
    // The loop may still be about to end its task. An idle loop does not stay stalled.
    (0..4).for_each(|_| steps.tick(SECOND));
    until("an idle loop is not stalled", || {
        steps.tick(SECOND);
        !group.next().is_stalled()
    });
    let _ = log.take();
    let before = watchdog.stalls();
    stuck.write_all(b"block\n").unwrap();
    blocks.arrived.wait();
    let next = group.submit(|| 7).unwrap();
    (0..4).for_each(|_| steps.tick(SECOND));
    assert!(!next.is_done());
    assert_eq!((log.take().len(), watchdog.stalls()), (1, before + 1));
    // A shutdown reports it, too.
    let over = group.shutdown(Quiet::none(SECOND));
    until("the deadline has passed", || {
        clock.jump(SECOND);
        over.is_done()
    });
    let over = over.wait();
    assert!(
        matches!(over, Err(WaitError::Failed(ShutdownError::Stuck { .. }))),
        "{over:?}"
    );
    blocks.go_on.open();
}

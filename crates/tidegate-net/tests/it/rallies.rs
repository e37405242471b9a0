//! Messages that the channels of one event loop pass back and forth, for a long time or for ever: no
//! handler runs inside another, and others get their turns.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidegate_loop::Quiet;
use tidegate_net::{
    Channel, Client, Inbound, InboundContext, Message, Neighbour, NetGroup, Nothing, Outbound,
    OutboundContext,
};
use tidegate_promise::{Completion, Failure, Promise, promise};
use tidegate_testkit::{explode, rounds};

use crate::{Echo, group};

/// What the players of a rally share.
struct Rally {
    players: Vec<Channel>,
    /// A handler of a player is running.
    playing: AtomicBool,
    hits: AtomicU64,
    /// The ball flies for ever.
    endless: AtomicBool,
}

/// A message that each player passes to the next one.
struct Ball {
    rally: Arc<Rally>,
    left: u64,
    end: Promise<u64>,
}

impl Ball {
    fn fly(self) {
        let at = self.left as usize % self.rally.players.len();
        let player = self.rally.players[at].clone();
        Neighbour::of(&player).pass(self);
    }
}

impl Message for Ball {
    fn size(&self) -> usize {
        1
    }

    fn refused(self, why: Failure) {
        let _ = self.end.fail(why);
    }
}

/// Passes the ball on. Panics after each ten-thousandth hit.
struct Player;

impl Inbound for Player {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        if !why.is_panic() {
            ctx.fire_error(why);
        }
    }
}

impl Outbound for Player {
    type Take = Ball;
    type Write = Bytes;

    fn write(&mut self, mut ball: Ball, _: &mut OutboundContext<'_, Self>) {
        let rally = Arc::clone(&ball.rally);
        assert!(!rally.playing.swap(true, Ordering::Relaxed), "re-entered");
        let hits = rally.hits.fetch_add(1, Ordering::Relaxed) + 1;
        if ball.left == 0 && !rally.endless.load(Ordering::Relaxed) {
            let _ = ball.end.succeed(hits);
        } else {
            ball.left = ball.left.wrapping_sub(1);
            ball.fly();
        }
        rally.playing.store(false, Ordering::Relaxed);
        if hits.is_multiple_of(10_000) {
            explode();
        }
    }
}

/// Connects so many players on the only loop of a group.
fn rally(group: &NetGroup, players: usize) -> (Arc<Rally>, Vec<UnixStream>) {
    let client = Client::builder(group).pipeline(|p| p.add_duplex("player", Player));
    let client = client.build();
    let connect = |_| {
        let (near, far) = UnixStream::pair().unwrap();
        (client.adopt_unix(near).wait().unwrap(), far)
    };
    let (players, peers) = (0..players).map(connect).unzip();
    let rally = Rally {
        players,
        playing: AtomicBool::new(false),
        hits: AtomicU64::new(0),
        endless: AtomicBool::new(false),
    };
    (Arc::new(rally), peers)
}

/// Begins a rally, in a task of the loop or on this thread.
fn serve(group: &NetGroup, rally: &Arc<Rally>, left: u64, on_loop: bool) -> Completion<u64> {
    let (end, ended) = promise();
    let rally = Arc::clone(rally);
    let ball = Ball { rally, left, end };
    match on_loop {
        true => group.loops().next().execute(move || ball.fly()).unwrap(),
        false => ball.fly(),
    }
    ended
}

#[test]
fn a_long_rally_needs_no_more_of_the_stack_and_loses_no_ball() {
    let group = group(1);
    // With one player, the message is for the channel whose handler runs.
    for (players, hits) in [(1, 10_000), (2, 100_000), (3, 10_000)] {
        let hits = rounds(hits) as u64;
        let (rally, _peers) = rally(&group, players);
        let end = serve(&group, &rally, hits - 1, players == 2);
        assert_eq!(end.wait().unwrap(), hits);
        // The last ball is pending until its turn is over.
        group.iter().for_each(|one| one.settle());
        assert!(rally.players.iter().all(Channel::is_active));
        assert!(rally.players.iter().all(|one| one.pending_bytes() == 0));
    }
}

#[test]
fn others_of_the_loop_have_their_turns_during_an_endless_rally() {
    let group = group(1);
    for players in [1, 2] {
        let (rally, _peers) = rally(&group, players);
        rally.endless.store(true, Ordering::Relaxed);
        let end = serve(&group, &rally, 0, true);
        let echo = Client::builder(&group).pipeline(|p| p.add("echo", Echo));
        let (near, mut far) = UnixStream::pair().unwrap();
        let channel = echo.build().adopt_unix(near).wait().unwrap();
        for _ in 0..20 {
            // A peer, a task, a handle and a timer.
            far.write_all(b"ping").unwrap();
            far.read_exact(&mut [0; 4]).unwrap();
            let home = group.loops().next();
            home.submit(|| ()).unwrap().wait().unwrap();
            channel.flush_with().wait().unwrap();
            let timer = home.schedule(Duration::ZERO, || ());
            timer.ok().unwrap().wait().unwrap();
        }
        assert!(!end.is_done());
        // It ends with one of its players, and the ball is refused, once.
        rally.players[0].close().wait().unwrap();
        let why = end.wait().unwrap_err();
        assert_eq!(why.to_string(), "the channel is closed");
    }
}

#[test]
fn a_loop_that_ends_during_a_rally_refuses_the_ball() {
    let group = group(1);
    let (rally, _peers) = rally(&group, 2);
    rally.endless.store(true, Ordering::Relaxed);
    let end = serve(&group, &rally, 0, true);
    group
        .shutdown(Quiet::none(Duration::from_secs(60)))
        .wait()
        .unwrap();
    let why = end.wait().unwrap_err();
    assert_eq!(why.to_string(), "the channel is closed");
    assert!(rally.players.iter().all(|one| !one.is_active()));
}

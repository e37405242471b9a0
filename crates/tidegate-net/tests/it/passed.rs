//! Messages to the channels of an event loop, in any mix: from handlers, tasks, timers, listeners and
//! drops on that loop, which take them there without the mailbox, and from other threads. Each one
//! reaches its handler or is refused, once, and in the order of its sender.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::ManualClock;
use tidegate_loop::{EventLoop, Quiet};
use tidegate_net::{
    Channel, ChannelOptions, Client, Inbound, InboundContext, Message, Neighbour, NetGroup,
    Nothing, Outbound, OutboundContext, WaterMarks,
};
use tidegate_promise::Failure;
use tidegate_testkit::{Log, Rng, explode, model, short_or_long, until};

/// The number of channels of the event loop.
const CHANNELS: usize = 4;

/// What the handler of a channel does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Nothing,
    /// Sends so many bytes to the peer.
    Output(usize),
    /// Sends further messages.
    Send(usize),
    /// Sends one when a timer is due.
    Later,
    /// Sends one when its own loop runs a task.
    Task,
    Panic,
    /// Takes the channel off its loop, and puts it back.
    Leave,
    Close,
    CloseOther(usize),
    CloseWhenFlushed,
    ShutOutput,
    Abort,
}

/// Everything that the handlers share.
struct World {
    channels: OnceLock<Vec<Channel>>,
    home: EventLoop,
    away: EventLoop,
    rng: Mutex<Rng>,
    /// How many messages may still be sent.
    left: AtomicI64,
    /// Messages may end channels.
    ends: AtomicBool,
    next: AtomicU64,
    sent: AtomicU64,
    handled: AtomicU64,
    refused: AtomicU64,
    /// The promises of writes.
    asked: AtomicU64,
    answered: AtomicU64,
    wrong: Log<String>,
}

impl World {
    fn below(&self, n: usize) -> usize {
        self.rng.lock().unwrap().index(n)
    }

    fn act(&self) -> Act {
        let ends = self.ends.load(Ordering::Relaxed);
        match self.below(if ends { 100 } else { 70 }) {
            0..=11 => Act::Nothing,
            12..=14 => Act::Leave,
            15..=29 => Act::Output(self.below(400)),
            30..=54 => Act::Send(1 + self.below(3)),
            55..=59 => Act::Later,
            60..=64 => Act::Task,
            65..=69 => Act::Panic,
            70..=72 => Act::Close,
            73..=75 => Act::CloseOther(self.below(CHANNELS)),
            76..=78 => Act::CloseWhenFlushed,
            79..=81 => Act::ShutOutput,
            82 => Act::Abort,
            _ => Act::Nothing,
        }
    }

    /// Sends one message in some way, if one is left.
    fn send(self: &Arc<Self>) {
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return;
        }
        let (way, act) = (self.below(12), self.act());
        let Some(channel) = self.channels.get().map(|all| &all[self.below(CHANNELS)]) else {
            return;
        };
        let note = Note {
            from: thread::current().id(),
            number: self.next.fetch_add(1, Ordering::Relaxed),
            size: self.below(120),
            act,
            world: Arc::clone(self),
            ended: false,
        };
        self.sent.fetch_add(1, Ordering::Relaxed);
        match way {
            0..=6 => Neighbour::of(channel).pass(note),
            7 => channel.write_and_flush(note),
            8 => {
                channel.write(note);
                Neighbour::of(channel).flush();
            }
            9 => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let own = Arc::clone(self);
                channel.write_and_flush_with(note).finally(move |_| {
                    own.answered.fetch_add(1, Ordering::Relaxed);
                    own.send();
                });
            }
            10 => {
                Neighbour::of(channel).pass(note);
                let own = Arc::clone(self);
                let room = channel.writable();
                self.asked.fetch_add(1, Ordering::Relaxed);
                room.finally(move |_| {
                    own.answered.fetch_add(1, Ordering::Relaxed);
                    own.send();
                });
            }
            _ => {
                Neighbour::of(channel).pass(note);
                channel.fire_event(());
            }
        }
    }

    /// Returns `true` if every message has ended.
    fn is_done(&self) -> bool {
        let ended = self.handled.load(Ordering::Relaxed) + self.refused.load(Ordering::Relaxed);
        ended == self.sent.load(Ordering::Relaxed)
    }

    /// Returns `true` if every promise has ended.
    fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed) == self.asked.load(Ordering::Relaxed)
    }
}

/// A message that must reach its handler or be refused.
struct Note {
    from: ThreadId,
    number: u64,
    size: usize,
    act: Act,
    world: Arc<World>,
    ended: bool,
}

impl Note {
    fn end(&mut self, count: impl FnOnce(&World) -> &AtomicU64) {
        if std::mem::replace(&mut self.ended, true) {
            self.world
                .wrong
                .push(format!("{} ended twice", self.number));
        }
        count(&self.world).fetch_add(1, Ordering::Relaxed);
    }
}

impl Message for Note {
    fn size(&self) -> usize {
        self.size
    }

    fn refused(mut self, _: Failure) {
        self.end(|world| &world.refused);
        if self.act == Act::Task {
            self.world.send();
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if !self.ended {
            self.world.wrong.push(format!("{} was lost", self.number));
        }
    }
}

struct Node {
    world: Arc<World>,
    last: HashMap<ThreadId, u64>,
}

impl Inbound for Node {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {
        self.world.send();
    }

    fn event(&mut self, _: tidegate_net::UserEvent, _: &mut InboundContext<'_, Self>) {
        self.world.send();
    }

    fn writability(&mut self, _: bool, _: &mut InboundContext<'_, Self>) {
        self.world.send();
    }

    fn timer(&mut self, _: u64, _: &mut InboundContext<'_, Self>) {
        self.world.send();
    }

    fn deadline(&mut self, _: u8, _: &mut InboundContext<'_, Self>) {
        self.world.send();
    }

    fn error(&mut self, _: Failure, _: &mut InboundContext<'_, Self>) {
        self.world.send();
    }

    fn inactive(&mut self, _: &mut InboundContext<'_, Self>) {
        self.world.send();
    }
}

impl Outbound for Node {
    type Take = Note;
    type Write = Bytes;

    fn write(&mut self, mut note: Note, ctx: &mut OutboundContext<'_, Self>) {
        let last = self.last.insert(note.from, note.number);
        if last.is_some_and(|last| last > note.number) {
            let wrong = format!("{last:?} before {}", note.number);
            self.world.wrong.push(wrong);
        }
        note.end(|world| &world.handled);
        match note.act {
            Act::Nothing => {}
            Act::Output(size) => {
                ctx.write_and_flush(Bytes::from(vec![b'x'; size]));
            }
            Act::Send(number) => (0..number).for_each(|_| self.world.send()),
            Act::Later => {
                let after = Duration::from_millis(self.world.below(50) as u64);
                match self.world.below(2) {
                    0 => drop(ctx.schedule(after, 0)),
                    _ => ctx.deadline(0, after),
                }
            }
            Act::Task => {
                let (own, at) = (Arc::clone(&self.world), self.world.below(2));
                let on = [&self.world.home, &self.world.away][at];
                let _ = on.execute(move || own.send());
            }
            Act::Panic => {
                self.world.send();
                explode();
            }
            Act::Leave => {
                let own = ctx.channel();
                own.deregister().finally(move |_| drop(own.register()));
            }
            Act::Close => ctx.close(),
            Act::CloseWhenFlushed => ctx.close_when_flushed(),
            Act::ShutOutput => ctx.shutdown_output(),
            Act::CloseOther(other) => {
                if let Some(all) = self.world.channels.get() {
                    all[other].close();
                }
            }
            Act::Abort => drop(ctx.channel().abort()),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.world.send();
    }
}

/// The groups, the peers and the clock of a run.
struct Run {
    world: Arc<World>,
    peers: Vec<UnixStream>,
    clock: ManualClock,
    groups: [NetGroup; 2],
}

impl Run {
    /// Begins a run.
    fn new(rng: &mut Rng) -> Self {
        let clock = ManualClock::new();
        let group = |name: &str| {
            let group = NetGroup::builder(name).loops(1).clock(&clock);
            group.on_unhandled(|_, _| ()).build().unwrap()
        };
        let groups = [group("home"), group("away")];
        let world = Arc::new(World {
            channels: OnceLock::new(),
            home: groups[0].loops().next().clone(),
            away: groups[1].loops().next().clone(),
            rng: Mutex::new(rng.fork()),
            left: AtomicI64::new(0),
            ends: AtomicBool::new(false),
            next: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            wrong: Log::new(),
        });
        let options = ChannelOptions {
            marks: WaterMarks::new(200, 500, 3000).unwrap(),
            close_timeout: Duration::from_millis(500),
            half_closure: rng.chance(0.5),
            ..ChannelOptions::default()
        };
        let own = Arc::clone(&world);
        let client = Client::builder(&groups[0])
            .options(options)
            .pipeline(move |p| {
                let (world, last) = (Arc::clone(&own), HashMap::new());
                let node = Node { world, last };
                p.add_duplex("node", node)
            })
            .build();
        let (mut channels, mut peers) = (Vec::new(), Vec::new());
        for _ in 0..CHANNELS {
            let (near, far) = UnixStream::pair().unwrap();
            far.set_nonblocking(true).unwrap();
            channels.push(client.adopt_unix(near).wait().unwrap());
            peers.push(far);
        }
        world.channels.set(channels).ok().unwrap();
        Self {
            world,
            peers,
            clock,
            groups,
        }
    }

    /// Sends `number` messages from here and there, and all that follow from them.
    fn storm(&mut self, number: i64, rng: &mut Rng) {
        self.world.left.store(number, Ordering::Relaxed);
        while self.world.left.load(Ordering::Relaxed) > 0 {
            let own = Arc::clone(&self.world);
            match rng.index(8) {
                0 | 1 => own.send(),
                2 | 3 => {
                    let times = 1 + rng.index(4);
                    let home = own.home.clone();
                    let _ = home.execute(move || (0..times).for_each(|_| own.send()));
                }
                4 => drop(own.away.clone().execute(move || own.send())),
                5 => self.clock.advance(Duration::from_millis(rng.below(20))),
                6 => {
                    let peer = rng.index(CHANNELS);
                    let _ = self.peers[peer].write(b"go");
                }
                _ => self.read_some(rng.index(CHANNELS)),
            }
        }
    }

    /// Reads what has come to a peer.
    fn read_some(&mut self, peer: usize) {
        let mut buffer = [0; 4096];
        while self.peers[peer]
            .read(&mut buffer)
            .is_ok_and(|read| read > 0)
        {}
    }

    /// Waits until `done`, while the peers read.
    fn wait_for(&mut self, what: &str, done: impl Fn(&World) -> bool) {
        until(what, || {
            (0..CHANNELS).for_each(|peer| self.read_some(peer));
            self.clock.advance(Duration::from_millis(5));
            self.groups
                .iter()
                .for_each(|group| group.loops().next().settle());
            done(&self.world)
        });
    }

    /// Waits until everything that was sent has ended, while the peers read.
    fn rest(&mut self, what: &str) {
        self.wait_for(what, World::is_done);
        assert_eq!(self.world.wrong.take(), Vec::<String>::new());
    }
}

/// Sends messages that end no channel.
#[test]
fn each_message_is_handled_once_in_the_order_of_its_thread() {
    model(0..short_or_long(20, 2_000), |rng| {
        let mut run = Run::new(rng);
        for _ in 0..3 {
            run.storm(300, rng);
            run.rest("every message was handled or refused");
            let all = run.world.channels.get().unwrap().clone();
            run.wait_for("nothing is pending", |world| {
                let calm = |one: &Channel| one.pending_bytes() == 0 && one.is_writable();
                all.iter().all(calm) && world.is_answered()
            });
            assert!(all.iter().all(Channel::is_active), "no message ended one");
        }
    });
}

/// Sends messages, some of which end channels, and ends the loop of the channels.
#[test]
fn messages_and_ends_meet_at_random_points() {
    model(0..short_or_long(40, 4_000), |rng| {
        let mut run = Run::new(rng);
        run.storm(100, rng);
        run.world.ends.store(true, Ordering::Relaxed);
        run.storm(300, rng);
        if rng.chance(0.5) {
            run.rest("every message has ended before the loop");
        }
        let quiet = Quiet::none(Duration::from_secs(60));
        let end = run.groups[0].shutdown(quiet);
        if rng.chance(0.5) {
            run.storm(20, rng);
        }
        until("the loop has ended", || {
            run.clock.advance(Duration::from_secs(1));
            end.is_done()
        });
        run.rest("every message has ended");
        let all = run.world.channels.get().unwrap().clone();
        run.wait_for("every promise has ended", World::is_answered);
        assert!(all.iter().all(|one| one.pending_bytes() == 0));
    });
}

//! The contestants of the hand-off suite and their set-ups: of each peer the ones that were fastest
//! with some number of producers, with boxed closures or with fixed messages of 32 bytes. In a window
//! the harness keeps the bound, so that the channel need not have one.

use super::OUTSTANDING;
use super::drive::{Run, drive};
use super::lane::Lane;
use crate::contest::{Limit, LoopContestant};
use crate::peers::channel::{BoxedLoop, Channel, ChannelLoop};
use crate::peers::crossbeam::{Crossbeam, Segments};
use crate::peers::kanal::{Kanal, KanalDrain};
use crate::peers::std_mpsc::{StdChannel, StdSyncChannel};
use crate::report::Role;
use crate::rounds::{Entry, Outcome};

/// The contestant enforces the bound itself.
const OWN: Limit = Limit::Own(OUTSTANDING);

/// The harness enforces the bound.
const WINDOW: Limit = Limit::Window(OUTSTANDING);

/// A task as a fixed message of 32 bytes: a function and its arguments.
struct Message {
    run: fn(&'static Lane, u64, u64),
    lane: &'static Lane,
    number: u64,
    /// Padding, so that the message is as large as one of our granules.
    spare: u64,
}

const _: () = assert!(size_of::<Message>() == 32, "a fixed message has 32 bytes");

/// The contestants of one table.
pub(crate) struct Lineup {
    producers: usize,
    pub(super) entries: Vec<Entry>,
}

impl Lineup {
    /// Creates an empty line-up.
    pub(super) fn new(producers: usize) -> Self {
        Lineup {
            producers,
            entries: Vec::new(),
        }
    }

    /// Adds a loop that takes closures.
    pub(crate) fn add<L: LoopContestant>(&mut self, name: &str, role: Role, limit: Limit) {
        let contestant = name.to_owned();
        let producers = self.producers;
        let run = move |tasks| {
            let target = L::start("bench-loop", limit);
            let before = target.wakeups();
            let run = Run {
                contestant: &contestant,
                producers,
                tasks,
                window: limit.window(),
            };
            let elapsed = drive(run, &|lane, number| {
                target.submit(move || lane.run(number));
            });
            let woken = target.wakeups().zip(before).map(|(after, before)| {
                let woken = after.saturating_sub(before);
                woken as f64 * 1000.0 / tasks as f64
            });
            target.stop();
            Outcome::millions(elapsed, tasks).beside(woken)
        };
        self.entries.push(Entry::new(name, role, run));
    }

    /// Adds a channel of fixed messages.
    fn add_inline<C: Channel>(&mut self, name: &str, limit: Limit) {
        let contestant = name.to_owned();
        let producers = self.producers;
        let run = move |tasks| {
            let each = |message: Message| {
                (message.run)(message.lane, message.number, message.spare);
            };
            let target = ChannelLoop::<C, Message>::start("bench-loop", limit, each);
            let run = Run {
                contestant: &contestant,
                producers,
                tasks,
                window: limit.window(),
            };
            let elapsed = drive(run, &|lane, number| {
                target.send(Message {
                    run: |lane, number, _| lane.run(number),
                    lane,
                    number,
                    spare: 0,
                });
            });
            target.stop();
            Outcome::millions(elapsed, tasks)
        };
        let name = format!("{name} 32B");
        self.entries.push(Entry::new(&name, Role::Inline, run));
    }

    /// Adds a channel of boxed closures.
    fn add_boxed<C: Channel>(&mut self, name: &str, limit: Limit) {
        self.add::<BoxedLoop<C>>(name, Role::Peer, limit);
    }

    /// Adds the peers with at most 65,536 outstanding tasks.
    pub(super) fn add_bounded_peers(&mut self) {
        self.add_inline::<Crossbeam>("crossbeam-channel bounded", OWN);
        self.add_boxed::<Crossbeam>("crossbeam-channel window", WINDOW);
        self.add_inline::<Crossbeam>("crossbeam-channel window", WINDOW);
        self.add_inline::<StdSyncChannel>("std sync_channel", OWN);
        self.add_boxed::<StdChannel>("std channel window", WINDOW);
        self.add_boxed::<Kanal>("kanal bounded", OWN);
        self.add_inline::<Kanal>("kanal bounded", OWN);
        self.add_boxed::<Kanal>("kanal window", WINDOW);
        self.add_boxed::<KanalDrain>("kanal drain window", WINDOW);
        self.add_inline::<KanalDrain>("kanal drain window", WINDOW);
        self.add_boxed::<Segments<false>>("segqueue+park window", WINDOW);
        self.add_inline::<Segments<false>>("segqueue+park window", WINDOW);
    }
}

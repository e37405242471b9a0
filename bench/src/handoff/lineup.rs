//! The contestants of the hand-off suite and their set-ups.
//!
//! Each channel is a row with its own bounded constructor ("bounded") and a row without a bound
//! where the harness keeps the window ("window"), each with boxed closures and with fixed messages
//! of 32 bytes. So no choice of set-up can favour us: the ratio takes the best row. The list below
//! says what trials on two CPUs showed, and therefore what `--quick` keeps. (Builds ran beside some
//! of the trials with two and four producers: run the full suite on a quiet machine to renew this.)
//! - kanal is the best boxed peer: 5 to 8 Mtask/s with one and two producers in all three set-ups.
//!   With four, only draining in batches (8 to 10) is level with crossbeam-channel and SegQueue (8
//!   to 9). All three stay.
//! - crossbeam-channel, `std::sync::mpsc` and SegQueue with boxed closures are bound by malloc, and
//!   within 15 % of each other at one producer (3.4 to 3.9). From two producers on, the window
//!   beats their bounded constructors (6.3 against 4.2 for crossbeam), so `--quick` keeps the
//!   window. With fixed messages the bounded array is level or better.
//! - SegQueue: spinning before it parks changes nothing here (it does in the ping-pong).
//! - tokio mpsc: `recv_many` helps at one producer only; never above 3.8. `--quick` leaves it out,
//!   and also the runtimes, which create one task object per closure: 0.7 to 1.5 Mtask/s. Without
//!   an I/O driver tokio's current_thread is 1.6 times as fast as with one (which writes to its
//!   eventfd at every spawn).

use super::OUTSTANDING;
use super::drive::{Run, drive};
use super::lane::Lane;
use crate::contest::{Limit, LoopContestant};
use crate::peers::async_executor::AsyncExecutor;
use crate::peers::channel::{BoxedLoop, Channel, ChannelLoop};
use crate::peers::crossbeam::{Crossbeam, Segments};
use crate::peers::kanal::{Kanal, KanalDrain};
use crate::peers::std_mpsc::{StdChannel, StdSyncChannel};
use crate::peers::tokio_mpsc::{TokioBounded, TokioUnbounded};
use crate::peers::tokio_spawn::{CurrentThread, MultiThread};
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
    pub(crate) fn add<L: LoopContestant>(
        &mut self,
        name: &str,
        role: Role,
        limit: Limit,
        quick: bool,
    ) {
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
        self.push(name, role, quick, run);
    }

    /// Adds a channel of fixed messages.
    fn add_inline<C: Channel>(&mut self, name: &str, limit: Limit, quick: bool) {
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
        self.push(name, Role::Inline, quick, run);
    }

    /// Adds a channel twice: with boxed closures and with fixed messages.
    fn add_channel<C: Channel>(&mut self, name: &str, limit: Limit, quick: Quick) {
        self.add::<BoxedLoop<C>>(name, Role::Peer, limit, quick.boxed);
        self.add_inline::<C>(&format!("{name} 32B"), limit, quick.inline);
    }

    fn push(
        &mut self,
        name: &str,
        role: Role,
        quick: bool,
        run: impl FnMut(u64) -> Outcome + 'static,
    ) {
        self.entries.push(Entry::new(name, role, run).quick(quick));
    }

    /// Adds the peers with at most 65,536 outstanding tasks.
    pub(super) fn add_bounded_peers(&mut self) {
        self.add_channel::<Crossbeam>("crossbeam-channel bounded", OWN, INLINE);
        self.add_channel::<Crossbeam>("crossbeam-channel window", WINDOW, BOTH);
        self.add_channel::<StdSyncChannel>("std sync_channel", OWN, INLINE);
        self.add_channel::<StdChannel>("std channel window", WINDOW, BOXED);
        self.add_channel::<Kanal>("kanal bounded", OWN, BOTH);
        self.add_channel::<Kanal>("kanal window", WINDOW, BOXED);
        self.add_channel::<KanalDrain>("kanal drain window", WINDOW, BOTH);
        self.add_channel::<Segments<false>>("segqueue+park window", WINDOW, BOTH);
        self.add_channel::<Segments<true>>("segqueue+spin+park window", WINDOW, NEITHER);
        self.add_channel::<TokioBounded<false>>("tokio mpsc bounded", OWN, NEITHER);
        self.add_channel::<TokioBounded<true>>("tokio mpsc bounded recv_many", OWN, NEITHER);
        self.add_channel::<TokioUnbounded<false>>("tokio mpsc window", WINDOW, NEITHER);
        self.add_channel::<TokioUnbounded<true>>("tokio mpsc window recv_many", WINDOW, NEITHER);
        self.add_spawners();
    }

    /// Adds the runtimes: one task object per closure, without a bound of their own.
    fn add_spawners(&mut self) {
        let limit = WINDOW;
        type Plain = CurrentThread<false>;
        type PlainMulti = MultiThread<false>;
        self.add::<Plain>("tokio current_thread", Role::Peer, limit, false);
        self.add::<CurrentThread<true>>("tokio current_thread+io", Role::Peer, limit, false);
        self.add::<PlainMulti>("tokio multi_thread(1)", Role::Peer, limit, false);
        self.add::<MultiThread<true>>("tokio multi_thread(1)+io", Role::Peer, limit, false);
        self.add::<AsyncExecutor>("async-executor", Role::Peer, limit, false);
    }
}

/// Which of a channel's two rows `--quick` runs.
#[derive(Clone, Copy)]
struct Quick {
    boxed: bool,
    inline: bool,
}

const BOTH: Quick = Quick {
    boxed: true,
    inline: true,
};

const BOXED: Quick = Quick {
    boxed: true,
    inline: false,
};

const INLINE: Quick = Quick {
    boxed: false,
    inline: true,
};

const NEITHER: Quick = Quick {
    boxed: false,
    inline: false,
};

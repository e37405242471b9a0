//! The states of a connection: four enums with one meaning each, and the flags of the moment.
//!
//! ```text
//!  Life                      Input                Output               RequestedEnd
//!
//!  New ───────► Connecting   Open                 Open                 None
//!   │                │        │ the peer           │ the sending half    │ close behind what
//!   │ connected      │        │ writes no more     │ is to be closed     │ was written
//!   ▼                ▼        ▼                    ▼                    ▼
//!  Open ◄──────────────      HungUp               Ending               WhenFlushed
//!   │ ▲                       │ its end was        │ everything is       │ close at once
//!   │ │ deregister            │ read               │ sent                │
//!   ▼ │ register              ▼                    ▼                    ▼
//!  Off                       Shut                 Shut                 Now
//!
//!  any ───────► Closed       Open ─► Shut         Shut ─► Ending       None ─► Now
//! ```
//!
//! All of it belongs to the channel's loop, or to the task that the channel travels with: there is one
//! thread at a time. Who may change what, and where [`Life`] stands then:
//!
//! | what | who changes it | in which life |
//! |---|---|---|
//! | `life` to `Open` or `Connecting` | `core`, with the first event and with the end of a connect | `New`, `Connecting` |
//! | `life` to `Off` and back | `registration` | `Open`, `Off` |
//! | `life` to `Closed` | `close` | any but `Closed` |
//! | `input` to `HungUp` | `core` and `registration`, when the poller says so | `Open`, `Off` |
//! | `input` to `Shut` | `core`, when a read finds the end | `Open` |
//! | `output` to `Ending` | the handlers, through [`ChannelIo`](super::ChannelIo) | any |
//! | `output` to `Shut` | `close`, when everything is sent | `Open` |
//! | `end` | the handlers, through [`ChannelIo`](super::ChannelIo); never back | any |
//! | readiness hints | `core`, `flush`, `fast_path`, `batch`; `registration` on the way back | any but `Closed` |
//! | requests of a turn | the handlers set them; `core`, `flush` and `fast_path` clear them | any |
//! | writability | [`ChannelIo`](super::ChannelIo), as what waits grows and shrinks | any |

use std::collections::VecDeque;
use std::io;

use tidegate_promise::{Failure, Promise};

use super::start::{Connecting, Start};
use crate::reactor::Next;

/// How far the life of a connection has come.
pub(crate) enum Life {
    /// Registered, and its handlers know nothing yet.
    New(Start),
    Connecting(Box<Connecting>),
    Open,
    /// Nobody watches its socket.
    Off(Box<Off>),
    Closed,
}

/// The receiving half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Open,
    /// The peer writes no more: reads go on to the end.
    HungUp,
    /// The end was read.
    Shut,
}

/// The sending half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Open,
    /// It is to be closed behind what was written so far; more is not taken.
    Ending,
    Shut,
}

/// The end of the connection that was asked for. Once there is one, nothing is read and no write is
/// taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedEnd {
    None,
    /// Behind what was written so far.
    WhenFlushed,
    /// As soon as the running handlers have returned.
    Now,
}

/// What is known, asked for or told for the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    // Readiness hints.

    /// The socket has something to read, as far as is known.
    pub(crate) const READ_READY: Self = Self(1);
    /// The socket takes no more for now.
    pub(crate) const WRITE_BLOCKED: Self = Self(1 << 1);

    // Requests of a turn.

    /// Its turn was over before it had written or told everything.
    pub(crate) const TURN_OWED: Self = Self(1 << 2);
    /// What was flushed is to be sent.
    pub(crate) const FLUSH: Self = Self(1 << 3);
    /// One read was asked for.
    pub(crate) const READ: Self = Self(1 << 4);
    /// The handlers have heard that a read is complete.
    pub(crate) const READ_COMPLETED: Self = Self(1 << 5);

    // Writability.

    /// More waits than the marks allow.
    pub(crate) const ABOVE_MARKS: Self = Self(1 << 6);
    /// It was not writable for a while since the handlers were told.
    pub(crate) const DIPPED: Self = Self(1 << 7);
    /// The handlers were told last that it is not writable.
    pub(crate) const TOLD_UNWRITABLE: Self = Self(1 << 8);
    /// Other threads were shown last that it is not writable.
    pub(crate) const SHOWN_UNWRITABLE: Self = Self(1 << 9);

    // How it reads and writes.

    /// Reads on its own: wished for, not held up, and no end was asked for.
    pub(crate) const AUTO_READ: Self = Self(1 << 10);
    /// The user wants the channel to read on its own.
    pub(crate) const AUTO_READ_WISHED: Self = Self(1 << 11);
    /// A handler wants to hear of the peer's end before the channel is closed for it.
    pub(crate) const TELL_INPUT_END: Self = Self(1 << 12);
    /// The channel speaks in datagrams, not in bytes.
    pub(crate) const DATAGRAMS: Self = Self(1 << 13);

    // What went wrong with writes and handlers.

    /// The handlers know that a write was refused, and none was taken since.
    pub(crate) const REFUSAL_TOLD: Self = Self(1 << 14);
    /// A write for which nobody waits came after the end, and no flush has told so.
    pub(crate) const LOST: Self = Self(1 << 15);
    /// What the handlers do has no end: nothing that follows from it is carried out any more.
    pub(crate) const CUT: Self = Self(1 << 16);

    /// These and those.
    pub(crate) const fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Returns `true` if any of `flags` is set.
    #[inline(always)]
    pub(crate) fn any(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns `true` if, of `those`, exactly `flags` are set.
    #[inline(always)]
    pub(crate) fn only(self, flags: Self, those: Self) -> bool {
        self.0 & those.0 == flags.0
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, flags: Self) {
        self.0 |= flags.0;
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self, flags: Self) {
        self.0 &= !flags.0;
    }

    #[inline(always)]
    pub(crate) fn put(&mut self, flags: Self, yes: bool) {
        match yes {
            true => self.set(flags),
            false => self.clear(flags),
        }
    }

    /// Clears `flags`. Returns `true` if any of them was set.
    #[inline(always)]
    pub(crate) fn take(&mut self, flags: Self) -> bool {
        let any = self.any(flags);
        self.clear(flags);
        any
    }
}

/// The state of one connection.
pub(crate) struct State {
    pub(crate) life: Life,
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) end: RequestedEnd,
    /// Handlers elsewhere for whom too much waits.
    holds: u8,
    pub(crate) flags: Flags,
}

/// What makes a channel read.
const READS: Flags = Flags::AUTO_READ.and(Flags::READ);

impl State {
    /// An open connection, which reads on its own or not.
    pub(crate) fn new(auto_read: bool) -> Self {
        let mut state = Self {
            life: Life::Open,
            input: Input::Open,
            output: Output::Open,
            end: RequestedEnd::None,
            holds: 0,
            flags: Flags(0),
        };
        state.set_auto_read(auto_read);
        state
    }

    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.life, Life::Open)
    }

    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.life, Life::Closed)
    }

    /// Returns `true` if an end was asked for: nothing that comes now is read or written.
    #[inline(always)]
    pub(crate) fn ends(&self) -> bool {
        self.end != RequestedEnd::None
    }

    /// Returns `true` if the connection or its sending half is to be ended.
    #[inline(always)]
    pub(crate) fn has_end_to_do(&self) -> bool {
        self.ends() | (self.output == Output::Ending)
    }

    /// Returns `true` if a write is not too late.
    #[inline(always)]
    pub(crate) fn takes_writes(&self) -> bool {
        !(self.ends() | (self.output != Output::Open) | self.is_closed())
    }

    /// Returns `true` if there may be something to read, and somebody wants it.
    #[inline(always)]
    pub(crate) fn is_to_read(&self) -> bool {
        self.flags.any(Flags::READ_READY) && self.flags.any(READS)
    }

    /// Notes that the peer writes no more.
    pub(crate) fn hang_up(&mut self) {
        if self.input == Input::Open {
            self.input = Input::HungUp;
        }
    }

    /// Asks for an end; one that was asked for before and is sooner stays.
    pub(crate) fn request_end(&mut self, end: RequestedEnd) {
        if self.end != RequestedEnd::Now {
            self.end = end;
        }
        self.flags.clear(READS);
    }

    /// Lets it read on its own, or only when asked.
    pub(crate) fn set_auto_read(&mut self, yes: bool) {
        if self.flags.any(Flags::AUTO_READ_WISHED) && !yes {
            // A wish from before is one of those that end here.
            self.flags.clear(Flags::READ);
        }
        self.flags.put(Flags::AUTO_READ_WISHED, yes);
        self.decide_auto_read();
    }

    /// Reads no more on its own until [`State::release_reads`], whatever anybody wishes.
    pub(crate) fn hold_reads(&mut self) {
        // Of more than that many some let go early: still better than never.
        self.holds = self.holds.saturating_add(1);
        self.decide_auto_read();
    }

    /// Ends a [`State::hold_reads`]. Returns `true` if it reads on its own from now on.
    pub(crate) fn release_reads(&mut self) -> bool {
        self.holds = self.holds.saturating_sub(1);
        self.decide_auto_read();
        self.flags.any(Flags::AUTO_READ)
    }

    fn decide_auto_read(&mut self) {
        let wished = self.flags.any(Flags::AUTO_READ_WISHED);
        let reads = wished && self.holds == 0 && !self.ends();
        self.flags.put(Flags::AUTO_READ, reads);
    }
}

/// What a channel off its loop knows of that.
pub(crate) struct Off {
    pub(super) phase: Phase,
    /// Who asked for the change that is going on.
    pub(super) promise: Option<Promise<()>>,
    /// The loop has still to be asked for that change.
    pub(super) ask: bool,
    /// How it went.
    pub(super) said: Option<io::Result<()>>,
    /// What was asked meanwhile, oldest first: to be on the loop, or off it.
    pub(super) wishes: VecDeque<(bool, Promise<()>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Leaving,
    Off,
    Returning,
}

impl Off {
    pub(super) fn leaving(promise: Promise<()>) -> Box<Self> {
        Box::new(Self {
            phase: Phase::Leaving,
            promise: Some(promise),
            ask: true,
            said: None,
            wishes: VecDeque::new(),
        })
    }

    /// Whether the poller knows of the socket, or is about to.
    pub(super) fn is_watched(&self) -> bool {
        self.phase != Phase::Off
    }

    pub(super) fn note(&mut self, said: io::Result<()>) {
        self.said = Some(said);
    }

    /// What the loop has to do for it.
    pub(super) fn next(&mut self) -> Next {
        if std::mem::take(&mut self.ask) {
            Next::Watch(self.phase == Phase::Returning)
        } else {
            Next::Stay
        }
    }

    /// The channel is closed: whoever asked for something hears so.
    pub(super) fn refuse(self, closed: &Failure) {
        let wishes = self.wishes.into_iter().map(|(_, promise)| promise);
        for promise in self.promise.into_iter().chain(wishes) {
            let _ = promise.fail(closed.clone());
        }
    }
}

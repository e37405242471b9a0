//! The state of a connection: four enums with one meaning each, and a set of flags.
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
//! All of it belongs to the channel's loop, or to the task into which a roaming channel is moved:
//! one thread at a time uses it. Which module may change what, and in which [`Life`]:
//!
//! | what | changed by | in which life |
//! |---|---|---|
//! | `life` to `Open`, `Connecting` | `core`: first event, end of a connect | `New`, `Connecting` |
//! | `life` to `Off` and back | `registration` | `Open`, `Off` |
//! | `life` to `Closed` | `close` | any but `Closed` |
//! | `input` to `HungUp` | `core`, `registration` and `requests`, when the poller or the peer reports it | `Open`, `Off` |
//! | `input` to `Shut` | `core` and `linger`, when a read finds the end | `Open`; `linger` also `Off` |
//! | `output` to `Ending` | the handlers, through [`ChannelIo`](super::ChannelIo) | any |
//! | `output` to `Shut` | `close` and `linger`, when everything is sent | `Open`; `linger` also `Off` |
//! | `end` | the handlers, through [`ChannelIo`](super::ChannelIo); never back | any |
//! | `life` to `Closed`, with the socket handed over | `release` | `Off` |
//! | readiness hints | every file of `ChannelCore`'s methods but `close` | any but `Closed` |
//! | requests of a turn | the handlers set them; `core`, `flush` and `fast_path` clear them | any |
//! | writability | [`ChannelIo`](super::ChannelIo), as the pending size changes | any |

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;

use tidegate_promise::{Failure, Promise};

use super::start::{Connecting, Start};
use crate::reactor::Next;
use crate::sys::Readiness;

/// The phase of a connection.
pub(crate) enum Life {
    /// Registered; its handlers have not been notified yet.
    New(Start),
    Connecting(Box<Connecting>),
    Open,
    /// Off its loop: the poller does not watch its socket.
    Off(Box<Deregistration>),
    Closed,
}

/// The receiving half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Open,
    /// The peer has closed its sending half: reads continue to the end.
    HungUp,
    /// The end was read.
    Shut,
}

/// The sending half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Open,
    /// To be closed after everything written so far; no more writes are accepted.
    Ending,
    Shut,
}

/// The requested end of the connection. Once there is one, nothing is read and no write is
/// accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequestedEnd {
    None,
    /// After everything written so far is sent.
    WhenFlushed,
    /// Everything is sent and the sending half is closed: when the peer ends, too, or its time for that
    /// is over.
    Lingering,
    /// As soon as the running handlers have returned.
    Now,
}

/// Readiness hints, requests, and the values last reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    // Readiness hints.

    /// The socket may have something to read.
    pub(crate) const READ_READY: Self = Self(1);
    /// The socket accepts no more data for now.
    pub(crate) const WRITE_BLOCKED: Self = Self(1 << 1);

    // Requests of a turn.

    /// The turn ended before everything was written or reported.
    pub(crate) const TURN_OWED: Self = Self(1 << 2);
    /// The channel wants to read once more, after the other sources.
    pub(crate) const READ_AGAIN: Self = Self(1 << 18);
    /// The channel wants to write once more, after the other sources.
    pub(crate) const WRITE_AGAIN: Self = Self(1 << 19);
    /// Flushed data has to be sent.
    pub(crate) const FLUSH: Self = Self(1 << 3);
    /// One read was requested.
    pub(crate) const READ: Self = Self(1 << 4);
    /// The handlers were notified that a read is complete.
    pub(crate) const READ_COMPLETED: Self = Self(1 << 5);

    // Writability.

    /// More is pending than the water marks allow.
    pub(crate) const ABOVE_MARKS: Self = Self(1 << 6);
    /// The channel was unwritable for a while since the handlers were last notified.
    pub(crate) const DIPPED: Self = Self(1 << 7);
    /// The last event reported to the handlers that the channel is not writable.
    pub(crate) const REPORTED_UNWRITABLE: Self = Self(1 << 8);
    /// Other threads were last shown that the channel is not writable.
    pub(crate) const SHOWN_UNWRITABLE: Self = Self(1 << 9);

    // Reading and writing.

    /// The channel reads on its own: the user wants it, and no end was requested.
    pub(crate) const AUTO_READ: Self = Self(1 << 10);
    /// A handler wants to be notified of the peer's end before the channel is closed for it.
    pub(crate) const REPORT_INPUT_END: Self = Self(1 << 12);
    /// The channel uses datagrams, not a stream of bytes.
    pub(crate) const DATAGRAMS: Self = Self(1 << 13);

    /// The channel stays open when the peer closes its sending half.
    pub(crate) const HALF_CLOSURE: Self = Self(1 << 17);

    /// The channel closes when the peer has closed its sending half, even while it does not read.
    pub(crate) const CLOSE_ON_HANG_UP: Self = Self(1 << 22);

    /// The close drops what is not sent, and resets the connection.
    pub(crate) const ABORTED: Self = Self(1 << 23);

    /// The peer may still be sending when everything is sent: the close waits for its end.
    pub(crate) const LINGERS: Self = Self(1 << 24);

    /// The channel took a write of another channel of its loop, and gets a turn for it at the end
    /// of the task.
    pub(crate) const NEIGHBOUR_WROTE: Self = Self(1 << 20);
    /// Requests of this loop's thread are queued, or the channel took a message of it, for which the
    /// channel gets that turn.
    pub(crate) const NEIGHBOUR_REQUESTED: Self = Self(1 << 21);

    // Errors of writes and handlers.

    /// The handlers were notified that a write was refused, and none was accepted since.
    pub(crate) const REFUSAL_REPORTED: Self = Self(1 << 14);
    /// A write without a promise was refused or came after the end, and no flush has reported it yet.
    pub(crate) const LOST: Self = Self(1 << 15);
    /// The handlers trigger each other without end: nothing that follows from their events is
    /// carried out any more.
    pub(crate) const CUT: Self = Self(1 << 16);

    /// Returns the union of both sets.
    pub(crate) const fn union(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Returns `true` if any of `flags` is set.
    #[inline(always)]
    pub(crate) fn any(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns `true` if exactly `flags` are set among the flags in `mask`.
    #[inline(always)]
    pub(crate) fn exactly(self, flags: Self, mask: Self) -> bool {
        self.0 & mask.0 == flags.0
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

impl Flags {
    /// Clears the requests to read or write once more. Returns them.
    pub(crate) fn take_again(&mut self) -> Readiness {
        let mut again = Readiness::NONE;
        if self.take(Self::READ_AGAIN) {
            again |= Readiness::READ;
        }
        if self.take(Self::WRITE_AGAIN) {
            again |= Readiness::WRITE;
        }
        again
    }
}

/// The state of one connection.
pub(crate) struct State {
    pub(crate) life: Life,
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) end: RequestedEnd,
    pub(crate) flags: Flags,
}

/// Flags that make a channel read.
const READS: Flags = Flags::AUTO_READ.union(Flags::READ);

impl State {
    /// Creates the state of an open connection.
    pub(crate) fn new(auto_read: bool, half_closure: bool) -> Self {
        let mut state = Self {
            life: Life::Open,
            input: Input::Open,
            output: Output::Open,
            end: RequestedEnd::None,
            flags: Flags(0),
        };
        state.flags.put(Flags::HALF_CLOSURE, half_closure);
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

    /// Returns `true` if the channel is connected and keeps its socket, on its loop or off it.
    #[cold]
    pub(crate) fn has_socket(&self) -> bool {
        match &self.life {
            Life::Open => true,
            Life::Off(off) => off.release.is_none(),
            Life::New(_) | Life::Connecting(_) | Life::Closed => false,
        }
    }

    /// Returns `true` if an end was requested: nothing that comes now is read or written.
    #[inline(always)]
    pub(crate) fn ends(&self) -> bool {
        self.end != RequestedEnd::None
    }

    /// Returns `true` if everything is sent, and the channel waits for the end of its peer.
    pub(crate) fn is_lingering(&self) -> bool {
        self.end == RequestedEnd::Lingering
    }

    /// Returns `true` if the connection or its sending half is to be ended.
    #[inline(always)]
    pub(crate) fn has_end_to_do(&self) -> bool {
        self.ends() | (self.output == Output::Ending)
    }

    /// Returns `true` if a write is accepted.
    #[inline(always)]
    pub(crate) fn takes_writes(&self) -> bool {
        !(self.ends() | (self.output != Output::Open) | self.is_closed())
    }

    /// Returns `true` if there may be something to read and a read is wanted.
    #[inline(always)]
    pub(crate) fn is_to_read(&self) -> bool {
        self.flags.any(Flags::READ_READY) && self.flags.any(READS)
    }

    /// Records that the peer has closed its sending half.
    pub(crate) fn hang_up(&mut self) {
        if self.input == Input::Open {
            self.input = Input::HungUp;
        }
    }

    /// Returns `true` if the channel is to be closed because the peer has closed its sending half,
    /// although nothing is read for now. What is still to be sent before a requested end is sent.
    #[cold]
    pub(crate) fn is_left(&self) -> bool {
        const ASKED: Flags = Flags::CLOSE_ON_HANG_UP;
        let open = self.is_open() && !self.has_end_to_do() && self.output == Output::Open;
        open && self
            .flags
            .exactly(ASKED, ASKED.union(READS).union(Flags::HALF_CLOSURE))
    }

    /// Requests an end. An earlier request that is more urgent stays.
    pub(crate) fn request_end(&mut self, end: RequestedEnd) {
        self.end = self.end.max(end);
        self.flags.clear(READS);
    }

    /// Sets whether the channel reads on its own or only on request.
    pub(crate) fn set_auto_read(&mut self, yes: bool) {
        if self.flags.any(Flags::AUTO_READ) && !yes {
            // Switching it off also cancels an earlier request for one read.
            self.flags.clear(Flags::READ);
        }
        self.flags.put(Flags::AUTO_READ, yes && !self.ends());
    }
}

/// State of a channel that is off its loop.
pub(crate) struct Deregistration {
    pub(super) phase: Phase,
    /// The promise of the change in progress.
    pub(super) promise: Option<Promise<()>>,
    /// The promise of a release: the channel leaves its loop to hand its socket over.
    pub(super) release: Option<Promise<TcpStream>>,
    /// That change still has to be requested from the loop.
    pub(super) ask: bool,
    /// Result of that change.
    pub(super) result: Option<io::Result<()>>,
    /// Requests that came meanwhile, oldest first; `true` means onto the loop.
    pub(super) pending_requests: VecDeque<(bool, Promise<()>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Leaving,
    Off,
    Returning,
}

impl Deregistration {
    pub(super) fn leaving(promise: Promise<()>) -> Box<Self> {
        Box::new(Self {
            phase: Phase::Leaving,
            promise: Some(promise),
            release: None,
            ask: true,
            result: None,
            pending_requests: VecDeque::new(),
        })
    }

    /// Returns the state of a channel that leaves its loop to hand its socket over.
    pub(super) fn releasing(promise: Promise<TcpStream>) -> Box<Self> {
        Box::new(Self {
            phase: Phase::Leaving,
            promise: None,
            release: Some(promise),
            ask: true,
            result: None,
            pending_requests: VecDeque::new(),
        })
    }

    /// Returns `true` if the poller watches the socket, or is about to.
    pub(super) fn is_watched(&self) -> bool {
        self.phase != Phase::Off
    }

    pub(super) fn set_result(&mut self, result: io::Result<()>) {
        self.result = Some(result);
    }

    /// Returns what the channel wants from its loop.
    pub(super) fn next(&mut self) -> Next {
        if std::mem::take(&mut self.ask) {
            Next::Watch(self.phase == Phase::Returning)
        } else {
            Next::Stay
        }
    }

    /// Fails all requests: the channel is closed.
    pub(super) fn refuse(self, closed: &Failure) {
        let pending_requests = self
            .pending_requests
            .into_iter()
            .map(|(_, promise)| promise);
        for promise in self.promise.into_iter().chain(pending_requests) {
            let _ = promise.fail(closed.clone());
        }
        if let Some(release) = self.release {
            let _ = release.fail(closed.clone());
        }
    }
}

//! A request that is passed on, as pure data: what happens goes in as an [`Event`], what is to be done
//! comes out as [`Actions`]. Nothing here knows a socket, a clock, a lock or a command.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `request` | [`Request`]: the state | |
//! | `event` | what can happen | |
//! | `action` | what is to be done | |
//! | `machine` | [`step`]: the state and an event make actions | `request`, `event`, `action` |
//! | `attempts` | when an attempt is repeated, goes to the fallback, or was the last one | `request`, `action` |
//!
//! ```text
//!              Admitted              Picked, Connected, Begun
//!   Admitting ─────────▶ Connecting ─────────▶ Exchanging ──▶ Ended
//!     ▲   ▲                  │                     │            ▲
//!     │   └── Freeing ◀──────┴─────────────────────┤ failed,    │ or else
//!     └────── Pausing                              │ safe, within the budget
//! ```
//!
//! # Invariants
//!
//! * The reply begins once: [`Reply::Owed`] is left once, or the request ends with it.
//! * After [`Action::End`] there is no action. It comes once.
//! * Each event of an attempt names it. One of an earlier attempt changes nothing.

mod action;
mod attempts;
mod event;
mod machine;
mod request;
#[cfg(test)]
mod tests;

pub(super) use action::{Action, Actions, Ending};
pub(super) use event::{Event, Failure};
pub(super) use machine::step;
pub(super) use request::{Kind, Reply, Request, Side, Terms, Upload};

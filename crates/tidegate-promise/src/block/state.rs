//! The state word of a promise block: its bits, and which thread may access which field in which
//! state.
//!
//! ```text
//!                    writer completes              last listener ran
//!   open ──────────────────────────────► done ─────────────────────────► settled
//!     │                                   ▲  ▲
//!     ├── shared writer claims ─► claimed ┘  │
//!     └── a cancellation ────────────────────┘ (with CANCELLED)
//! ```
//!
//! Access to the fields:
//!
//! - `outcome`: the unique writer until it has set `DONE`; a shared writer between setting
//!   `CLAIMED` and `DONE`. After that, all owners may read it until the unique reader takes it.
//!   The reader may take it only while `DONE` is set and both `NOTIFYING` and `LISTENER` are clear.
//! - `inline`: the unique reader while `INLINE` is clear, unless it has put a listener into the
//!   slot that other listeners follow; the holder of `NOTIFYING` once it has seen `INLINE`.
//! - `queue`, `inline_pending`: only the holder of `NOTIFYING`.
//! - `inbox`, `hook`: all threads, by atomic operations.
//! - `taken`: the unique reader, then the thread that frees the block.
//!
//! The thread that clears the last of `WRITER`, `READER` and `NOTIFYING` frees the block.

/// The outcome is decided: stored in `outcome`, or `CANCELLED`.
pub(super) const DONE: u32 = 1;
/// The outcome is a cancellation; `outcome` is empty.
pub(super) const CANCELLED: u32 = 1 << 1;
/// A shared writer has claimed the outcome and is storing it.
pub(super) const CLAIMED: u32 = 1 << 2;
/// Cancellation is no longer possible.
pub(super) const UNCANCELLABLE: u32 = 1 << 3;
/// A listener was added to `inline` or `inbox` that no holder of `NOTIFYING` has seen yet.
pub(super) const LISTENER: u32 = 1 << 4;
/// `inline` holds a listener that no holder of `NOTIFYING` has seen yet.
pub(super) const INLINE: u32 = 1 << 5;
/// A thread has the right to take listeners out. It runs them, or the block is being sent to its
/// home, where they run, or removed listeners are being swept.
pub(super) const NOTIFYING: u32 = 1 << 6;
/// The write end, unique or shared, is alive.
pub(super) const WRITER: u32 = 1 << 7;
/// The read end, unique or shared, is alive.
pub(super) const READER: u32 = 1 << 8;

/// The unique reader sleeps on this word, and the thread that settles the block wakes it. Never
/// cleared, because such a reader does nothing else but take the outcome.
pub(super) const SLEEPER: u32 = 1 << 9;

/// The outcome is that of a task which the home has accepted. If the home ends before it starts
/// the task, the outcome is never stored. Set when the block is created.
pub(super) const TASK: u32 = 1 << 10;

/// The block was decided because the home never started the task. Readers and listeners see the
/// failure for that. Always set together with `CANCELLED`; `outcome` is empty.
pub(super) const UNSTARTED: u32 = 1 << 11;

/// A thread that the wait record knows waits for the outcome: the start of the task, or the outcome,
/// is reported to the record. Never cleared.
pub(super) const AWAITED: u32 = 1 << 12;

/// The task was submitted to the home, which may give it to another executor. Set when the block is
/// created.
pub(super) const SUBMITTED: u32 = 1 << 13;

/// The owner bits. The block is alive while any of them is set.
pub(super) const OWNERS: u32 = WRITER | READER | NOTIFYING;

/// Returns `true` if the outcome may be taken by value: it is decided, and every listener has seen
/// it.
pub(super) fn is_settled(state: u32) -> bool {
    state & DONE != 0 && state & (NOTIFYING | LISTENER) == 0
}

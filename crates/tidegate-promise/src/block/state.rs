//! The state word of a promise block: bits, and who may touch which field in which state.
//!
//! ```text
//!                    writer completes              last listener ran
//!   open ──────────────────────────────► done ─────────────────────────► settled
//!     │                                   ▲  ▲
//!     ├── shared writer claims ─► claimed ┘  │
//!     └── anybody cancels ───────────────────┘ (with CANCELLED)
//! ```
//!
//! | field | who may touch it |
//! |---|---|
//! | `outcome` | the unique writer, until it has set `DONE`; a shared writer between `CLAIMED` and `DONE`; then everybody reads, until the unique reader takes it, which it may only when `DONE` is set and neither `NOTIFYING` nor `LISTENER` is |
//! | `inline` | the unique reader while `INLINE` is clear and it never used the slot for a listener that others follow; the holder of `NOTIFYING` once it has seen `INLINE` |
//! | `queue`, `inline_waits` | the holder of `NOTIFYING` |
//! | `inbox`, `hook` | everybody, by atomic operations |
//! | `taken` | the unique reader, then whoever frees the block |
//!
//! The block is freed by whoever clears the last of `WRITER`, `READER` and `NOTIFYING`.

/// The outcome is decided: stored in `outcome`, or `CANCELLED`.
pub(super) const DONE: u32 = 1;
/// Decided by cancellation; `outcome` holds nothing.
pub(super) const CANCELLED: u32 = 1 << 1;
/// A shared writer has won and is storing the outcome.
pub(super) const CLAIMED: u32 = 1 << 2;
/// Cancellation is no longer possible.
pub(super) const UNCANCELLABLE: u32 = 1 << 3;
/// Something was added to `inline` or `inbox` that no holder of `NOTIFYING` has seen yet.
pub(super) const LISTENER: u32 = 1 << 4;
/// `inline` holds a listener that no holder of `NOTIFYING` has seen yet.
pub(super) const INLINE: u32 = 1 << 5;
/// Somebody has the right to take listeners out: it runs them, or the block is on its way to
/// its home to have them run there, or removed ones are being swept.
pub(super) const NOTIFYING: u32 = 1 << 6;
/// The write end, unique or shared, is alive.
pub(super) const WRITER: u32 = 1 << 7;
/// The read end, unique or shared, is alive.
pub(super) const READER: u32 = 1 << 8;

/// The unique reader sleeps on this very word; whoever settles the block wakes it. Never cleared:
/// such a reader does nothing any more but take the outcome.
pub(super) const SLEEPER: u32 = 1 << 9;

/// The outcome is that of a task which the home has accepted: if the home ends without beginning
/// it, there will be none. Set when the block is made.
pub(super) const OWED: u32 = 1 << 10;

/// Decided because the home has left the task: readers and listeners see the failure for that.
/// Comes with `CANCELLED`, and `outcome` holds nothing.
pub(super) const LEFT: u32 = 1 << 11;

/// Anybody who still needs the block.
pub(super) const OWNERS: u32 = WRITER | READER | NOTIFYING;

/// Whether the outcome may be taken by value: decided, and every listener has seen it.
pub(super) fn is_settled(state: u32) -> bool {
    state & DONE != 0 && state & (NOTIFYING | LISTENER) == 0
}

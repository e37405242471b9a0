//! The promise block: one heap block, one state word, the first listener inline.
//!
//! [`Writer`] and [`Reader`] are the two ends of a block: the raw, minimal ones, on which the rest
//! of this crate builds what users see. A block that lives the common life (created, listened to,
//! completed) costs one atomic read-modify-write when its read end is given up with the listener,
//! three otherwise, and no lock.
//!
//! Hidden, and unstable: for the other crates of this workspace and for the models only.
//!
//! # Files
//!
//! Each knows only files above it in this table.
//!
//! | file | what it holds |
//! |---|---|
//! | `state` | the bits of the state word, and which thread may touch which field in which state |
//! | `bell` | sleeping on a state word, and waking by its address |
//! | `memory` | allocation of blocks, recycled per thread |
//! | `depth` | how deep a thread is in listeners, and what waits until the outermost returns |
//! | `sleepers` | threads that sleep for a task which an executor may leave |
//! | `watch_list` | wakers and listeners that wait for such a task |
//! | `listener` | a listener as a type-erased closure, and its node in the list |
//! | `storage` | the block's fields; allocating, reading and freeing it |
//! | `decide` | the step from open to done |
//! | `notify` | runs the listeners where they belong; sweeps removed ones |
//! | `cancel` | cancellation and its hook |
//! | `left` | giving up on a task that its executor has left |
//! | `listen` | adding listeners and taking them back |
//! | `shared_reader`, `reader`, `writer` | the ends |
//! | `create` | a block with its two ends |

#![expect(
    unsafe_code,
    reason = "the block is shared memory, handed from thread to thread by one state word"
)]

mod bell;
mod cancel;
mod create;
mod decide;
mod depth;
mod left;
mod listen;
mod listener;
mod memory;
mod notify;
mod reader;
mod shared_reader;
mod sleepers;
mod state;
mod storage;
mod watch_list;
mod writer;

pub use self::create::{block, owed_block};
pub use self::listen::ListenerToken;
pub use self::reader::Reader;
pub use self::shared_reader::SharedReader;
pub use self::sleepers::wake_sleepers;
pub use self::watch_list::tell_left;
pub use self::writer::{SharedWriter, Writer};

#[cfg(all(test, not(tidegate_loom)))]
mod tests;

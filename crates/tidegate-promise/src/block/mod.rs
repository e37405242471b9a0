//! The promise block: one heap block, one state word, the first listener inline.
//!
//! [`Writer`] and [`Reader`] are the two raw ends of a block, on which the public types of this
//! crate build. The common life of a block (created, listened to, completed) takes no lock and
//! three atomic read-modify-writes, or one if adding the listener also consumes the read end.
//!
//! # Files
//!
//! Each file depends only on files above it in this table.
//!
//! | file | what it holds |
//! |---|---|
//! | `state` | the bits of the state word, and which thread may access which field in which state |
//! | `word_waiters` | sleeping on a state word, and waking by its address |
//! | `memory` | allocation of blocks, recycled per thread |
//! | `depth` | the nesting depth of listeners on a thread, and its queue of deferred ones |
//! | `sleepers` | threads that sleep until a task of an executor completes |
//! | `listener` | a listener as a type-erased closure, and its node in the list |
//! | `node_list` | the nodes of a block: its inbox and its queue |
//! | `storage` | the block's fields; allocating, reading and freeing it |
//! | `decide` | the transition from open to done |
//! | `notify` | runs the listeners on the right thread; sweeps removed ones |
//! | `cancel` | cancellation and its hook |
//! | `unstarted` | failing a task that its executor never started |
//! | `listen` | adding and removing listeners |
//! | `shared_reader`, `reader`, `writer` | the ends |
//! | `create` | creates a block with its two ends |

#![expect(
    unsafe_code,
    reason = "the block is shared memory, handed from thread to thread by one state word"
)]

mod cancel;
mod create;
mod decide;
mod depth;
mod listen;
mod listener;
mod memory;
mod node_list;
mod notify;
mod reader;
mod shared_reader;
mod sleepers;
mod state;
mod storage;
mod unstarted;
mod word_waiters;
mod writer;

pub use self::create::block;
pub(crate) use self::create::task_block;
pub use self::depth::as_outermost;
pub(crate) use self::depth::run_put_off;
pub use self::listen::ListenerToken;
pub use self::reader::Reader;
pub use self::shared_reader::SharedReader;
pub use self::unstarted::notify_unstarted;
pub use self::writer::{SharedWriter, Writer};

#[cfg(all(test, not(tidegate_loom)))]
mod tests;

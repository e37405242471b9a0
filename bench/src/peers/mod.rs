//! The peers: libraries by others, each behind the traits of `contest.rs` in its best set-up.

pub(crate) mod channel;
pub(crate) mod condvar;
pub(crate) mod crossbeam;
pub(crate) mod kanal;
pub(crate) mod oneshots;
pub(crate) mod pools;
pub(crate) mod std_mpsc;
pub(crate) mod tokio_mpsc;

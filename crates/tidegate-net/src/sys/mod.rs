//! The boundary to the operating system: polling and sockets. The only module with unsafe code.
#![expect(
    unsafe_code,
    reason = "received bytes lie in memory that was not written before, a number stands for an open socket, system calls are made by their number, and a hint to the processor is an intrinsic"
)]

#[cfg(all(target_os = "linux", not(tidegate_mio)))]
mod call;
mod chunk;
mod descriptor;
mod events;
#[cfg(any(test, feature = "embedded"))]
mod fake;
mod file;
mod interest;
mod lent;
mod mio_poller;
mod poller;
mod prefetch;
mod socket;
mod stream;

// A token of the poller has 64 bits: the slot of a source and its generation.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("tidegate-net needs a 64-bit system: build without the feature `net`");

pub(crate) use self::chunk::{Chunk, PIECE, PIECES};
pub(crate) use self::descriptor::{AsFd, RawFd, WatchedFd, number_of};
#[cfg(feature = "sources")]
pub(crate) use self::descriptor::{OwnedFd, copy_of};
#[cfg(any(test, feature = "embedded"))]
pub(crate) use self::fake::FakePoller;
#[cfg(test)]
pub(crate) use self::fake::FakeScript;
pub(crate) use self::file::{read_at, send_file};
pub use self::interest::Interest;
pub(crate) use self::lent::Lent;
pub(crate) use self::mio_poller::SystemPoller;
pub use self::poller::Readiness;
pub(crate) use self::poller::{Change, Poller, Ready, Source, Token};
pub(crate) use self::prefetch::prefetch;
pub(crate) use self::socket::{SpareDescriptor, is_out_of_descriptors, share_port};
pub(crate) use self::stream::{
    SHORT_READ_IS_LAST, StreamRef, StreamSocket, send, send_slices, send_slices_with_more,
};

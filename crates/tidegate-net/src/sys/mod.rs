//! The boundary to the operating system: polling and sockets. The only module with unsafe code.
#![expect(
    unsafe_code,
    reason = "received bytes lie in memory that was not written before, a number stands for an open socket, and a hint to the processor is an intrinsic"
)]

mod chunk;
mod events;
mod fake;
mod interest;
mod lent;
mod mio_poller;
mod poller;
mod prefetch;
mod socket;

pub(crate) use self::chunk::{Chunk, PIECE, PIECES};
pub(crate) use self::fake::FakePoller;
#[cfg(test)]
pub(crate) use self::fake::FakeScript;
pub use self::interest::Interest;
pub(crate) use self::lent::Lent;
pub(crate) use self::mio_poller::SystemPoller;
pub use self::poller::Readiness;
pub(crate) use self::poller::{Change, Poller, Ready, Source, Token};
pub(crate) use self::prefetch::prefetch;
pub(crate) use self::socket::{
    SocketWithFd, SpareDescriptor, is_out_of_descriptors, send, send_slices,
};

//! The boundary to the operating system: polling and sockets. The only module with unsafe code.
#![expect(
    unsafe_code,
    reason = "received bytes lie in memory that was not written before, a number stands for an open socket, one number of an `ioctl` has no wrapper, and a hint to the processor is an intrinsic"
)]

mod chunk;
mod descriptor;
#[cfg(target_os = "linux")]
mod epoll;
#[cfg(any(test, feature = "embedded"))]
mod fake;
mod file;
mod interest;
mod lent;
#[cfg(not(target_os = "linux"))]
mod mio_selector;
mod poller;
mod prefetch;
mod socket;
mod sockets;
mod source;
mod stream;
mod system_poller;

// A token of the poller has 64 bits: the slot of a source and its generation.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("tidegate-net needs a 64-bit system: build without the feature `net`");

pub(crate) use self::chunk::{Chunk, PIECE, PIECES};
pub(crate) use self::descriptor::{AsFd, BorrowedFd, OwnedFd, borrow, copy_of};
#[cfg(any(test, feature = "embedded"))]
pub(crate) use self::fake::FakePoller;
#[cfg(test)]
pub(crate) use self::fake::FakeScript;
pub(crate) use self::file::{read_at, send_file};
pub use self::interest::Interest;
pub(crate) use self::lent::Lent;
pub use self::poller::Readiness;
pub(crate) use self::poller::{Change, Poller, Ready, Token};
pub(crate) use self::prefetch::prefetch;
pub(crate) use self::socket::{Adopted, SpareDescriptor, is_out_of_descriptors};
pub(crate) use self::sockets::{TcpListener, TcpStream, UdpSocket, listen_tcp, unacknowledged};
#[cfg(unix)]
pub(crate) use self::sockets::{UnixListener, UnixStream};
pub(crate) use self::source::Source;
pub(crate) use self::stream::{
    SHORT_READ_IS_LAST, StreamRef, StreamSocket, send, send_slices, send_slices_with_more,
};
pub(crate) use self::system_poller::SystemPoller;

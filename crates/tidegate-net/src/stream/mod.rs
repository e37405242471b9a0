//! Channels as byte streams, for futures.
//!
//! * `byte_stream`: the stream. `handler`: runs its future in the turns of the channel. `link`: what
//!   the two share.
//! * `kind`: a stream that any thread may use, or one that stays on its event loop.

mod byte_stream;
mod handler;
mod kind;
mod link;

pub use self::byte_stream::{ByteStream, DrainSignal, LocalStream};
pub use self::handler::{LocalStreamHandler, StreamHandler};
pub use self::kind::{AnyThread, OwnLoop, StreamCell, StreamKind};
pub use self::link::StreamState;

use std::io::{self, IoSlice};

use bytes::{Bytes, BytesMut};
use tidegate_promise::Failure;

/// The number of received bytes at which a stream stops its channel from reading.
const MOST_HELD: usize = 64 * 1024;
/// The minimum that one write accepts, if so many bytes are offered. Less is not worth the
/// overhead.
const LEAST_TAKEN: usize = 1024;

/// Copies at most `most` bytes of `slices`.
fn gather(slices: &[IoSlice<'_>], most: usize) -> Bytes {
    let mut gathered = BytesMut::with_capacity(most);
    for slice in slices {
        let part = slice.len().min(most - gathered.len());
        gathered.extend_from_slice(&slice[..part]);
    }
    gathered.freeze()
}

/// Converts a failure to an I/O error, with the operating system's error kind if it has one.
fn error_of(why: Failure, otherwise: io::ErrorKind) -> io::Error {
    let kind = why.downcast_ref::<io::Error>().map(io::Error::kind);
    io::Error::new(kind.unwrap_or(otherwise), why)
}

//! The servers. Each responds to `GET /stream` with 1 MiB in 16 pieces, and to any other request
//! with the same few bytes. Each has the settings with which it is fastest.
//!
//! | file | contents |
//! |---|---|
//! | `ours` | our server, on pinned and on roaming loops |
//! | `raw` | the lower bound: a bare epoll loop with httparse |
//! | `peers` | hyper and may_minihttp |

mod ours;
mod peers;
mod raw;

use std::num::NonZero;
use std::thread::available_parallelism;

use bytes::Bytes;

pub(crate) use self::raw::{Replies, serve as serve_raw};

use crate::cpus::{pin, unpin};
use crate::served::Running;

/// The body of a short response, and two of its fields.
const HELLO: &str = "Hello, World!";
const SERVER: &str = "T";
const TEXT: &str = "text/plain";

/// The path of the streamed response.
const STREAM: &str = "/stream";
/// A piece of the streamed body, and the number of pieces.
static PIECE: [u8; 64 * 1024] = [b'x'; 64 * 1024];
const PIECES: usize = 16;

fn piece() -> Bytes {
    Bytes::from_static(&PIECE)
}

/// Starts the server with this name on the command line, on the first CPU unless it has all of them.
pub(super) fn start(name: &str) -> Option<Running> {
    pin(0);
    Some(match name {
        "http-ours" => ours::pinned(1),
        "http-ours-all-cpus" => {
            unpin();
            ours::pinned(available_parallelism().map_or(1, NonZero::get))
        }
        "http-ours-roaming" => ours::roaming(),
        "http-raw" => raw::start(),
        "http-may" => peers::may(),
        "http-hyper" => peers::hyper(),
        _ => return None,
    })
}

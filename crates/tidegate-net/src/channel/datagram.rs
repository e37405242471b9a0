//! Datagrams: what the handlers of a UDP channel take and write.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use mio::net::UdpSocket;
use tidegate_promise::{Failure, Promise};

/// Datagrams that wait to be sent; more are dropped, as a network would.
const MOST_WAITING: usize = 1024;
/// The largest datagram there is.
pub(super) const LARGEST: usize = 65_536;

/// A datagram, and where it came from or goes to.
///
/// ```
/// use tidegate_net::Datagram;
///
/// let to = "127.0.0.1:53".parse()?;
/// let question = Datagram { bytes: "?".into(), peer: to };
/// assert_eq!(question.bytes, "?");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// What it says.
    pub bytes: Bytes,
    /// The other side.
    pub peer: SocketAddr,
}

/// Datagrams on their way out.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<(Datagram, Option<Promise<()>>)>,
}

impl Outbox {
    /// Adds a datagram; its promise back if there is no room.
    pub(crate) fn push(
        &mut self,
        datagram: Datagram,
        promise: Option<Promise<()>>,
    ) -> Result<(), Option<Promise<()>>> {
        if self.waiting.len() >= MOST_WAITING {
            return Err(promise);
        }
        self.waiting.push_back((datagram, promise));
        Ok(())
    }

    /// Sends what waits; true if the socket takes no more now.
    pub(crate) fn send(&mut self, socket: &UdpSocket, calls: &mut u64) -> bool {
        while let Some((datagram, promise)) = self.waiting.pop_front() {
            *calls += 1;
            match socket.send_to(&datagram.bytes, datagram.peer) {
                Ok(_) => {
                    if let Some(promise) = promise {
                        let _ = promise.succeed(());
                    }
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    self.waiting.push_front((datagram, promise));
                    return true;
                }
                // One that cannot be sent says nothing about the next one.
                Err(why) => {
                    if let Some(promise) = promise {
                        let _ = promise.fail(Failure::new(why));
                    }
                }
            }
        }
        self.waiting = VecDeque::new();
        false
    }

    /// Takes out every datagram, failing each promise with `cause`.
    pub(crate) fn fail_all(&mut self, cause: &Failure) {
        for (_, promise) in self.waiting.drain(..) {
            if let Some(promise) = promise {
                let _ = promise.fail(cause.clone());
            }
        }
    }
}

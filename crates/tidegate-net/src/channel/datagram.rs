//! Datagrams: what the handlers of a UDP channel take and write.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use mio::net::UdpSocket;
use tidegate_promise::{Failure, Promise};

use super::write_queue::ENTRY_OVERHEAD;
use crate::errors::NetError;
use crate::message::Message;
use crate::metrics::Counters;

/// Datagrams that wait to be sent; more are refused.
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

impl Message for Datagram {
    fn size(&self) -> usize {
        self.bytes.len()
    }
}

impl Datagram {
    /// What it counts for while it waits.
    pub(crate) fn counts(&self) -> usize {
        self.bytes.len() + ENTRY_OVERHEAD
    }

    /// What happened to a datagram that was not sent.
    pub(crate) fn lost(&self, why: Failure) -> Failure {
        Failure::new(NetError::DatagramLost {
            peer: self.peer,
            size: self.bytes.len(),
            why,
        })
    }
}

/// Datagrams on their way out.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<Waiting>,
    /// Datagrams among them.
    datagrams: usize,
    /// Datagrams that were not taken, and are not counted yet.
    lost: u64,
}

/// What a flush came to.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// The socket takes no more now.
    pub(crate) blocked: bool,
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    /// What no longer waits.
    pub(crate) released: usize,
    /// Why datagrams were lost whose writers did not ask for the outcome.
    pub(crate) lost: Vec<Failure>,
}

#[derive(Debug)]
enum Waiting {
    Datagram(Datagram, Option<Promise<()>>),
    /// Somebody wants to know when all before it is sent.
    Flush(Promise<()>),
}

impl Outbox {
    /// Returns `true` if another datagram would be too many.
    pub(crate) fn is_full(&self) -> bool {
        self.datagrams >= MOST_WAITING
    }

    /// Adds a datagram.
    pub(crate) fn push(&mut self, datagram: Datagram, promise: Option<Promise<()>>) {
        self.datagrams += 1;
        self.waiting.push_back(Waiting::Datagram(datagram, promise));
    }

    /// Notes that a datagram was not taken.
    pub(crate) fn lose(&mut self) {
        self.lost += 1;
    }

    /// Returns how many datagrams were not taken since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Has `promise` completed when all that waits is sent; the promise back if nothing does.
    pub(crate) fn push_flush(&mut self, promise: Promise<()>) -> Option<Promise<()>> {
        if self.waiting.is_empty() {
            return Some(promise);
        }
        self.waiting.push_back(Waiting::Flush(promise));
        None
    }

    /// Sends what waits and was not cancelled. Losses are counted before their writers are told.
    pub(crate) fn send(&mut self, socket: &UdpSocket, counters: &Counters) -> Sent {
        counters.lost_datagrams.add(self.take_lost());
        let mut sent = Sent::default();
        while let Some(waiting) = self.waiting.pop_front() {
            let (datagram, promise) = match waiting {
                Waiting::Datagram(datagram, promise) => (datagram, promise),
                Waiting::Flush(promise) => {
                    let _ = promise.succeed(());
                    continue;
                }
            };
            let cancelled = promise.as_ref().is_some_and(|one| !one.set_uncancellable());
            let tried = match cancelled {
                true => Ok(0),
                false => {
                    sent.calls += 1;
                    socket.send_to(&datagram.bytes, datagram.peer)
                }
            };
            if let Err(why) = &tried
                && why.kind() == io::ErrorKind::WouldBlock
            {
                let again = Waiting::Datagram(datagram, promise);
                self.waiting.push_front(again);
                sent.blocked = true;
                return sent;
            }
            self.datagrams -= 1;
            sent.released += datagram.counts();
            match tried {
                Ok(count) => {
                    sent.bytes += count as u64;
                    if let Some(promise) = promise {
                        let _ = promise.succeed(());
                    }
                }
                // One that cannot be sent says nothing about the next one.
                Err(why) => {
                    counters.lost_datagrams.add(1);
                    let why = datagram.lost(Failure::new(why));
                    match promise {
                        Some(promise) => drop(promise.fail(why)),
                        None => sent.lost.push(why),
                    }
                }
            }
        }
        self.waiting = VecDeque::new();
        sent
    }

    /// Takes out every datagram, failing each promise with `cause`.
    pub(crate) fn fail_all(&mut self, cause: &Failure) {
        self.datagrams = 0;
        for waiting in self.waiting.drain(..) {
            if let Waiting::Datagram(_, Some(promise)) | Waiting::Flush(promise) = waiting {
                let _ = promise.fail(cause.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Who waits for a flush waits for the datagrams before it.

    use super::*;

    #[test]
    fn a_flush_completes_behind_the_datagrams_before_it_and_fails_with_them() {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let to_itself = || Datagram {
            bytes: "x".into(),
            peer: socket.local_addr().unwrap(),
        };
        let mut outbox = Outbox::default();
        let (promise, _) = tidegate_promise::promise();
        assert!(outbox.push_flush(promise).is_some(), "nothing waits");
        for sends in [true, false] {
            outbox.push(to_itself(), None);
            let (promise, flushed) = tidegate_promise::promise();
            assert!(outbox.push_flush(promise).is_none() && !flushed.is_done());
            if sends {
                let sent = outbox.send(&socket, &Counters::default());
                flushed.wait().unwrap();
                assert!(!sent.blocked && sent.lost.is_empty());
                assert_eq!((sent.calls, sent.bytes, sent.released), (1, 1, 97));
            } else {
                outbox.fail_all(&Failure::new("closed"));
                assert!(flushed.wait().unwrap_err().to_string().contains("closed"));
            }
        }
    }
}

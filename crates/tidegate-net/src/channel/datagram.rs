//! Datagrams: the messages that the handlers of a UDP channel read and write.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use tidegate_promise::{Failure, Promise};

use super::waiters::Waiters;
use super::write_queue::ENTRY_OVERHEAD;
use crate::errors::NetError;
use crate::message::Message;
use crate::metrics::Counters;
use crate::sys::UdpSocket;

/// Maximum number of datagrams that wait to be sent; further ones are refused.
const MOST_WAITING: usize = 1024;
/// Size of the buffer that receives a datagram: no datagram is larger.
pub(super) const LARGEST: usize = 65_536;

/// A datagram with the address of its sender or receiver.
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
    /// The payload.
    pub bytes: Bytes,
    /// The address of the peer.
    pub peer: SocketAddr,
}

impl Message for Datagram {
    fn size(&self) -> usize {
        self.bytes.len()
    }
}

impl Datagram {
    /// Returns the size that the datagram counts for while it waits to be sent.
    pub(crate) fn counts(&self) -> usize {
        self.bytes.len() + ENTRY_OVERHEAD
    }

    /// Returns the error for a datagram that was not sent because of `why`.
    pub(crate) fn lost(&self, why: Failure) -> Failure {
        Failure::new(NetError::DatagramLost {
            peer: self.peer,
            size: self.bytes.len(),
            why,
        })
    }
}

/// Datagrams that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<Waiting>,
    /// Number of datagrams in `waiting`.
    datagrams: usize,
    /// Datagrams that were refused and are not in the metrics yet.
    lost: u64,
}

/// Result of a flush.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// The socket would block.
    pub(crate) blocked: bool,
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    /// Sum of [`Datagram::counts`] of the datagrams that were removed from the queue: sent, lost or
    /// cancelled.
    pub(crate) released: usize,
    /// Errors of lost datagrams that were written without a promise.
    pub(crate) lost: Vec<Failure>,
}

#[derive(Debug)]
enum Waiting {
    Datagram(Datagram, Option<Promise<()>>),
    /// They succeed when no datagram before them waits any more, also if some were lost or cancelled.
    Flush(Waiters),
}

impl Outbox {
    /// Returns `true` if no further datagram is accepted.
    pub(crate) fn is_full(&self) -> bool {
        self.datagrams >= MOST_WAITING
    }

    /// Adds a datagram.
    pub(crate) fn push(&mut self, datagram: Datagram, promise: Option<Promise<()>>) {
        self.datagrams += 1;
        self.waiting.push_back(Waiting::Datagram(datagram, promise));
    }

    /// Counts a datagram that was refused.
    pub(crate) fn count_lost(&mut self) {
        self.lost += 1;
    }

    /// Returns how many datagrams were refused since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Registers `promise` to succeed when every datagram that waits now is sent, lost or
    /// cancelled. Returns the promise if nothing waits.
    pub(crate) fn push_flush(&mut self, promise: Promise<()>) -> Option<Promise<()>> {
        if self.waiting.is_empty() {
            return Some(promise);
        }
        if !matches!(self.waiting.back(), Some(Waiting::Flush(_))) {
            self.waiting.push_back(Waiting::Flush(Waiters::default()));
        }
        if let Some(Waiting::Flush(waiters)) = self.waiting.back_mut() {
            drop(waiters.add(promise));
        }
        None
    }

    /// Sends the waiting datagrams that were not cancelled, until the socket would block. A
    /// datagram that the operating system refuses is lost: it is added to `counters`, and then its
    /// promise fails.
    pub(crate) fn send(&mut self, socket: &UdpSocket, counters: &Counters) -> Sent {
        counters.lost_datagrams.add(self.take_lost());
        let mut sent = Sent::default();
        while let Some(waiting) = self.waiting.pop_front() {
            let (datagram, promise) = match waiting {
                Waiting::Datagram(datagram, promise) => (datagram, promise),
                Waiting::Flush(mut waiters) => {
                    let promises = waiters.take().into_iter();
                    promises.for_each(|one| drop(one.succeed(())));
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
                // A failed send says nothing about the next datagram.
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

    /// Removes every datagram and fails each promise with `cause`.
    pub(crate) fn fail_all(&mut self, cause: &Failure) {
        self.datagrams = 0;
        for waiting in self.waiting.drain(..) {
            let promises = match waiting {
                Waiting::Datagram(_, promise) => promise.into_iter().collect(),
                Waiting::Flush(mut waiters) => waiters.take(),
            };
            for promise in promises {
                let _ = promise.fail(cause.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! A flush waits for the datagrams before it.

    use super::*;

    #[test]
    fn flushes_at_the_same_place_share_an_entry() {
        let mut outbox = Outbox::default();
        outbox.push(
            Datagram {
                bytes: "x".into(),
                peer: "127.0.0.1:9".parse().unwrap(),
            },
            None,
        );
        let waits = [(); 100].map(|()| {
            let (promise, flushed) = tidegate_promise::promise();
            assert!(outbox.push_flush(promise).is_none());
            flushed
        });
        assert_eq!(outbox.waiting.len(), 2);
        outbox.fail_all(&Failure::new("closed"));
        assert!(waits.into_iter().all(|flushed| flushed.wait().is_err()));
    }

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

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
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
enum Waiting {
    Datagram(Datagram, Option<Promise<()>>),
    /// Somebody wants to know when all before it is sent.
    Flush(Promise<()>),
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
        self.waiting.push_back(Waiting::Datagram(datagram, promise));
        Ok(())
    }

    /// Has `promise` completed when all that waits is sent; the promise back if nothing does.
    pub(crate) fn push_flush(&mut self, promise: Promise<()>) -> Option<Promise<()>> {
        if self.waiting.is_empty() {
            return Some(promise);
        }
        self.waiting.push_back(Waiting::Flush(promise));
        None
    }

    /// Sends what waits; true if the socket takes no more now.
    pub(crate) fn send(&mut self, socket: &UdpSocket, calls: &mut u64) -> bool {
        while let Some(waiting) = self.waiting.pop_front() {
            let (datagram, promise) = match waiting {
                Waiting::Datagram(datagram, promise) => (datagram, promise),
                Waiting::Flush(promise) => {
                    let _ = promise.succeed(());
                    continue;
                }
            };
            *calls += 1;
            match socket.send_to(&datagram.bytes, datagram.peer) {
                Ok(_) => {
                    if let Some(promise) = promise {
                        let _ = promise.succeed(());
                    }
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    let again = Waiting::Datagram(datagram, promise);
                    self.waiting.push_front(again);
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
            outbox.push(to_itself(), None).unwrap();
            let (promise, flushed) = tidegate_promise::promise();
            assert!(outbox.push_flush(promise).is_none() && !flushed.is_done());
            if sends {
                let mut calls = 0;
                assert!(!outbox.send(&socket, &mut calls));
                flushed.wait().unwrap();
                assert_eq!(calls, 1);
            } else {
                outbox.fail_all(&Failure::new("closed"));
                assert!(flushed.wait().unwrap_err().to_string().contains("closed"));
            }
        }
    }
}

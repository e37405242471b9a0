//! The sockets of a bare epoll loop: what the lower bounds of suites `echo`, `http` and
//! `proxy` share.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// The place of the listener in the events of the loop.
pub(crate) const LISTENER: u64 = u64::MAX;

/// A listener, its connections, and the epoll descriptor that watches them.
pub(crate) struct RawEpoll<'a> {
    poller: OwnedFd,
    listener: &'a TcpListener,
    sockets: Vec<Option<OwnedFd>>,
    /// Places without a socket.
    free: Vec<usize>,
}

impl<'a> RawEpoll<'a> {
    pub(crate) fn new(listener: &'a TcpListener) -> Self {
        listener.set_nonblocking(true).expect("a socket option");
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        let listening = epoll::EventData::new_u64(LISTENER);
        epoll::add(&poller, listener, listening, epoll::EventFlags::IN).expect("epoll takes it");
        Self {
            poller,
            listener,
            sockets: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Waits for events. Returns `false` on an error.
    pub(crate) fn wait(&self, events: &mut Vec<epoll::Event>) -> bool {
        events.clear();
        let spare = rustix::buffer::spare_capacity(events);
        epoll::wait(&self.poller, spare, None).is_ok()
    }

    /// Accepts every connection that waits. Returns the number of places, used or free.
    pub(crate) fn accept(&mut self) -> usize {
        while let Ok((stream, _)) = self.listener.accept() {
            self.add(stream);
        }
        self.sockets.len()
    }

    /// Adds a connection and returns its place.
    pub(crate) fn add(&mut self, stream: TcpStream) -> usize {
        stream.set_nodelay(true).expect("a TCP option");
        stream.set_nonblocking(true).expect("a socket option");
        let place = self.free.pop().unwrap_or_else(|| {
            self.sockets.push(None);
            self.sockets.len() - 1
        });
        let data = epoll::EventData::new_u64(place as u64);
        epoll::add(&self.poller, &stream, data, epoll::EventFlags::IN).expect("epoll");
        self.sockets[place] = Some(stream.into());
        place
    }

    /// Returns `true` if there is a connection in this place.
    pub(crate) fn is_open(&self, place: usize) -> bool {
        self.sockets[place].is_some()
    }

    /// Receives and returns the number of bytes, if there are any. If the connection has ended,
    /// closes it and returns 0.
    #[inline]
    pub(crate) fn receive(&mut self, place: usize, buffer: &mut [u8]) -> Option<usize> {
        let socket = self.sockets[place].as_ref()?;
        match rustix::net::recv(socket, buffer, RecvFlags::empty()) {
            Ok((count @ 1.., _)) => Some(count),
            Err(Errno::AGAIN) => None,
            _ => {
                self.close(place);
                Some(0)
            }
        }
    }

    #[cold]
    pub(crate) fn close(&mut self, place: usize) {
        // Closing the only descriptor of a socket also removes it from epoll.
        if self.sockets[place].take().is_some() {
            self.free.push(place);
        }
    }

    /// Sends all of `bytes`. Retries if the socket does not accept them at once, which only happens
    /// if a client does not read.
    #[inline]
    pub(crate) fn send(&self, place: usize, bytes: &[u8]) {
        let Some(socket) = &self.sockets[place] else {
            return;
        };
        let sent = rustix::net::send(socket, bytes, SendFlags::NOSIGNAL);
        if sent != Ok(bytes.len()) {
            send_rest(&bytes[sent.unwrap_or(0)..], |rest| {
                Ok(rustix::net::send(socket, rest, SendFlags::NOSIGNAL)?)
            });
        }
    }

    /// Sends a part of `bytes`, as much as the socket accepts, and returns the length of that part.
    /// An error counts as everything: the next event reports it.
    pub(crate) fn send_some(&self, place: usize, bytes: &[u8]) -> usize {
        let Some(socket) = &self.sockets[place] else {
            return bytes.len();
        };
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => count,
            Err(Errno::AGAIN) => 0,
            Err(_) => bytes.len(),
        }
    }

    /// Watches a connection for `flags` from now on.
    pub(crate) fn watch(&self, place: usize, flags: epoll::EventFlags) {
        if let Some(socket) = &self.sockets[place] {
            let data = epoll::EventData::new_u64(place as u64);
            epoll::modify(&self.poller, socket, data, flags).expect("epoll knows it");
        }
    }
}

/// Sends the bytes that a socket did not accept at once, retrying until it does. This is rare, and
/// only happens for a large message.
#[cold]
pub(crate) fn send_rest(mut rest: &[u8], mut send: impl FnMut(&[u8]) -> std::io::Result<usize>) {
    while !rest.is_empty() {
        match send(rest) {
            Ok(count) => rest = &rest[count..],
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

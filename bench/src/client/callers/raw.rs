//! The lower bound: a bare epoll loop with httparse on the main thread. It allocates nothing per
//! request, and has no pool, no limits and no time limits.

use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use httparse::{ParserConfig, Response, Status};
use rustix::event::epoll;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Caller;
use crate::client::{BODY, CONNECTIONS};
use crate::http::REQUEST;

/// Bytes that are received at once.
const BUFFER: usize = 64 * 1024;
/// The maximum number of fields of a response.
const FIELDS: usize = 16;

struct Connection {
    socket: OwnedFd,
    /// An incomplete response.
    kept: Vec<u8>,
    left: u64,
}

pub(super) fn start(to: SocketAddr) -> Caller {
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let open = |place| {
        let stream = TcpStream::connect(to).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP option");
        stream.set_nonblocking(true).expect("a socket option");
        let data = epoll::EventData::new_u64(place);
        epoll::add(&poller, &stream, data, epoll::EventFlags::IN).expect("epoll takes it");
        Connection {
            socket: stream.into(),
            kept: Vec::new(),
            left: 0,
        }
    };
    let mut connections: Vec<Connection> = (0..CONNECTIONS).map(open).collect();
    let mut events: Vec<epoll::Event> = Vec::with_capacity(1024);
    let mut buffer = vec![0; BUFFER];
    Box::new(move |each| {
        for connection in &mut connections {
            connection.left = each;
            connection.request();
        }
        let mut busy = connections.len();
        while busy > 0 {
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            if epoll::wait(&poller, spare, None).is_err() {
                continue;
            }
            for event in &events {
                let connection = &mut connections[event.data.u64() as usize];
                let received = recv(&connection.socket, &mut buffer[..], RecvFlags::empty());
                let (count, _) = received.expect("the connection is open");
                assert!(count > 0, "the server closed a connection");
                if connection.is_complete(&buffer[..count]) {
                    connection.left -= 1;
                    match connection.left {
                        0 => busy -= 1,
                        _ => connection.request(),
                    }
                }
            }
        }
    })
}

impl Connection {
    fn request(&self) {
        let sent = send(&self.socket, REQUEST, SendFlags::NOSIGNAL);
        assert_eq!(sent, Ok(REQUEST.len()), "the socket takes a request");
    }

    /// Returns `true` if the whole response has arrived; keeps a part of one.
    fn is_complete(&mut self, received: &[u8]) -> bool {
        if self.kept.is_empty() {
            let complete = is_complete(received);
            if !complete {
                self.kept.extend_from_slice(received);
            }
            return complete;
        }
        self.kept.extend_from_slice(received);
        let complete = is_complete(&self.kept);
        if complete {
            self.kept.clear();
        }
        complete
    }
}

fn is_complete(input: &[u8]) -> bool {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut response = Response::new(&mut []);
    let parser = ParserConfig::default();
    let parsed = parser.parse_response_with_uninit_headers(&mut response, input, &mut fields);
    let Status::Complete(head) = parsed.expect("a valid response") else {
        return false;
    };
    assert_eq!(response.code, Some(200));
    let mut fields = response.headers.iter();
    let length = fields.find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|field| std::str::from_utf8(field.value).ok());
    let length: usize = length.and_then(|text| text.parse().ok()).expect("a length");
    assert_eq!(length, BODY);
    input.len() == head + length
}

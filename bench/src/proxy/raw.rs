//! The lower bound: a bare epoll loop with httparse. Each client has a connection to the upstream of
//! its own. Requests have no body, responses declare their length; heads are parsed and passed on as
//! they are. It has no limits, no time limits, no pool, and allocates nothing per request.

use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};

use httparse::{Request, Response, Status};

use crate::raw_epoll::{LISTENER, RawEpoll};
use crate::served::Running;

/// Bytes that are received at once.
const BUFFER: usize = 64 * 1024;
/// The maximum number of fields of a head.
const FIELDS: usize = 16;

pub(super) fn start(upstream: SocketAddr) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || serve(&listener, upstream));
    Running::peer(address)
}

/// One end of a pair of connections.
#[derive(Default)]
struct End {
    /// The place of the other end; `None` if there is no connection.
    other: Option<usize>,
    to_client: bool,
    /// The beginning of a head.
    kept: Vec<u8>,
    /// Bytes of the response that follow.
    rest: usize,
}

fn serve(listener: &TcpListener, upstream: SocketAddr) {
    let mut raw = RawEpoll::new(listener);
    let mut events = Vec::with_capacity(1024);
    let mut buffer = vec![0; BUFFER];
    let mut ends: Vec<End> = Vec::new();
    loop {
        if !raw.wait(&mut events) {
            continue;
        }
        for event in &events {
            let place = event.data.u64();
            if place == LISTENER {
                accept(&mut raw, &mut ends, upstream);
                continue;
            }
            let place = place as usize;
            let Some(other) = ends[place].other else {
                continue;
            };
            let Some(count) = raw.receive(place, &mut buffer) else {
                continue;
            };
            let is_valid = count > 0 && ends[place].pass(&raw, other, &buffer[..count]);
            if !is_valid {
                for place in [place, other] {
                    ends[place] = End::default();
                    raw.close(place);
                }
            }
        }
    }
}

/// Accepts clients, and connects to the upstream for each.
#[cold]
fn accept(raw: &mut RawEpoll<'_>, ends: &mut Vec<End>, upstream: SocketAddr) {
    let places = raw.accept();
    ends.resize_with(ends.len().max(places), End::default);
    for client in 0..places {
        if ends[client].other.is_some() || !raw.is_open(client) {
            continue;
        }
        let Ok(stream) = TcpStream::connect(upstream) else {
            raw.close(client);
            continue;
        };
        let server = raw.add(stream);
        ends.resize_with(ends.len().max(server + 1), End::default);
        ends[client].other = Some(server);
        ends[server] = End {
            other: Some(client),
            to_client: true,
            ..End::default()
        };
    }
}

impl End {
    /// Passes received bytes to the other end. Returns `false` if they are not valid.
    #[inline]
    fn pass(&mut self, raw: &RawEpoll<'_>, other: usize, received: &[u8]) -> bool {
        if self.rest > 0 {
            self.rest = self.rest.saturating_sub(received.len());
            raw.send(other, received);
            return true;
        }
        if self.kept.is_empty() {
            return match self.parse(received) {
                Some(true) => {
                    raw.send(other, received);
                    true
                }
                Some(false) => {
                    self.kept.extend_from_slice(received);
                    true
                }
                None => false,
            };
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(received);
        match self.parse(&kept) {
            Some(true) => raw.send(other, &kept),
            Some(false) => self.kept = kept,
            None => return false,
        }
        true
    }

    /// Parses a head. Returns whether it is complete, `None` if it is not valid.
    #[inline]
    fn parse(&mut self, input: &[u8]) -> Option<bool> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
        if !self.to_client {
            let mut request = Request::new(&mut []);
            let status = request.parse_with_uninit_headers(input, &mut fields);
            return status.ok().map(|status| status.is_complete());
        }
        let mut response = Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            input,
            &mut fields,
        );
        let Status::Complete(head) = parsed.ok()? else {
            return Some(false);
        };
        let mut lengths = response.headers.iter();
        let length = lengths.find(|field| field.name.eq_ignore_ascii_case("content-length"))?;
        let length: usize = std::str::from_utf8(length.value).ok()?.parse().ok()?;
        self.rest = (head + length).saturating_sub(input.len());
        Some(true)
    }
}

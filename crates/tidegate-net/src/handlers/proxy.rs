//! The PROXY protocol of HAProxy, versions 1 and 2: the original addresses of a proxied connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::{Buf, Bytes, BytesMut};
use tidegate_core::Blocking;
use tidegate_promise::Failure;

use crate::channel::{UserEvent, ends_input};
use crate::errors::NetError;
use crate::message::Nothing;
use crate::pipeline::{Inbound, InboundContext};

/// The longest header of version 1, its end included.
const LONGEST_V1: usize = 107;
/// The longest accepted header of version 2: addresses, and room for extensions.
const LONGEST_V2: usize = 16 + 4096;
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The addresses of the connection to the proxy. A [`ProxyProtocol`] handler fires this as an event
/// and stores it as an attribute of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxiedPeer {
    /// Source and destination of the connection to the proxy. `None` if the proxy opened this
    /// connection for itself, or does not name TCP addresses.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
}

/// Reads the header that a proxy sends at the start of a connection, then removes itself. A
/// connection that starts differently, or ends within the header, fails: one error event is fired,
/// and the rest of the data is dropped.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::{ProxiedPeer, ProxyProtocol};
///
/// let mut channel = EmbeddedChannel::new(|p| p.add("proxy", ProxyProtocol::new()))?;
/// channel.receive("PROXY TCP4 192.0.2.1 192.0.2.9 4000 443\r\nGET /");
/// let peer = channel.channel().attribute::<ProxiedPeer>().unwrap();
/// assert_eq!(peer.addresses.unwrap().0, "192.0.2.1:4000".parse()?);
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "GET /");
/// assert!(channel.names().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ProxyProtocol {
    rest: BytesMut,
    done: bool,
    /// `true` if there was no header: the rest of the data is dropped.
    failed: bool,
}

impl ProxyProtocol {
    /// Creates a handler that waits for the header.
    pub fn new() -> Self {
        Self::default()
    }

    fn fail(&mut self, why: &str, ctx: &mut InboundContext<'_, Self>) {
        self.rest = BytesMut::new();
        self.failed = true;
        let why = NetError::ProtocolViolation(format!("no PROXY header: {why}"));
        ctx.fire_error(Failure::new(why));
    }
}

impl Inbound for ProxyProtocol {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let rest = std::mem::take(&mut self.rest).freeze();
        if !rest.is_empty() && ctx.channel().is_active() {
            ctx.fire_read(rest);
        }
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if self.done {
            return ctx.fire_read(bytes);
        }
        if self.failed {
            return;
        }
        self.rest.extend_from_slice(&bytes);
        match header(&self.rest) {
            Ok(None) => {}
            Ok(Some((peer, used))) => {
                self.done = true;
                self.rest.advance(used);
                ctx.channel().set_attribute(peer);
                ctx.fire_event(UserEvent::new(peer));
                if !self.rest.is_empty() {
                    let rest = std::mem::take(&mut self.rest).freeze();
                    ctx.fire_read(rest);
                }
                // The removal cannot fail: the handler passes on the same type that it takes.
                let _ = ctx.remove_me();
            }
            Err(why) => self.fail(why, ctx),
        }
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        // What was received is not passed on, so the next handlers would see a connection without data.
        if ends_input(&event) && !self.done && !self.rest.is_empty() {
            self.fail("the input ends within it", ctx);
        }
        ctx.fire_event(event);
    }
}

/// Returns the header at the start of `bytes` and its length; `None` if it is incomplete.
fn header(bytes: &[u8]) -> Result<Option<(ProxiedPeer, usize)>, &'static str> {
    let start = bytes.len().min(SIGNATURE.len());
    if bytes[..start] == SIGNATURE[..start] {
        return version_2(bytes);
    }
    let word = b"PROXY ";
    let start = bytes.len().min(word.len());
    if bytes[..start] != word[..start] {
        return Err("it begins with neither signature");
    }
    let window = &bytes[..bytes.len().min(LONGEST_V1)];
    match window.windows(2).position(|end| end == b"\r\n") {
        Some(end) => Ok(Some((version_1(&bytes[word.len()..end])?, end + 2))),
        None if bytes.len() >= LONGEST_V1 => Err("a line without an end"),
        None => Ok(None),
    }
}

fn version_1(line: &[u8]) -> Result<ProxiedPeer, &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "not text")?;
    let words: Vec<_> = line.split(' ').collect();
    if words.first() == Some(&"UNKNOWN") {
        return Ok(ProxiedPeer { addresses: None });
    }
    let &[family, source, destination, from, to] = words.as_slice() else {
        return Err("not five words");
    };
    let address = |ip: &str, port: &str| {
        let ip: IpAddr = ip.parse().map_err(|_| "an address that is none")?;
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || port.len() > 1 && port.starts_with('0') {
            return Err("a port that is none");
        }
        let port = port.parse().map_err(|_| "a port that is none")?;
        match (family, ip) {
            ("TCP4", IpAddr::V4(_)) | ("TCP6", IpAddr::V6(_)) => Ok(SocketAddr::new(ip, port)),
            _ => Err("an address of another family"),
        }
    };
    let addresses = Some((address(source, from)?, address(destination, to)?));
    Ok(ProxiedPeer { addresses })
}

fn version_2(bytes: &[u8]) -> Result<Option<(ProxiedPeer, usize)>, &'static str> {
    let Some(&[version, family, high, low]) = bytes.get(12..16) else {
        return Ok(None);
    };
    let whole = 16 + usize::from(u16::from_be_bytes([high, low]));
    if version >> 4 != 2 {
        return Err("another version than 2");
    }
    if whole > LONGEST_V2 {
        return Err("a header that is too long");
    }
    let Some(body) = bytes.get(16..whole) else {
        return Ok(None);
    };
    let addresses = match (version & 0xf, family) {
        // The proxy opened the connection for itself.
        (0, _) => None,
        (1, 0x11) => Some(pair::<4>(body, |ip| Ipv4Addr::from(ip).into())?),
        (1, 0x21) => Some(pair::<16>(body, |ip| Ipv6Addr::from(ip).into())?),
        // Addresses of other kinds: Unix sockets, datagrams, or none.
        (1, other) if other >> 4 <= 3 && other & 0xf <= 2 => None,
        (1, _) => return Err("an unknown kind of address"),
        _ => return Err("an unknown command"),
    };
    Ok(Some((ProxiedPeer { addresses }, whole)))
}

/// Reads two addresses of `N` bytes and two ports.
fn pair<const N: usize>(
    mut body: &[u8],
    ip: impl Fn([u8; N]) -> IpAddr,
) -> Result<(SocketAddr, SocketAddr), &'static str> {
    if body.len() < 2 * N + 4 {
        return Err("addresses that are cut off");
    }
    let mut take = || {
        let mut bytes = [0; N];
        body.copy_to_slice(&mut bytes);
        ip(bytes)
    };
    let (source, destination) = (take(), take());
    let (from, to) = (body.get_u16(), body.get_u16());
    Ok((
        SocketAddr::new(source, from),
        SocketAddr::new(destination, to),
    ))
}

//! The address of a listener or a server: a host with a port, or a Unix socket.
//!
//! Invariant: a host that is no IPv6 address is an IPv4 address with four numbers, or a name that no system
//! reads as an address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use super::setting::Leaf;
use super::tree::Node;
use super::values::text;

/// The address of a listener or a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A host, by name or number, and a port.
    Tcp {
        /// The host, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Returns `true` if only this machine can reach the address.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => {
                let number = host.parse::<IpAddr>();
                host == "localhost" || number.is_ok_and(|ip| ip.is_loopback())
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Leaf for Address {
    const EXPECTED: &'static str = "an address, such as `\"10.0.0.1:80\"`, `\"[::1]:80\"`, `\"name:80\"` or `\"unix:/run/a.sock\"`";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        let text = text(node)?;
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.into())),
                false => Err("the path does not begin with `/`".to_owned()),
            };
        }
        if text.contains("://") {
            return Err("it is a URL".to_owned());
        }
        let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
        // A sign is not a part of a port.
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| digits);
        let port = port.ok_or("the port is not within 0 to 65535")?;
        let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = match inner {
            Some(number) => match number.parse::<IpAddr>() {
                Ok(IpAddr::V6(_)) => number,
                _ => return Err("the brackets contain no IPv6 address".to_owned()),
            },
            None if host.contains(':') => {
                return Err("an IPv6 address needs brackets".to_owned());
            }
            None => host,
        };
        if inner.is_none() {
            check_host(host)?;
        }
        Ok(Self::Tcp {
            host: host.to_owned(),
            port,
        })
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

/// Checks a host that is a name or an IPv4 address.
///
/// # Errors
///
/// Why there can be no such host. A name whose last label is a number would be read as an address: `127.1`
/// is `127.0.0.1` for many systems.
fn check_host(host: &str) -> Result<(), String> {
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.chars().all(is_part);
    if name.len() > 253 || !name.split('.').all(is_label) {
        return Err("it has no valid host".to_owned());
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x").or(last.strip_prefix("0X"));
    let is_number = match hex {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    match is_number && host.parse::<Ipv4Addr>().is_err() {
        true => Err("an IPv4 address has four numbers, 0 to 255".to_owned()),
        false => Ok(()),
    }
}

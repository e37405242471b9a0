//! The other end of a connection, as reports name it.

use std::fmt;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) enum Peer {
    /// It has no name, or there is no connection.
    #[default]
    Unknown,
    Address(SocketAddr),
    /// The path of a Unix socket: its own one, or the one at which the two ends have met. Without control
    /// characters, which would break the line of a report.
    Path(Arc<str>),
}

impl Peer {
    #[cfg(unix)]
    pub(crate) fn at_path(path: &Path) -> Self {
        let path = path.display().to_string();
        Self::Path(path.replace(char::is_control, "\u{fffd}").into())
    }

    /// Returns the first of the addresses of Unix sockets that has a path.
    #[cfg(unix)]
    pub(crate) fn of_unix<const N: usize>(
        addresses: [std::io::Result<std::os::unix::net::SocketAddr>; N],
    ) -> Self {
        let mut paths = addresses.iter().flatten().filter_map(|at| at.as_pathname());
        paths.next().map_or(Self::Unknown, Self::at_path)
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Unknown | Self::Path(_) => None,
        }
    }

    /// Returns what to print of it, unless it has no name.
    pub(crate) fn name(&self) -> Option<&dyn fmt::Display> {
        match self {
            Self::Unknown => None,
            Self::Address(address) => Some(address),
            Self::Path(path) => Some(path),
        }
    }
}

impl From<Option<SocketAddr>> for Peer {
    fn from(address: Option<SocketAddr>) -> Self {
        address.map_or(Self::Unknown, Self::Address)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().unwrap_or(&"local").fmt(f)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_socket_is_one_line() {
        let peer = Peer::at_path(Path::new("/run/gr\u{fc}n\n\u{1b}[31m"));
        assert_eq!(peer.to_string(), "/run/gr\u{fc}n\u{fffd}\u{fffd}[31m");
    }
}

//! Addresses of sockets, as Linux reads and writes them.

use std::io;
use std::mem::{self, offset_of};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net;
use std::path::Path;

use libc::{AF_INET, AF_INET6, AF_UNIX, c_char, c_int, sa_family_t, sockaddr, socklen_t};

/// An address of a socket, or room for one.
pub(super) struct SystemAddr {
    address: Address,
    /// Number of bytes of the address, or of the room.
    length: socklen_t,
    family: c_int,
}

#[repr(C)]
union Address {
    any: libc::sockaddr_storage,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    unix: libc::sockaddr_un,
}

impl SystemAddr {
    /// Returns room for an address of any kind.
    pub(super) fn room() -> Self {
        // SAFETY: zeros are a valid address: one of no kind.
        let any = unsafe { mem::zeroed() };
        Self::new(Address { any }, size_of::<Address>(), libc::AF_UNSPEC)
    }

    pub(super) fn of_ip(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => {
                let v4 = libc::sockaddr_in {
                    sin_family: AF_INET as sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(address.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                Self::new(Address { v4 }, size_of_val(&v4), AF_INET)
            }
            SocketAddr::V6(address) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: AF_INET6 as sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: address.ip().octets(),
                    },
                    sin6_scope_id: address.scope_id(),
                };
                Self::new(Address { v6 }, size_of_val(&v6), AF_INET6)
            }
        }
    }

    /// Returns the address of the Unix socket at `path`.
    ///
    /// # Errors
    ///
    /// The path is too long, or contains a zero.
    pub(super) fn of_path(path: &Path) -> io::Result<Self> {
        net::SocketAddr::from_pathname(path)?;
        let path = path.as_os_str().as_bytes();
        let mut unix = libc::sockaddr_un {
            sun_family: AF_UNIX as sa_family_t,
            sun_path: [0; 108],
        };
        for (to, from) in unix.sun_path.iter_mut().zip(path) {
            *to = *from as c_char;
        }
        // With the zero at the end.
        let length = offset_of!(libc::sockaddr_un, sun_path) + path.len() + 1;
        Ok(Self::new(Address { unix }, length, AF_UNIX))
    }

    fn new(address: Address, length: usize, family: c_int) -> Self {
        Self {
            address,
            length: length as socklen_t,
            family,
        }
    }

    /// Returns the kind of an address that was given.
    pub(super) fn family(&self) -> c_int {
        self.family
    }

    pub(super) fn as_ptr(&self) -> *const sockaddr {
        (&raw const self.address).cast()
    }

    pub(super) fn len(&self) -> socklen_t {
        self.length
    }

    /// Returns where the system writes an address and its length.
    pub(super) fn as_mut_ptrs(&mut self) -> (*mut sockaddr, *mut socklen_t) {
        let address = (&raw mut self.address).cast();
        (address, &raw mut self.length)
    }

    /// Returns the address that the system has written to this [room](SystemAddr::room).
    ///
    /// # Errors
    ///
    /// It is not an address of IPv4 or IPv6.
    pub(super) fn to_ip(&self) -> io::Result<SocketAddr> {
        // SAFETY: every byte of the room was written, and any bytes are an address.
        let family = c_int::from(unsafe { self.address.any.ss_family });
        if family == AF_INET {
            // SAFETY: as above.
            let v4 = unsafe { self.address.v4 };
            let ip = v4.sin_addr.s_addr.to_ne_bytes().into();
            let port = u16::from_be(v4.sin_port);
            return Ok(SocketAddrV4::new(ip, port).into());
        }
        if family == AF_INET6 {
            // SAFETY: as above.
            let v6 = unsafe { self.address.v6 };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            let (flow, scope) = (v6.sin6_flowinfo, v6.sin6_scope_id);
            return Ok(SocketAddrV6::new(ip, port, flow, scope).into());
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    //! Addresses there and back, and paths that do not fit.

    use super::*;

    /// Returns the address after it was written to a room, as the system does.
    fn there_and_back(address: &str) -> SocketAddr {
        let given = SystemAddr::of_ip(address.parse().unwrap());
        let mut room = SystemAddr::room();
        let (from, to) = (given.as_ptr().cast::<u8>(), room.as_mut_ptrs().0);
        // SAFETY: the room has at least as many bytes as any address.
        unsafe { from.copy_to_nonoverlapping(to.cast(), given.len() as usize) };
        room.to_ip().unwrap()
    }

    #[test]
    fn an_address_keeps_its_parts() {
        for address in [
            "127.0.0.1:80",
            "1.2.3.4:65535",
            "[::1]:80",
            "[fe80::1:2%3]:4",
        ] {
            assert_eq!(there_and_back(address).to_string(), address);
        }
    }

    #[test]
    fn an_address_of_no_kind_is_refused() {
        let refused = SystemAddr::room().to_ip().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_path_ends_with_a_zero_and_a_long_one_is_refused() {
        let address = SystemAddr::of_path(Path::new("/a/b")).unwrap();
        assert_eq!((address.family(), address.len()), (AF_UNIX, 2 + 4 + 1));
        let longest = "x".repeat(107);
        assert!(SystemAddr::of_path(Path::new(&longest)).is_ok());
        let longer = "x".repeat(108);
        for path in [longer.as_str(), "a\0b"] {
            let refused = SystemAddr::of_path(Path::new(path));
            let why = refused.err().expect("it is refused");
            assert_eq!(why.kind(), io::ErrorKind::InvalidInput);
        }
    }
}

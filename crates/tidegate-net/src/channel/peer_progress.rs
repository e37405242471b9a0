//! What the peer of a channel has acknowledged, for a crate of the workspace that limits how long a peer
//! may take nothing.
//!
//! The operating system takes a lot before it sends, and takes more only when much of that was sent. So
//! what it takes does not show whether a slow peer takes something.

/// What the peer had acknowledged when deadlines of the channel were last due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProgress {
    /// The bytes that the peer has acknowledged since the channel was opened.
    pub acknowledged: u64,
    /// The bytes that the operating system has taken and the peer has not acknowledged.
    pub held: u64,
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use tidegate_testkit::until;

    use crate::channel::transport::Transport;
    use crate::sys::{Adopted, TcpStream as Socket};

    #[test]
    fn what_the_peer_has_received_is_not_held() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = listener.accept().unwrap().0;
        socket.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = socket.write(&[0; 65536]) {
            sent += count as u64;
        }
        let transport = Transport::tcp(Socket::adopt(socket).unwrap());
        // The peer's system takes a part, which is less than all.
        until("a part is acknowledged", || {
            transport.unacknowledged().is_some_and(|held| held < sent)
        });
        assert!(transport.unacknowledged().unwrap() > 0);
        peer.read_exact(&mut vec![0; sent as usize]).unwrap();
        until("everything is acknowledged", || {
            transport.unacknowledged() == Some(0)
        });
    }
}

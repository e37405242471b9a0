//! One client: a request at a time on a connection that it keeps, each response read to its end.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a client waits for bytes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// The connection ends with it.
    pub(super) closes: bool,
}

/// A connection.
pub(super) struct Client {
    stream: TcpStream,
    kept: Vec<u8>,
}

impl Client {
    pub(super) fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let kept = Vec::new();
        Ok(Self { stream, kept })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(super) fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let ready = self.kept.len().min(buffer.len());
        buffer[..ready].copy_from_slice(&self.kept[..ready]);
        self.kept.drain(..ready);
        self.stream.read_exact(&mut buffer[ready..])
    }

    /// Waits for so long whether the connection ends before anything was sent.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] if the other side has closed it, or that of a read.
    pub(super) fn stays_open(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))?;
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(PATIENCE))?;
        match peeked {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Returns `true` if a part of a response was received.
    pub(super) fn has_received(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Reads a response to its end. It must declare its length.
    pub(super) fn reply(&mut self) -> io::Result<Reply> {
        loop {
            if let Some((length, reply)) = parse(&self.kept) {
                let length = length?;
                if self.kept.len() >= length {
                    self.kept.drain(..length);
                    return Ok(reply);
                }
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.kept.extend_from_slice(&buffer[..count]),
            }
        }
    }
}

/// Reads a head, if it is complete. Returns the length of the whole response, and what it says.
pub(super) fn parse(received: &[u8]) -> Option<(io::Result<usize>, Reply)> {
    let end = received.windows(4).position(|part| part == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(own, _)| *own == name).map(|(_, value)| value)
    };
    let status = head.get(9..12).and_then(|status| status.parse().ok());
    let length = match (status, field("content-length")) {
        (Some(101), _) => Ok(0),
        (_, Some(length)) => length
            .parse()
            .map_err(|_| io::ErrorKind::InvalidData.into()),
        (_, None) => Err(io::ErrorKind::InvalidData.into()),
    };
    let reply = Reply {
        status: status.unwrap_or(0),
        closes: field("connection") == Some("close"),
    };
    Some((length.map(|length: usize| end + 4 + length), reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_by_its_length() {
        let text = b"HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab";
        let (length, reply) = parse(text).expect("it is complete");
        assert_eq!(length.expect("it has a length"), text.len());
        assert_eq!((reply.status, reply.closes), (503, true));
        assert!(parse(b"HTTP/1.1 200 OK\r\nContent").is_none());
        let (length, _) = parse(b"HTTP/1.1 200 OK\r\n\r\n").expect("it is complete");
        assert!(length.is_err());
    }
}

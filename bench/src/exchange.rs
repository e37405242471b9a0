//! One HTTP request and its response over a blocking socket: finds how long responses are.

use std::io::{self, Read, Write};

/// A small request, which every HTTP server of this program answers.
pub(crate) const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";

/// Sends a request and reads the response. Returns the length of the response.
pub(crate) fn exchange(stream: &mut (impl Read + Write), request: &[u8]) -> io::Result<usize> {
    stream.write_all(request)?;
    let (mut reply, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        reply.extend_from_slice(&buffer[..count]);
        match length(&reply) {
            Some(length) if reply.len() >= length => return Ok(length),
            _ => {}
        }
    }
}

/// Returns the length of a response, if its head is complete, and so is its body where it is
/// chunked.
fn length(reply: &[u8]) -> Option<usize> {
    let end = reply.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let (head, body) = (std::str::from_utf8(&reply[..end]).ok()?, &reply[end + 4..]);
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let declared = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let body = match declared {
        Some((_, length)) => length.parse().ok()?,
        None => chunked_length(body)?,
    };
    Some(end + 4 + body)
}

/// Returns the length of a chunked body without trailers, if it is complete.
fn chunked_length(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = body.get(at..)?;
        let line = rest.iter().position(|byte| *byte == b'\n')?;
        let size = std::str::from_utf8(&rest[..line]).ok()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        at += line + 1 + size + 2;
        if size == 0 {
            return (at <= body.len()).then_some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn the_length_of_a_response_is_that_of_its_head_and_its_body() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\ndate: x";
        assert_eq!(length(head.as_bytes()), None);
        let whole = format!("{head}\r\n\r\nHello");
        assert_eq!(length(whole.as_bytes()), Some(head.len() + 17));
    }

    #[test]
    fn a_chunked_response_ends_with_its_last_chunk() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let whole = format!("{head}a\r\n0123456789\r\n0\r\n\r\n");
        assert_eq!(length(whole.as_bytes()), Some(whole.len()));
        assert_eq!(length(&whole.as_bytes()[..whole.len() - 1]), None);
    }
}

//! The response that is being written, checked part by part.

use bytes::{Bytes, BytesMut};

use crate::codec::{BodyEncoder, BodyFraming, EncodeError, Method, OwnedResponseHead, Version};
use crate::server::{ReplyTo, Switches};

/// The body of the response that is being written.
#[derive(Debug)]
pub(super) struct Sending {
    encoder: BodyEncoder,
    framing: BodyFraming,
    /// The connection ends with this response.
    pub(super) close: bool,
}

/// What a head becomes.
#[derive(Debug)]
pub(super) enum Begun {
    /// An interim response: the final one follows.
    Interim(Bytes),
    /// The head of a response.
    Response(Bytes, Sending),
    /// The connection is a tunnel now.
    Tunnel(Bytes),
}

impl Sending {
    /// Begins the response to a request. `last` is set if the connection ends with it.
    pub(super) fn begin(
        mut head: OwnedResponseHead,
        to: ReplyTo,
        last: bool,
    ) -> Result<Begun, EncodeError> {
        let status = head.as_head().status();
        if (100..200).contains(&status) && status != 101 {
            return Ok(Begun::Interim(encoded(&head)?));
        }
        let method = match to.switches {
            Switches::Connect => Method::Connect,
            _ if to.head => Method::Head,
            _ => Method::Get,
        };
        let mut framing = head.as_head().framing(method);
        if framing == BodyFraming::Tunnel {
            if to.switches == Switches::No
                || (status == 101 && head.as_head().get("Upgrade").is_none())
            {
                return Err(EncodeError::Switch);
            }
            head.set_framing(BodyFraming::Tunnel)?;
            if status == 101 {
                head.replace("Connection", b"Upgrade")?;
            }
            return Ok(Begun::Tunnel(encoded(&head)?));
        }
        if framing == BodyFraming::UntilClose && to.version == Version::Http11 {
            framing = BodyFraming::Chunked;
            head.set_framing(framing)?;
        } else if framing == BodyFraming::Chunked && to.version == Version::Http10 {
            framing = BodyFraming::UntilClose;
            head.set_framing(framing)?;
        }
        if status == 204 {
            head.set_framing(BodyFraming::Empty)?;
        }
        let until_close = framing == BodyFraming::UntilClose;
        let close = last || !to.keep_alive || until_close || says_close(&head);
        match (close, to.version) {
            (true, _) => head.replace("Connection", b"close")?,
            (false, Version::Http10) => head.replace("Connection", b"keep-alive")?,
            (false, Version::Http11) => {}
        }
        let sending = Self {
            encoder: BodyEncoder::new(framing),
            framing,
            close,
        };
        Ok(Begun::Response(encoded(&head)?, sending))
    }

    /// Returns what precedes a piece of the body, or `None` if the response has no body.
    pub(super) fn data(&mut self, length: usize) -> Result<Option<Bytes>, EncodeError> {
        if self.framing == BodyFraming::Empty || length == 0 {
            return Ok(None);
        }
        let mut prefix = BytesMut::new();
        self.encoder.data_prefix(&mut prefix, length)?;
        Ok(Some(prefix.freeze()))
    }

    /// Returns what follows a piece of the body.
    pub(super) fn suffix(&mut self) -> Result<Bytes, EncodeError> {
        let mut suffix = BytesMut::new();
        self.encoder.data_suffix(&mut suffix)?;
        Ok(suffix.freeze())
    }

    /// Returns the end of the body.
    pub(super) fn end(&mut self, trailers: &[(String, Vec<u8>)]) -> Result<Bytes, EncodeError> {
        let mut end = BytesMut::new();
        if trailers.is_empty() || self.framing != BodyFraming::Chunked {
            self.encoder.finish(&mut end)?;
        } else {
            let trailers = trailers.iter().map(|(name, value)| (&name[..], &value[..]));
            let trailers: Vec<_> = trailers.collect();
            self.encoder.finish_with_trailers(&mut end, &trailers)?;
        }
        Ok(end.freeze())
    }
}

fn encoded(head: &OwnedResponseHead) -> Result<Bytes, EncodeError> {
    let mut out = BytesMut::new();
    head.encode(&mut out)?;
    Ok(out.freeze())
}

/// Returns `true` if a field `Connection` of the head asks for the end of the connection.
fn says_close(head: &OwnedResponseHead) -> bool {
    let head = head.as_head();
    let mut options = head.get_all("Connection").flat_map(|value| {
        let options = value.split(|byte| *byte == b',');
        options.map(<[u8]>::trim_ascii)
    });
    options.any(|option| option.eq_ignore_ascii_case(b"close"))
}

//! What a connection gets from other threads: parts of responses, and notices of the readers of bodies.

use bytes::{Bytes, BytesMut};
use tidegate_net::{FileRange, Message};

use super::flow::FlowEnd;
use super::switch::SwitchPlan;
use super::trouble::Trouble;
use crate::codec::{BodyFraming, EncodeError};

/// A message to the connection about its response number `seq`.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) seq: u64,
    pub(crate) what: PartKind,
}

/// What becomes of a response.
#[derive(Debug)]
pub(crate) enum PartKind {
    /// The whole response.
    Whole(Whole),
    /// The head of a response whose body follows in pieces.
    Head(StreamHead),
    /// A response that changes the protocol.
    Switch(Box<SwitchPlan>),
    /// The head of an interim response.
    Interim(Bytes),
    /// A piece of the body.
    Data(Bytes),
    /// The end of the body, with the trailers as encoded field lines.
    End { trailers: Vec<(String, Vec<u8>)> },
    /// The service dropped its handle before the end of the response.
    Dropped,
    /// The service made a response that cannot be sent.
    Mistake(EncodeError),
    /// The service failed in another way.
    #[cfg_attr(
        not(feature = "async"),
        expect(dead_code, reason = "only futures fail so")
    )]
    Failed(ServiceFault),
}

/// A notice about the body of request `seq`. It is an event: a reader may be late, and handlers to which
/// the connection was passed on meanwhile ignore events that they do not know. A message would be an
/// error for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyNotice {
    pub(crate) seq: u64,
    pub(crate) what: BodyNoticeKind,
}

/// What the reader of a body has done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyNoticeKind {
    /// It has room for more.
    ReadMore,
    /// It was dropped before the end.
    Dropped,
}

/// How a service failed.
#[derive(Debug)]
pub(crate) struct ServiceFault {
    pub(crate) what: Trouble,
    pub(crate) detail: String,
}

/// A complete response, encoded.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    /// The head, and the body if it is small.
    pub(crate) head: BytesMut,
    /// The body if it is large; otherwise empty.
    pub(crate) body: Bytes,
    /// The body if it is a file.
    pub(crate) file: Option<Box<FileRange>>,
    /// The connection ends with this response.
    pub(crate) close: bool,
    pub(crate) status: u16,
}

/// The encoded head of a streamed response.
#[derive(Debug)]
pub(crate) struct StreamHead {
    pub(crate) head: BytesMut,
    pub(crate) framing: BodyFraming,
    pub(crate) close: bool,
    pub(crate) status: u16,
    pub(crate) flow: FlowEnd,
}

impl Message for Part {
    fn size(&self) -> usize {
        match &self.what {
            PartKind::Whole(whole) => whole.head.len() + whole.body.len(),
            PartKind::Head(head) => head.head.len(),
            PartKind::Data(bytes) | PartKind::Interim(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

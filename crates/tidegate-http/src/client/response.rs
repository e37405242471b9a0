//! The response to a call.

use bytes::Bytes;
use tidegate_promise::Completion;

use super::body::ResponseBody;
use super::upgraded::Upgraded;
use crate::codec::{OwnedResponseHead, ResponseHead};

/// The response to a call: its head, and its body on demand.
///
/// ```
/// use tidegate_http::client::Client;
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let server = tidegate_http::serve(&group, "127.0.0.1:0", |_, response| {
///     response.field("x-kind", "greeting").body("hello");
/// })
/// .wait()?;
/// let client = Client::builder(&group).build();
/// let response = client.get(format!("http://{}/", server.local_addr())).send().wait()?;
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.get("X-Kind"), Some(&b"greeting"[..]));
/// assert_eq!(response.collect(1024).wait()?, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Response {
    head: OwnedResponseHead,
    body: ResponseBody,
    upgraded: Option<Upgraded>,
}

impl Response {
    pub(super) fn new(head: OwnedResponseHead, body: ResponseBody) -> Self {
        Self {
            head,
            body,
            upgraded: None,
        }
    }

    pub(super) fn upgraded(
        head: OwnedResponseHead,
        body: ResponseBody,
        upgraded: Upgraded,
    ) -> Self {
        Self {
            head,
            body,
            upgraded: Some(upgraded),
        }
    }

    /// Returns the status.
    pub fn status(&self) -> u16 {
        self.head.as_head().status()
    }

    /// Returns the value of the first field with this name, in any case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.head.as_head().get(name)
    }

    /// Returns the head.
    pub fn head(&self) -> ResponseHead<'_> {
        self.head.as_head()
    }

    /// Collects the body, of at most `max` bytes: see [`ResponseBody::collect`].
    pub fn collect(self, max: usize) -> Completion<Bytes> {
        self.body.collect(max)
    }

    /// Returns the body, to read it in pieces.
    pub fn into_body(self) -> ResponseBody {
        self.body
    }

    /// Returns the connection, if the server has changed the protocol: with status 101 after
    /// [`upgrade`](super::RequestBuilder::upgrade), or with one of success after
    /// [`tunnel`](super::Client::tunnel).
    ///
    /// # Errors
    ///
    /// The response, if it is an ordinary one.
    pub fn into_upgraded(mut self) -> Result<Upgraded, Box<Self>> {
        self.upgraded.take().ok_or_else(|| Box::new(self))
    }
}

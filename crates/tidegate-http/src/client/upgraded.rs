//! A connection on which the server has changed the protocol.

use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use tidegate_core::internal::lock;
use tidegate_net::{Blocking, Channel, Handler, Inbound, InboundContext, Nothing, PipelineChange};
use tidegate_promise::Completion;

use super::connection::SWITCHED;

/// The name of the handler that takes the connection over.
const TAKEN_OVER: &str = "upgraded";

/// A connection on which the server has changed the protocol. From
/// [`Response::into_upgraded`](super::Response::into_upgraded).
///
/// It does not belong to the client any more, and does not count for the limit of connections.
/// Nothing is read until a handler [takes it over](Upgraded::take_over). Dropping it before that
/// closes the connection.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_http::client::Client;
/// use tidegate_net::{Handler, Inbound, InboundContext, Nothing};
///
/// /// Completes a promise with what it receives first.
/// struct First(Option<tidegate_promise::Promise<Bytes>>);
/// impl Inbound for First {
///     type In = Bytes;
///     type Out = Nothing;
///     type Write = Bytes;
///     fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
///         if let Some(promise) = self.0.take() {
///             let _ = promise.succeed(bytes);
///         }
///     }
/// }
/// # /// Sends everything back.
/// # struct Echo;
/// # impl Inbound for Echo {
/// #     type In = Bytes;
/// #     type Out = Nothing;
/// #     type Write = Bytes;
/// #     fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
/// #         ctx.write(bytes);
/// #         ctx.flush();
/// #     }
/// # }
///
/// let group = tidegate_net::pinned("io", 1)?;
/// # let server = tidegate_http::serve(&group, "127.0.0.1:0", |_, response| {
/// #     let response = response.field("Upgrade", "echo");
/// #     response.switch(|switch| switch.add("echo", Handler::inbound(Echo)));
/// # }).wait()?;
/// # let url = format!("http://{}/", server.local_addr());
/// let client = Client::builder(&group).build();
/// let response = client.get(url).upgrade("echo").send().wait()?;
/// let upgraded = response.into_upgraded().map_err(|refused| refused.status().to_string())?;
/// let channel = upgraded.channel().clone();
/// let (promise, received) = tidegate_promise::promise();
/// let handler = move |_early| Handler::inbound(First(Some(promise)));
/// upgraded.take_over(handler).wait()?;
/// channel.write_and_flush("hello");
/// assert_eq!(received.wait()?, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it closes the connection"]
pub struct Upgraded {
    channel: Channel,
    early: Arc<Early>,
    taken: bool,
}

/// Bytes that came before a handler has taken over.
#[derive(Default)]
struct Early(Mutex<BytesMut>);

impl Early {
    fn push(&self, bytes: &[u8]) {
        let mut early = lock(&self.0);
        early.extend_from_slice(bytes);
    }

    fn take(&self) -> Bytes {
        let mut early = lock(&self.0);
        std::mem::take(&mut *early).freeze()
    }
}

impl Upgraded {
    /// Returns the connection, and the handler that keeps what comes until another one takes over.
    /// `received` came with the head.
    pub(super) fn new(channel: Channel, received: Bytes) -> (Self, Holds) {
        let early = Arc::new(Early::default());
        early.push(&received);
        let upgraded = Self {
            channel,
            early: Arc::clone(&early),
            taken: false,
        };
        (upgraded, Holds(early))
    }

    /// Returns the channel. What is written to it is sent, also before a handler has taken over.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Passes the connection to a handler, and reads on. `make` gets the bytes that were
    /// received already: they come before everything that the handler reads. It runs on the event
    /// loop of the connection.
    ///
    /// The completion fails if the connection has ended, if the handler does not take bytes, or if
    /// `make` panics; the connection is closed then.
    pub fn take_over(
        mut self,
        make: impl FnOnce(Bytes) -> Handler + Send + 'static,
    ) -> Completion<()> {
        self.taken = true;
        let (early, channel) = (Arc::clone(&self.early), self.channel.clone());
        let changed = channel
            .change(move || PipelineChange::replace(SWITCHED, TAKEN_OVER, make(early.take())));
        drop(
            changed.on_complete(move |outcome| match outcome.is_success() {
                true => channel.set_auto_read(true),
                false => drop(channel.close()),
            }),
        );
        changed
    }
}

impl Drop for Upgraded {
    fn drop(&mut self) {
        if !self.taken {
            drop(self.channel.close());
        }
    }
}

tidegate_core::debug_fields!(Upgraded, this => channel: this.channel);

/// Keeps what is received. There is little of it, because the channel does not read.
pub(super) struct Holds(Arc<Early>);

impl Inbound for Holds {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        // As for any channel. The handler that takes over may set it again.
        ctx.set_half_closure(false);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.0.push(&bytes);
        ctx.give_back(bytes);
    }
}

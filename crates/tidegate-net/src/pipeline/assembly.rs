//! Builds the chain of handlers of a new channel.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_core::internal::contain;
use tidegate_loop::{Pinned, Placement, Roaming};
use tidegate_promise::Failure;

use super::adapter::{Both, In, Out};
use super::check::{Head, Name, PipelineError, check_names, check_types};
use super::erased::{Checked, NewHandler};
use super::handler::{Inbound, Outbound};

/// A handler ready to be put into a pipeline.
///
/// ```
/// use tidegate_net::{PipelineChange, Handler};
/// use tidegate_net::handlers::LineFrames;
///
/// let change = PipelineChange::add_first("lines", Handler::inbound(LineFrames::max(1024)));
/// # let _ = change;
/// ```
///
/// A handler that is not `Send` is created with the `local_` variants and fits only a channel of a
/// pinned event loop. A channel of a roaming loop refuses it with [`PipelineError::NotSend`].
pub struct Handler(pub(crate) NewHandler);

impl Handler {
    /// Wraps a handler of inbound events.
    pub fn inbound(handler: impl Inbound + Send) -> Self {
        Self(NewHandler::Send(Box::new(In(handler))))
    }

    /// Wraps a handler of outbound operations.
    pub fn outbound(handler: impl Outbound + Send) -> Self {
        Self(NewHandler::Send(Box::new(Out(handler))))
    }

    /// Wraps a handler of both directions.
    pub fn duplex(handler: impl Inbound + Outbound + Send) -> Self {
        Self(NewHandler::Send(Box::new(Both(handler))))
    }

    /// Like [`Handler::inbound`], for a handler that is not `Send`.
    pub fn local_inbound(handler: impl Inbound) -> Self {
        Self(NewHandler::Local(Box::new(In(handler))))
    }

    /// Like [`Handler::outbound`], for a handler that is not `Send`.
    pub fn local_outbound(handler: impl Outbound) -> Self {
        Self(NewHandler::Local(Box::new(Out(handler))))
    }

    /// Like [`Handler::duplex`], for a handler that is not `Send`.
    pub fn local_duplex(handler: impl Inbound + Outbound) -> Self {
        Self(NewHandler::Local(Box::new(Both(handler))))
    }

    /// Returns a name for an unnamed handler that none of `taken` is: its type name and a number.
    pub(super) fn default_name<'a>(&self, taken: impl Iterator<Item = &'a Name>) -> Name {
        let whole = (self.0.shape().type_name)();
        let path = whole.split('<').next().unwrap_or(whole);
        let short = path.rsplit("::").next().unwrap_or(path);
        let number = |name: &Name| name.strip_prefix(short)?.strip_prefix('#')?.parse().ok();
        let taken: HashSet<usize> = taken.filter_map(number).collect();
        let free = (0..).find(|number| !taken.contains(number));
        let free = free.expect("there are more numbers than handlers");
        Cow::Owned(format!("{short}#{free}"))
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str((self.0.shape().type_name)())
    }
}

/// The handlers of a new channel, first to last.
///
/// ```
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::{LineFrames, Strings};
///
/// let mut channel = EmbeddedChannel::new(|p| {
///     p.add("lines", LineFrames::max(80)).add_duplex("strings", Strings::utf8())
/// })?;
/// assert_eq!(channel.names(), ["lines", "strings"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// On a roaming event loop, handlers move between threads, so they must be `Send`:
///
/// ```compile_fail
/// use std::rc::Rc;
/// use tidegate_net::{PipelineBuilder, Inbound, InboundContext, Nothing};
/// use tidegate_loop::Roaming;
///
/// struct Stays(Rc<()>);
/// impl Inbound for Stays {
///     type In = bytes::Bytes;
///     type Out = Nothing;
///     type Write = Nothing;
///     fn read(&mut self, _: bytes::Bytes, _: &mut InboundContext<'_, Self>) {}
/// }
///
/// fn assemble(p: PipelineBuilder<Roaming>) -> PipelineBuilder<Roaming> {
///     p.add("stays", Stays(Rc::new(()))) // with `PipelineBuilder` alone, of a pinned loop, it compiles
/// }
/// ```
///
/// A handler with [`Inbound::DUPLEX`] cannot be added for one direction alone:
///
/// ```compile_fail,E0080
/// use bytes::Bytes;
/// use tidegate_net::{EmbeddedChannel, Inbound, InboundContext, Outbound, OutboundContext};
///
/// struct Cipher;
/// impl Inbound for Cipher {
///     type In = Bytes;
///     type Out = Bytes;
///     type Write = Bytes;
///     const DUPLEX: bool = true;
///     fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
///         ctx.fire_read(bytes);
///     }
/// }
/// impl Outbound for Cipher {
///     type Take = Bytes;
///     type Write = Bytes;
///     fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
///         ctx.write(bytes);
///     }
/// }
///
/// let channel = EmbeddedChannel::new(|p| p.add("cipher", Cipher)); // `add_duplex` compiles
/// ```
#[derive(Debug)]
#[must_use = "an assembly does nothing until it is handed back"]
pub struct PipelineBuilder<P: Placement = Pinned> {
    handlers: Vec<(Name, Handler)>,
    placement: PhantomData<P>,
}

impl PipelineBuilder {
    /// Adds a handler of inbound events behind the others. An empty name is replaced with one
    /// derived from the handler's type.
    pub fn add(self, name: impl Into<Cow<'static, str>>, handler: impl Inbound) -> Self {
        self.add_handler(name, Handler::local_inbound(handler))
    }

    /// Adds a handler of outbound operations.
    pub fn add_outbound(self, name: impl Into<Cow<'static, str>>, handler: impl Outbound) -> Self {
        self.add_handler(name, Handler::local_outbound(handler))
    }

    /// Adds a handler of both directions.
    pub fn add_duplex(
        self,
        name: impl Into<Cow<'static, str>>,
        handler: impl Inbound + Outbound,
    ) -> Self {
        self.add_handler(name, Handler::local_duplex(handler))
    }
}

impl PipelineBuilder<Roaming> {
    /// Adds a handler of inbound events behind the others. An empty name is replaced with one
    /// derived from the handler's type.
    pub fn add(self, name: impl Into<Cow<'static, str>>, handler: impl Inbound + Send) -> Self {
        self.add_handler(name, Handler::inbound(handler))
    }

    /// Adds a handler of outbound operations.
    pub fn add_outbound(
        self,
        name: impl Into<Cow<'static, str>>,
        handler: impl Outbound + Send,
    ) -> Self {
        self.add_handler(name, Handler::outbound(handler))
    }

    /// Adds a handler of both directions.
    pub fn add_duplex(
        self,
        name: impl Into<Cow<'static, str>>,
        handler: impl Inbound + Outbound + Send,
    ) -> Self {
        self.add_handler(name, Handler::duplex(handler))
    }
}

impl<P: Placement> PipelineBuilder<P> {
    pub(crate) fn new() -> Self {
        Self {
            handlers: Vec::new(),
            placement: PhantomData,
        }
    }

    /// Adds a wrapped handler.
    pub fn add_handler(mut self, name: impl Into<Cow<'static, str>>, handler: Handler) -> Self {
        let mut name = name.into();
        if name.is_empty() {
            name = handler.default_name(self.handlers.iter().map(|(name, _)| name));
        }
        self.handlers.push((name, handler));
        self
    }

    /// Returns the handlers if they fit each other and `head`.
    pub(crate) fn checked(self, head: Head) -> Result<Checked, PipelineError> {
        let chain: Vec<_> = self
            .handlers
            .iter()
            .map(|(name, handler)| (name.clone(), handler.0.shape()))
            .collect();
        check_names(&chain)?;
        check_types(&chain, head)?;
        for (name, handler) in &self.handlers {
            if !P::PINNED && handler.0.is_local() {
                let name = name.to_string();
                return Err(PipelineError::NotSend { name });
            }
        }
        let handlers = self.handlers.into_iter();
        Ok(handlers.map(|(name, handler)| (name, handler.0)).collect())
    }
}

/// The user's closure that creates the handlers of a new connection, called on its event loop.
pub(crate) type Initialiser<P> =
    Arc<dyn Fn(PipelineBuilder<P>) -> PipelineBuilder<P> + Send + Sync>;

/// Creates the handlers of a new connection and checks that they fit each other and `head`. Catches
/// a panic.
pub(crate) fn assemble<P: Placement>(
    initialise: &Initialiser<P>,
    head: Head,
) -> Result<Checked, Failure> {
    let made = contain(|| initialise(PipelineBuilder::new()));
    let made = made.map_err(|panic| Failure::from_panic_of("the pipeline closure", panic))?;
    made.checked(head).map_err(Failure::new)
}

//! Assembling a chain of handlers, and changing it later.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_core::{Blocking, Executor};
use tidegate_loop::{Pinned, Placement, Roaming};

use super::check::{Head, Name, PipelineError, check};
use super::handler::{Both, In, Inbound, Made, Out, Outbound, Shape, duplex_shape, inbound_shape};
use super::lodged::Lodged;
use super::stage::Stage;
use super::{Action, Parts};

/// A handler ready to be put into a pipeline.
///
/// ```
/// use tidegate_net::{Change, Handler};
/// use tidegate_net::handlers::LineFrames;
///
/// let change = Change::add_first("lines", Handler::inbound(LineFrames::max(1024)));
/// # let _ = change;
/// ```
///
/// One that is not `Send` is made with the `local_` variants and fits a channel of a pinned loop
/// only; that of a roaming loop refuses it with [`PipelineError::Stays`].
pub struct Handler(pub(crate) Made);

impl Handler {
    /// A handler of what comes in.
    pub fn inbound(handler: impl Inbound + Send) -> Self {
        Self(Made::Sent(Box::new(In(handler))))
    }

    /// A handler of what goes out.
    pub fn outbound(handler: impl Outbound + Send) -> Self {
        Self(Made::Sent(Box::new(Out(handler))))
    }

    /// A handler of both.
    pub fn duplex(handler: impl Inbound + Outbound + Send) -> Self {
        Self(Made::Sent(Box::new(Both(handler))))
    }

    /// [`Handler::inbound`] for one that runs on `executor` instead of the channel's loop: one call
    /// at a time, in order, whatever the executor is like. It may block there. What it passes on
    /// and writes goes back to the loop. When much waits for it the channel reads no more; work
    /// that the executor refuses is an error event, a [`NetError::Refused`](crate::NetError).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate_pool::WorkerPool;
    /// use tidegate_net::Handler;
    /// use tidegate_net::handlers::LineFrames;
    ///
    /// let pool = WorkerPool::builder("slow").core(1).build()?;
    /// let lines = Handler::inbound_on(Arc::new(pool), LineFrames::max(1024));
    /// # let _ = lines;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inbound_on<H: Inbound + Send>(executor: Arc<dyn Executor>, handler: H) -> Self {
        // There it may do what it likes.
        let shape = const { &inbound_shape::<H>(Blocking::Never) };
        Self(Made::Sent(Box::new(Stage::new(
            executor,
            shape,
            Box::new(In(handler)),
        ))))
    }

    /// [`Handler::duplex`] for one that runs on `executor`: see [`Handler::inbound_on`].
    pub fn duplex_on<H: Inbound + Outbound + Send>(
        executor: Arc<dyn Executor>,
        handler: H,
    ) -> Self {
        let shape = const { &duplex_shape::<H>(Blocking::Never) };
        Self(Made::Sent(Box::new(Stage::new(
            executor,
            shape,
            Box::new(Both(handler)),
        ))))
    }

    /// [`Handler::inbound`] for one that stays on its thread.
    pub fn local_inbound(handler: impl Inbound) -> Self {
        Self(Made::Local(Box::new(In(handler))))
    }

    /// [`Handler::outbound`] for one that stays on its thread.
    pub fn local_outbound(handler: impl Outbound) -> Self {
        Self(Made::Local(Box::new(Out(handler))))
    }

    /// [`Handler::duplex`] for one that stays on its thread.
    pub fn local_duplex(handler: impl Inbound + Outbound) -> Self {
        Self(Made::Local(Box::new(Both(handler))))
    }

    /// A name for a handler that was given none: its type, and a number.
    fn default_name(&self, taken: impl Fn(&str) -> bool) -> Name {
        let whole = (self.0.shape().type_name)();
        let path = whole.split('<').next().unwrap_or(whole);
        let short = path.rsplit("::").next().unwrap_or(path);
        let numbered = (0..).map(|number| format!("{short}#{number}"));
        let free = numbered.into_iter().find(|name| !taken(name));
        Cow::Owned(free.expect("there are more numbers than handlers"))
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
/// On a roaming loop handlers travel, so they must be `Send`:
///
/// ```compile_fail
/// use std::rc::Rc;
/// use tidegate_net::{Assembly, Inbound, InboundContext, Nothing};
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
/// fn assemble(p: Assembly<Roaming>) -> Assembly<Roaming> {
///     p.add("stays", Stays(Rc::new(()))) // with `Assembly` alone, of a pinned loop, it compiles
/// }
/// ```
///
/// A handler of both directions that says [`Inbound::DUPLEX`] is not added for one alone:
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
pub struct Assembly<P: Placement = Pinned> {
    handlers: Vec<(Name, Handler)>,
    placement: PhantomData<P>,
}

impl Assembly {
    /// Adds a handler of what comes in behind the others. An empty name stands for one made of
    /// the handler's type.
    pub fn add(self, name: impl Into<Cow<'static, str>>, handler: impl Inbound) -> Self {
        self.add_handler(name, Handler::local_inbound(handler))
    }

    /// Adds a handler of what goes out.
    pub fn add_outbound(self, name: impl Into<Cow<'static, str>>, handler: impl Outbound) -> Self {
        self.add_handler(name, Handler::local_outbound(handler))
    }

    /// Adds a handler of both.
    pub fn add_duplex(
        self,
        name: impl Into<Cow<'static, str>>,
        handler: impl Inbound + Outbound,
    ) -> Self {
        self.add_handler(name, Handler::local_duplex(handler))
    }
}

impl Assembly<Roaming> {
    /// Adds a handler of what comes in behind the others. An empty name stands for one made of
    /// the handler's type.
    pub fn add(self, name: impl Into<Cow<'static, str>>, handler: impl Inbound + Send) -> Self {
        self.add_handler(name, Handler::inbound(handler))
    }

    /// Adds a handler of what goes out.
    pub fn add_outbound(
        self,
        name: impl Into<Cow<'static, str>>,
        handler: impl Outbound + Send,
    ) -> Self {
        self.add_handler(name, Handler::outbound(handler))
    }

    /// Adds a handler of both.
    pub fn add_duplex(
        self,
        name: impl Into<Cow<'static, str>>,
        handler: impl Inbound + Outbound + Send,
    ) -> Self {
        self.add_handler(name, Handler::duplex(handler))
    }
}

impl<P: Placement> Assembly<P> {
    pub(crate) fn new() -> Self {
        Self {
            handlers: Vec::new(),
            placement: PhantomData,
        }
    }

    /// Adds a handler made before.
    pub fn add_handler(mut self, name: impl Into<Cow<'static, str>>, handler: Handler) -> Self {
        let mut name = name.into();
        if name.is_empty() {
            let taken = |name: &str| self.handlers.iter().any(|(other, _)| other == name);
            name = handler.default_name(taken);
        }
        self.handlers.push((name, handler));
        self
    }

    /// The handlers, if they fit each other and `head`.
    pub(crate) fn checked(self, head: Head) -> Result<Vec<(Name, Handler)>, PipelineError> {
        let chain: Vec<_> = self
            .handlers
            .iter()
            .map(|(name, handler)| (name.clone(), handler.0.shape()))
            .collect();
        check(&chain, head)?;
        for (name, handler) in &self.handlers {
            if !P::PINNED && handler.0.is_local() {
                let name = name.to_string();
                return Err(PipelineError::Stays { name });
            }
        }
        Ok(self.handlers)
    }
}

/// A change of a pipeline. Checked before anything happens: if the new chain would not fit, the
/// old one stays.
#[derive(Debug)]
#[must_use = "a change does nothing until it is given to a channel or a context"]
pub struct Change {
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What<H = Handler> {
    Insert {
        place: Place,
        name: Name,
        handler: H,
    },
    Remove {
        name: Name,
    },
    Replace {
        old: Name,
        name: Name,
        handler: H,
    },
}

impl What {
    /// The name of a handler that stays on its thread, if that is what it brings.
    pub(crate) fn stays(&self) -> Option<&Name> {
        match self {
            Self::Insert { name, handler, .. } | Self::Replace { name, handler, .. } => {
                handler.0.is_local().then_some(name)
            }
            Self::Remove { .. } => None,
        }
    }

    /// The same, fit to wait with a channel that may leave its thread.
    pub(crate) fn lodge(self) -> What<Lodged> {
        match self {
            Self::Insert {
                place,
                name,
                handler,
            } => What::Insert {
                place,
                name,
                handler: Lodged::new(handler),
            },
            Self::Remove { name } => What::Remove { name },
            Self::Replace { old, name, handler } => What::Replace {
                old,
                name,
                handler: Lodged::new(handler),
            },
        }
    }
}

#[derive(Debug)]
pub(crate) enum Place {
    First,
    Last,
    Before(Name),
    After(Name),
}

impl Change {
    /// Puts a handler before all others.
    pub fn add_first(name: impl Into<Cow<'static, str>>, handler: Handler) -> Self {
        Self::insert(Place::First, name.into(), handler)
    }

    /// Puts a handler behind all others.
    pub fn add_last(name: impl Into<Cow<'static, str>>, handler: Handler) -> Self {
        Self::insert(Place::Last, name.into(), handler)
    }

    /// Puts a handler before `other`.
    pub fn add_before(
        other: impl Into<Cow<'static, str>>,
        name: impl Into<Cow<'static, str>>,
        handler: Handler,
    ) -> Self {
        Self::insert(Place::Before(other.into()), name.into(), handler)
    }

    /// Puts a handler behind `other`.
    pub fn add_after(
        other: impl Into<Cow<'static, str>>,
        name: impl Into<Cow<'static, str>>,
        handler: Handler,
    ) -> Self {
        Self::insert(Place::After(other.into()), name.into(), handler)
    }

    /// Takes a handler out.
    pub fn remove(name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        Self {
            what: What::Remove { name },
        }
    }

    /// Puts a handler in the place of `old`. An empty name stands for one made of the handler's type,
    /// here as for the others.
    pub fn replace(
        old: impl Into<Cow<'static, str>>,
        name: impl Into<Cow<'static, str>>,
        handler: Handler,
    ) -> Self {
        let (old, name) = (old.into(), name.into());
        Self {
            what: What::Replace { old, name, handler },
        }
    }

    fn insert(place: Place, name: Name, handler: Handler) -> Self {
        Self {
            what: What::Insert {
                place,
                name,
                handler,
            },
        }
    }
}

/// Does to a list of names and shapes what `what` will do to the chain; fills in the name of a
/// handler that was given none.
pub(crate) fn plan(
    what: &mut What,
    chain: &mut Vec<(Name, &'static Shape)>,
) -> Result<(), PipelineError> {
    match what {
        What::Insert {
            place,
            name,
            handler,
        } => {
            if name.is_empty() {
                *name = handler.default_name(|name| chain.iter().any(|(other, _)| other == name));
            }
            let at = match place {
                Place::First => 0,
                Place::Last => chain.len(),
                Place::Before(other) => find(chain, other)?,
                Place::After(other) => find(chain, other)? + 1,
            };
            chain.insert(at, (name.clone(), handler.0.shape()));
        }
        What::Remove { name } => {
            chain.remove(find(chain, name)?);
        }
        What::Replace { old, name, handler } => {
            let at = find(chain, old)?;
            if name.is_empty() {
                *name = handler.default_name(|name| chain.iter().any(|(other, _)| other == name));
            }
            chain[at] = (name.clone(), handler.0.shape());
        }
    }
    Ok(())
}

fn find(chain: &[(Name, &'static Shape)], name: &str) -> Result<usize, PipelineError> {
    let at = chain.iter().position(|(other, _)| other == name);
    at.ok_or_else(|| PipelineError::Missing {
        name: name.to_owned(),
    })
}

impl Parts {
    /// Checks a change and puts it on the stack; a refused one leaves everything as it is.
    pub(crate) fn change(&mut self, change: Change) -> Result<(), PipelineError> {
        if self.closed {
            return Err(PipelineError::Closed);
        }
        if self.is_elsewhere() {
            let name = self.name(1).to_owned();
            return Err(PipelineError::Elsewhere { name });
        }
        let mut what = change.what;
        let mut chain = match &self.planned {
            Some(chain) => chain.as_ref().clone(),
            None => self.chain(),
        };
        plan(&mut what, &mut chain)?;
        check(&chain, self.head())?;
        if self.shared.roams()
            && let Some(name) = what.stays()
        {
            let name = name.to_string();
            return Err(PipelineError::Stays { name });
        }
        self.planned = Some(Box::new(chain));
        self.stack.push(Action::Change(Box::new(what.lodge())));
        Ok(())
    }

    /// Names and shapes of the handlers that are there.
    pub(super) fn chain(&self) -> Vec<(Name, &'static Shape)> {
        let present = self.metas.iter().filter(|meta| !meta.name.is_empty());
        present
            .map(|meta| (meta.name.clone(), meta.shape))
            .collect()
    }
}

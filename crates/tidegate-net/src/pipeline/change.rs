//! Changes the handlers of an existing channel.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use tidegate_core::internal::{contain, discard};
use tidegate_promise::{Completion, Failure, Promise, promise_on};

use super::assembly::Handler;
use super::chain::Pipeline;
use super::check::{Name, PipelineError, check_types, duplicate};
use super::context::HandlerContext;
use super::erased::{HandlerStorage, StoredHandler};
use super::pipeline_state::PipelineState;
use super::plan::{ChangeOp, Place};
use super::shape::Shape;
use super::stack::Action;
use crate::channel::{ChangeRequest, Channel, ChannelRequest};

/// A change to a pipeline. It is checked first: if the new handlers would not fit each other, the
/// old chain stays.
#[derive(Debug)]
#[must_use = "a change does nothing until it is given to a channel or a context"]
pub struct PipelineChange {
    pub(crate) what: ChangeOp<Handler>,
}

impl ChangeOp<Handler> {
    /// Returns the name of the handler that this change inserts, if that handler is not `Send`.
    pub(crate) fn local_handler_name(&self) -> Option<&Name> {
        let (name, handler) = self.insert.as_ref()?;
        handler.0.is_local().then_some(name)
    }

    /// Converts the change so that it can wait in a channel that may move to another thread.
    pub(crate) fn into_storable(self) -> ChangeOp<StoredHandler> {
        let stored = |(name, handler): (_, Handler)| (name, StoredHandler::new(handler.0));
        ChangeOp {
            place: self.place,
            insert: self.insert.map(stored),
        }
    }
}

impl PipelineChange {
    /// Inserts a handler before all others.
    pub fn add_first(name: impl Into<Cow<'static, str>>, handler: Handler) -> Self {
        Self::insert(Place::First, name.into(), handler)
    }

    /// Inserts a handler behind all others.
    pub fn add_last(name: impl Into<Cow<'static, str>>, handler: Handler) -> Self {
        Self::insert(Place::Last, name.into(), handler)
    }

    /// Inserts a handler before `other`.
    pub fn add_before(
        other: impl Into<Cow<'static, str>>,
        name: impl Into<Cow<'static, str>>,
        handler: Handler,
    ) -> Self {
        Self::insert(Place::Before(other.into()), name.into(), handler)
    }

    /// Inserts a handler behind `other`.
    pub fn add_after(
        other: impl Into<Cow<'static, str>>,
        name: impl Into<Cow<'static, str>>,
        handler: Handler,
    ) -> Self {
        Self::insert(Place::After(other.into()), name.into(), handler)
    }

    /// Removes a handler.
    pub fn remove(name: impl Into<Cow<'static, str>>) -> Self {
        let (place, insert) = (Place::Of(name.into()), None);
        Self {
            what: ChangeOp { place, insert },
        }
    }

    /// Replaces the handler `old`. An empty name is replaced with one derived from the handler's
    /// type, as in the other changes.
    pub fn replace(
        old: impl Into<Cow<'static, str>>,
        name: impl Into<Cow<'static, str>>,
        handler: Handler,
    ) -> Self {
        Self::insert(Place::Of(old.into()), name.into(), handler)
    }

    fn insert(place: Place, name: Name, handler: Handler) -> Self {
        let insert = Some((name, handler));
        Self {
            what: ChangeOp { place, insert },
        }
    }
}

/// Applies `what` to a list of names and shapes, in the same way as the chain will be changed
/// later. Fills in the name of an unnamed handler.
pub(crate) fn plan(
    what: &mut ChangeOp<Handler>,
    chain: &mut Vec<(Name, &'static Shape)>,
) -> Result<(), PipelineError> {
    let at = what.place.find(chain.iter().map(|(name, _)| name));
    let at = at.map_err(|name| PipelineError::NoSuchHandler {
        name: name.to_string(),
    })?;
    if let Some((name, handler)) = &mut what.insert
        && name.is_empty()
    {
        *name = handler.default_name(chain.iter().map(|(name, _)| name));
    }
    let new = what.insert.as_ref();
    let new = new.map(|(name, handler)| (name.clone(), handler.0.shape()));
    chain.splice(at..at + usize::from(what.place.removes()), new);
    let named = |name: &Name| chain.iter().filter(|(other, _)| other == name).count();
    match &what.insert {
        Some((name, _)) if named(name) > 1 => Err(duplicate(name)),
        _ => Ok(()),
    }
}

impl PipelineState {
    /// Checks a change and pushes it on the stack. A refused change has no effect.
    pub(crate) fn change(&mut self, change: PipelineChange) -> Result<(), PipelineError> {
        if self.io.state.is_closed() {
            return Err(PipelineError::Closed);
        }
        let mut what = change.what;
        let mut chain = match &self.planned {
            Some(chain) => chain.as_ref().clone(),
            None => self.chain(),
        };
        plan(&mut what, &mut chain)?;
        check_types(&chain, self.head())?;
        if self.io.shared.roams()
            && let Some(name) = what.local_handler_name()
        {
            let name = name.to_string();
            return Err(PipelineError::NotSend { name });
        }
        self.planned = Some(Box::new(chain));
        self.stack
            .push(Action::PipelineChange(Box::new(what.into_storable())));
        Ok(())
    }

    /// Returns the names and shapes of the handlers, without those that were removed.
    pub(super) fn chain(&self) -> Vec<(Name, &'static Shape)> {
        let present = self.metas.iter().filter(|meta| !meta.name.is_empty());
        present
            .map(|meta| (meta.name.clone(), meta.shape))
            .collect()
    }
}

impl HandlerContext<'_> {
    /// Changes the chain of handlers after this handler's method has returned.
    ///
    /// # Errors
    ///
    /// [`PipelineError`] if the new handlers would not fit each other; the old chain stays.
    pub fn change(&mut self, change: PipelineChange) -> Result<(), PipelineError> {
        self.parts.change(change)
    }

    /// Removes this handler from the chain.
    ///
    /// # Errors
    ///
    /// See [`HandlerContext::change`].
    pub fn remove_me(&mut self) -> Result<(), PipelineError> {
        let name = self.name().to_owned();
        self.change(PipelineChange::remove(name))
    }
}

impl Channel {
    /// Changes the chain of handlers. `make` runs on the event loop, so the handlers need not be
    /// `Send`. Fails with a [`PipelineError`] if the new handlers would not fit each other, or with
    /// the panic of `make`; the old chain stays. A change that is cancelled before `make` runs does
    /// not happen. Once `make` runs, the change cannot be cancelled.
    pub fn change(&self, make: impl FnOnce() -> PipelineChange + Send + 'static) -> Completion<()> {
        let (promise, done) = promise_on(Arc::clone(self.shared().executor()));
        let make = Box::new(make);
        self.post(ChannelRequest::PipelineChange(Box::new(Requested {
            make,
            promise,
        })));
        done
    }
}

/// A change requested from outside the event loop, on its way to the channel.
struct Requested {
    make: Box<dyn FnOnce() -> PipelineChange + Send>,
    promise: Promise<()>,
}

impl ChangeRequest for Requested {
    fn refuse(self: Box<Self>) {
        drop(self.promise.fail(Failure::new(PipelineError::Closed)));
        // `make` is user code: its `Drop` may panic.
        discard(self.make);
    }
}

impl<E: ?Sized + HandlerStorage> Pipeline<E> {
    /// Carries out a change requested with [`Channel::change`], unless it was cancelled.
    pub(super) fn carry_out_change(&mut self, request: Box<dyn ChangeRequest>) {
        let request: Box<dyn Any> = request;
        let Ok(request) = request.downcast::<Requested>() else {
            return;
        };
        let Requested { make, promise } = *request;
        if !promise.set_uncancellable() {
            return discard(make);
        }
        let made = contain(make);
        let made = made.map_err(|panic| Failure::from_panic_of("the closure of the change", panic));
        let changed = made.and_then(|change| {
            self.parts.change(change).map_err(Failure::new)?;
            self.run();
            Ok(())
        });
        let _ = promise.complete(changed);
    }
}

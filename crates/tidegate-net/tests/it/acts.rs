//! A handler of bytes that is made of closures.

use bytes::Bytes;
use tidegate_net::{Inbound, InboundContext, UserEvent};
use tidegate_promise::Failure;

type Context<'a> = InboundContext<'a, Acts>;
type Act = Box<dyn FnMut(&mut Context<'_>) + Send>;
type ActOn<T> = Box<dyn FnMut(T, &mut Context<'_>) + Send>;

/// A handler of bytes that is made of closures. It passes on what it has no closure for.
pub(crate) struct Acts {
    active: Act,
    read: ActOn<Bytes>,
    writability: ActOn<bool>,
    event: ActOn<UserEvent>,
    error: ActOn<Failure>,
    inactive: Act,
}

impl Acts {
    pub(crate) fn on_read(act: impl FnMut(Bytes, &mut Context<'_>) + Send + 'static) -> Self {
        Self {
            active: Box::new(|ctx| ctx.fire_active()),
            read: Box::new(act),
            writability: Box::new(|writable, ctx| ctx.fire_writability(writable)),
            event: Box::new(|event, ctx| ctx.fire_event(event)),
            error: Box::new(|why, ctx| ctx.fire_error(why)),
            inactive: Box::new(|ctx| ctx.fire_inactive()),
        }
    }

    pub(crate) fn on_active(mut self, act: impl FnMut(&mut Context<'_>) + Send + 'static) -> Self {
        self.active = Box::new(act);
        self
    }

    pub(crate) fn on_writability(
        mut self,
        act: impl FnMut(bool, &mut Context<'_>) + Send + 'static,
    ) -> Self {
        self.writability = Box::new(act);
        self
    }

    pub(crate) fn on_event(
        mut self,
        act: impl FnMut(UserEvent, &mut Context<'_>) + Send + 'static,
    ) -> Self {
        self.event = Box::new(act);
        self
    }

    pub(crate) fn on_error(
        mut self,
        act: impl FnMut(Failure, &mut Context<'_>) + Send + 'static,
    ) -> Self {
        self.error = Box::new(act);
        self
    }

    pub(crate) fn on_inactive(
        mut self,
        act: impl FnMut(&mut Context<'_>) + Send + 'static,
    ) -> Self {
        self.inactive = Box::new(act);
        self
    }
}

impl Inbound for Acts {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn active(&mut self, ctx: &mut Context<'_>) {
        (self.active)(ctx);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut Context<'_>) {
        (self.read)(bytes, ctx);
    }

    fn writability(&mut self, writable: bool, ctx: &mut Context<'_>) {
        (self.writability)(writable, ctx);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut Context<'_>) {
        (self.event)(event, ctx);
    }

    fn error(&mut self, why: Failure, ctx: &mut Context<'_>) {
        (self.error)(why, ctx);
    }

    fn inactive(&mut self, ctx: &mut Context<'_>) {
        (self.inactive)(ctx);
    }
}

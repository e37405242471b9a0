//! A handler on an executor of its own.
//!
//! In the channel's chain stands a [`Stage`], which puts what reaches it into an inbox. The handler
//! itself lives in a chain of its own between two ports, which mail what it says back to the
//! channel, where that goes further from the stage's place. One task at a time works the inbox
//! off, so whatever the executor is like, the handler hears things one by one and in order.
//!
//! # Invariants
//!
//! * Work is in the inbox, with nobody running, only if the executor refused it; then the channel
//!   was told, and the next letter tries again.
//! * A stage that was removed stays in its place, and lets everything pass through its inbox,
//!   until that is empty: nothing overtakes what was there before.

use std::any::type_name;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidegate_exec::EventLoop;
use tidegate_promise::{Failure, Promise};
use tidegate_sync::{Blocking, Executor, SignalBlock, Task};

use super::context::HandlerContext;
use super::handler::{Erased, InEvent, OutOp, Own, Shape, mask};
use super::parts::{Life, Meta, bits};
use super::{Action, Name, Parts, Pipeline};
use crate::channel::{Mail, Shared, refuse};
use crate::errors::NetError;
use crate::message::{Kind, Msg, Passing};

/// Letters that one task handles before others of the executor have their turn.
const BATCH: usize = 64;
/// Messages in the inbox above which the channel reads no more, and below which it does again.
const MOST_WAITING: usize = 256;
const FEW_WAITING: usize = 64;

thread_local! {
    /// The loop of the channel whose handler runs on this thread, for its timers.
    static HOME: RefCell<Option<EventLoop>> = const { RefCell::new(None) };
}

/// The loop of the channel whose handler runs here, away from it.
pub(super) fn home() -> Option<EventLoop> {
    HOME.with_borrow(Clone::clone)
}

/// Something for the handler.
enum Letter {
    Read(Msg),
    In(InEvent),
    Write(Msg, Option<Promise<()>>),
    Out(OutOp),
    Own(Own),
}

/// What a handler elsewhere says, on its way back to the channel.
#[derive(Debug)]
pub(crate) enum Back {
    Read(Msg),
    In(InEvent),
    Write(Msg, Option<Promise<()>>),
    Out(OutOp),
    /// Little waits again: the channel may read.
    Resume,
    /// It was removed, and nothing waits any more.
    Idle,
}

/// What stands in the chain for a handler that runs elsewhere.
pub(super) struct Stage {
    shape: &'static Shape,
    /// The handler, until it is added.
    handler: Option<Box<dyn Erased + Send>>,
    inner: Arc<Inner>,
}

struct Inner {
    executor: Arc<dyn Executor>,
    inbox: Mutex<Inbox>,
    work: Mutex<Option<Work>>,
}

#[derive(Default)]
struct Inbox {
    letters: VecDeque<Letter>,
    /// Messages among them.
    messages: usize,
    /// The channel was told to read no more.
    paused: bool,
    /// A task works it off, or is about to.
    running: bool,
}

/// The handler in its own chain.
struct Work {
    pipeline: Pipeline<dyn Erased + Send>,
    channel: Weak<SignalBlock<Shared>>,
    home: Option<EventLoop>,
    id: u32,
    /// It is gone; what comes passes.
    removed: bool,
}

impl Stage {
    pub(super) fn new(
        executor: Arc<dyn Executor>,
        shape: &'static Shape,
        handler: Box<dyn Erased + Send>,
    ) -> Self {
        Self {
            shape,
            handler: Some(handler),
            inner: Arc::new(Inner {
                executor,
                inbox: Mutex::default(),
                work: Mutex::default(),
            }),
        }
    }

    /// Takes the handler to its own chain, now that the channel is known.
    fn added(&mut self, ctx: &HandlerContext<'_>) {
        let Some(handler) = self.handler.take() else {
            return;
        };
        let shared = &ctx.parts.shared;
        let id = ctx.parts.id(ctx.at);
        let port = |outwards| Port {
            channel: Arc::downgrade(shared),
            id,
            outwards,
        };
        let mut parts = Parts::new(Arc::clone(shared));
        let name = Name::Owned(ctx.name().to_owned());
        let own: [(Name, u32, Box<dyn Erased + Send>); 3] = [
            (Name::Borrowed("out"), 0, Box::new(port(true))),
            (name, id, handler),
            (Name::Borrowed("in"), 0, Box::new(port(false))),
        ];
        let mut handlers = Vec::with_capacity(own.len());
        for (name, id, handler) in own {
            let shape = handler.shape();
            let mask = shape.mask();
            parts.metas.push(Meta {
                name,
                shape,
                id,
                mask,
                life: Life::New,
            });
            handlers.push(handler);
        }
        parts.sum_up();
        *self.inner.work() = Some(Work {
            pipeline: Pipeline { handlers, parts },
            channel: Arc::downgrade(shared),
            home: EventLoop::current(),
            id,
            removed: false,
        });
    }

    fn post(&self, letter: Letter, ctx: &mut HandlerContext<'_>) {
        let mut inbox = self.inner.inbox();
        if matches!(letter, Letter::Read(_)) {
            inbox.messages += 1;
            if inbox.messages > MOST_WAITING && !inbox.paused {
                inbox.paused = true;
                ctx.parts.hold_reads();
            }
        }
        inbox.letters.push_back(letter);
        let idle = !std::mem::replace(&mut inbox.running, true);
        drop(inbox);
        if idle && let Err(why) = Inner::submit(&self.inner) {
            ctx.fire_error(why);
        }
    }
}

impl Inner {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) -> MutexGuard<'_, Option<Work>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(this: &Arc<Self>) -> Result<(), Failure> {
        let own = Arc::clone(this);
        let task = Task::named("a handler of its own executor", move || Self::run(&own));
        let refused = match this.executor.execute(task) {
            Ok(()) => return Ok(()),
            Err(refused) => refused.to_string(),
        };
        this.inbox().running = false;
        let executor = this.executor.name().to_owned();
        let why = refused;
        Err(Failure::new(NetError::Refused { executor, why }))
    }

    /// Works the inbox off, for one turn.
    fn run(this: &Arc<Self>) {
        let mut work = this.work();
        let Some(work) = work.as_mut() else { return };
        let before = HOME.replace(work.home.clone());
        let more = this.turn(work);
        HOME.set(before);
        if more && let Err(why) = Self::submit(this) {
            work.back(Back::In(InEvent::Error(why)));
        }
    }

    /// Handles some letters; true if there may be more.
    fn turn(&self, work: &mut Work) -> bool {
        for _ in 0..BATCH {
            let mut inbox = self.inbox();
            let Some(letter) = inbox.letters.pop_front() else {
                inbox.running = false;
                drop(inbox);
                if work.removed {
                    work.back(Back::Idle);
                }
                return false;
            };
            inbox.messages -= usize::from(matches!(letter, Letter::Read(_)));
            let resume = inbox.paused && inbox.messages < FEW_WAITING;
            inbox.paused &= !resume;
            drop(inbox);
            if resume {
                work.back(Back::Resume);
            }
            work.handle(letter);
        }
        true
    }

    fn is_idle(&self) -> bool {
        let inbox = self.inbox();
        inbox.letters.is_empty() && !inbox.running
    }
}

impl Work {
    fn handle(&mut self, letter: Letter) {
        if self.removed {
            return self.pass(letter);
        }
        let pipeline = &mut self.pipeline;
        pipeline.parts.mirror();
        match letter {
            Letter::Read(msg) => pipeline.start(Action::Read { at: 1, msg }),
            Letter::In(event) => pipeline.start(Action::In { at: 1, event }),
            Letter::Write(msg, promise) => {
                pipeline.parts.hand_on(2, msg, promise);
                pipeline.run();
            }
            Letter::Out(op) => pipeline.start(Action::Out { at: 2, op }),
            Letter::Own(Own::Removed) => {
                // Its ports stay: they take what it says at its end.
                pipeline.take_out(self.id);
                self.removed = true;
            }
            Letter::Own(what) => {
                let id = self.id;
                pipeline.start(Action::Own { id, what });
            }
        }
    }

    /// Lets pass what comes after the handler's end.
    fn pass(&self, letter: Letter) {
        self.back(match letter {
            Letter::Read(msg) => Back::Read(msg),
            Letter::In(event) => Back::In(event),
            Letter::Write(msg, promise) => Back::Write(msg, promise),
            Letter::Out(op) => Back::Out(op),
            Letter::Own(_) => return,
        });
    }

    fn back(&self, back: Back) {
        mail_back(&self.channel, self.id, back);
    }
}

/// Mails to the channel; what it does not take any more fails.
fn mail_back(channel: &Weak<SignalBlock<Shared>>, id: u32, back: Back) {
    let mail = Mail::Stage(id, back);
    let refused = match channel.upgrade() {
        Some(channel) => Shared::post(&channel, mail, true)
            .map_err(|mail| (mail, channel.close_cause()))
            .err(),
        None => Some((mail, None)),
    };
    if let Some((mail, cause)) = refused {
        refuse(mail, cause.as_ref());
    }
}

impl Erased for Stage {
    fn shape(&self) -> &'static Shape {
        self.shape
    }

    fn read(&mut self, message: Msg, _: bool, mut ctx: HandlerContext<'_>) {
        self.post(Letter::Read(message), &mut ctx);
    }

    fn inbound(&mut self, event: InEvent, mut ctx: HandlerContext<'_>) {
        self.post(Letter::In(event), &mut ctx);
    }

    fn own(&mut self, what: Own, mut ctx: HandlerContext<'_>) {
        if what == Own::Added {
            self.added(&ctx);
        }
        self.post(Letter::Own(what), &mut ctx);
    }

    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, mut ctx: HandlerContext<'_>) {
        self.post(Letter::Write(message, promise), &mut ctx);
    }

    fn outbound(&mut self, op: OutOp, mut ctx: HandlerContext<'_>) {
        self.post(Letter::Out(op), &mut ctx);
    }

    fn lingers(&self) -> bool {
        self.handler.is_none()
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle()
    }
}

/// One end of the handler's own chain.
struct Port {
    channel: Weak<SignalBlock<Shared>>,
    id: u32,
    outwards: bool,
}

impl Port {
    fn back(&self, back: Back) {
        mail_back(&self.channel, self.id, back);
    }
}

const ANY: Kind = Kind::of::<Passing>();

pub(super) static OUTWARDS: Shape = Shape {
    inbound: None,
    outbound: Some([ANY; 2]),
    blocking: Blocking::Never,
    type_name: type_name::<Port>,
};

static INWARDS: Shape = Shape {
    inbound: Some([ANY; 3]),
    outbound: None,
    blocking: Blocking::Never,
    type_name: type_name::<Port>,
};

impl Erased for Port {
    fn shape(&self) -> &'static Shape {
        if self.outwards { &OUTWARDS } else { &INWARDS }
    }

    fn read(&mut self, message: Msg, _: bool, _: HandlerContext<'_>) {
        self.back(Back::Read(message));
    }

    fn inbound(&mut self, event: InEvent, _: HandlerContext<'_>) {
        self.back(Back::In(event));
    }

    fn own(&mut self, _: Own, _: HandlerContext<'_>) {}

    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, _: HandlerContext<'_>) {
        self.back(Back::Write(message, promise));
    }

    fn outbound(&mut self, op: OutOp, _: HandlerContext<'_>) {
        self.back(Back::Out(op));
    }
}

impl<E: ?Sized + super::Held> Pipeline<E> {
    /// What a handler elsewhere has said goes further from its place.
    pub(crate) fn back(&mut self, id: u32, back: Back) {
        if let Back::Write(msg, _) = &back {
            self.parts.shared.took(msg);
        }
        let Some(place) = self.find(id) else {
            return refuse(Mail::Stage(id, back), None);
        };
        let at = u32::try_from(place).expect("fewer handlers than that");
        match back {
            Back::Read(msg) => self.start(Action::Read { at: at + 1, msg }),
            Back::In(event) => self.start(Action::In { at: at + 1, event }),
            Back::Write(msg, promise) => {
                self.parts.hand_on(at, msg, promise);
                self.run();
            }
            Back::Out(op) => self.start(Action::Out { at, op }),
            Back::Resume => {
                // Who holds messages back until somebody reads has to know.
                if self.parts.release_reads() && self.parts.is_watched(at, mask::DEMAND) {
                    self.start(Action::Out {
                        at,
                        op: OutOp::Read,
                    });
                }
            }
            // Something may have come since; then it says so again.
            Back::Idle if self.handlers[place].is_idle() => self.drop_handler(id),
            Back::Idle => {}
        }
    }
}

impl Parts {
    /// Reads no more on its own until [`Parts::release_reads`], whatever anybody wishes.
    pub(super) fn hold_reads(&mut self) {
        // Of more than that many some let go early: still better than never.
        if self.bits & bits::HOLDS < bits::HOLDS {
            self.bits += 1;
        }
        self.auto_read = false;
    }

    /// Answers whether it reads on its own from now on.
    pub(super) fn release_reads(&mut self) -> bool {
        if self.bits & bits::HOLDS > 0 {
            self.bits -= 1;
        }
        self.auto_read = self.bits & bits::READS == bits::READS_WISHED;
        self.auto_read
    }

    /// Whether this is the chain of a handler on an executor of its own, away from its channel.
    pub(super) fn is_elsewhere(&self) -> bool {
        let first = self.metas.first();
        first.is_some_and(|meta| std::ptr::eq(meta.shape, &raw const OUTWARDS))
    }
}

//! A handler on an executor of its own.
//!
//! The channel's chain holds a [`Stage`], which puts every message, event and operation into an
//! inbox. The handler itself is in a separate chain between two ends. The ends send its actions
//! back to the channel, where they continue from the stage's position. Only one task at a time
//! processes the inbox, so on any executor the handler is called sequentially and in order.
//!
//! # Invariants
//!
//! * The inbox holds messages while no task is running only if the executor refused the task, or
//!   accepted it and dropped it. The channel got an error event then, and the next message submits
//!   a task again.
//! * Writes in the inbox count against the channel's water marks until they are taken out.
//! * A write that was put into the inbox reaches the handler, or goes on without it, or is handed back
//!   by [`Message::refused`](crate::Message::refused).
//! * A removed stage keeps its position and passes everything on through its inbox until the inbox
//!   is empty. So nothing overtakes earlier messages.

use std::any::type_name;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tidegate_core::internal::{SignalBlock, contain, discard};
use tidegate_core::{Blocking, Executor, Task};
use tidegate_loop::EventLoop;
use tidegate_promise::{Failure, Promise};

use super::chain::Pipeline;
use super::check::Name;
use super::context::HandlerContext;
use super::erased::{Erased, HandlerStorage};
use super::pipeline_state::{HandlerEntry, PipelineState};
use super::shape::Shape;
use super::stack::Action;
use crate::channel::write_queue::ENTRY_OVERHEAD;
use crate::channel::{
    ChannelRequest, HandlerEvent, InEvent, OutOp, RemoteAction, Shared, mask, refuse, refuse_write,
    replace_home,
};
use crate::errors::NetError;
use crate::message::{AnyMessage, Kind, Msg};

/// The number of inbox messages that one task handles before it is submitted again, so that other
/// tasks can run.
const BATCH: usize = 64;
/// The channel stops reading above `MOST_WAITING` messages in the inbox, and resumes below
/// `FEW_WAITING`.
const MOST_WAITING: usize = 256;
const FEW_WAITING: usize = 64;

thread_local! {
    /// The stage whose task this thread is submitting. Reset if the executor runs the task within
    /// `execute`.
    static SUBMITTING: Cell<*const StageShared> = const { Cell::new(ptr::null()) };
}

/// A message in the inbox of a stage.
enum StageMessage {
    Read(Msg),
    In(InEvent),
    Write(Msg, Option<Promise<()>>),
    Out(OutOp),
    HandlerEvent(HandlerEvent),
}

/// The placeholder in the channel's chain for a handler that runs on another executor.
pub(super) struct Stage {
    shape: &'static Shape,
    /// The handler, until it is added.
    handler: Option<Box<dyn Erased + Send>>,
    inner: Arc<StageShared>,
}

struct StageShared {
    executor: Arc<dyn Executor>,
    /// The channel and the id of the stage in it, once it is added.
    place: OnceLock<(Weak<SignalBlock<Shared>>, u32)>,
    inbox: Mutex<Inbox>,
    work: Mutex<Option<StageWorker>>,
}

#[derive(Default)]
struct Inbox {
    queue: VecDeque<StageMessage>,
    /// The number of `Read` messages in `queue`.
    messages: usize,
    /// The total number of messages ever posted.
    posted: u64,
    /// `true` if the channel was requested to stop reading.
    paused: bool,
    /// `true` if a task processes the inbox or is about to.
    running: bool,
    /// The number of the last task.
    task: u64,
}

impl Drop for StageShared {
    /// Hands back the writes that no task will take out any more: the channel is closed or gone, and
    /// the executor refused or dropped the last task. Runs on the channel's loop, or on the thread that
    /// drops the task.
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.inbox().queue);
        if left.is_empty() {
            return;
        }
        let channel = self.place.get().and_then(|(channel, _)| channel.upgrade());
        let cause = channel.and_then(|channel| channel.close_cause());
        for item in left {
            match item {
                StageMessage::Write(msg, promise) => {
                    refuse_write(msg, promise, NetError::Closed(cause.clone()));
                }
                // Messages and events are user values: their `Drop` may panic.
                other => discard(other),
            }
        }
    }
}

/// The right of a task to process the inbox. If it is dropped while it is still the current one,
/// the executor dropped the task or the task panicked: the channel gets an error event.
struct InboxTask {
    inner: Arc<StageShared>,
    number: u64,
}

impl InboxTask {
    /// Processes the inbox, one batch per submission.
    fn run(mut self) {
        let own = Arc::as_ptr(&self.inner);
        if SUBMITTING.get() == own {
            // The executor ran the task within `execute`: the submitting thread continues with the
            // next batch.
            SUBMITTING.set(ptr::null());
            self.number = 0;
            return;
        }
        while self.inner.run_batch() {
            let before = SUBMITTING.replace(own);
            let offered = StageShared::submit(&self.inner);
            let here = SUBMITTING.replace(before).is_null();
            if let Err(why) = offered {
                self.inner.back(RemoteAction::In(InEvent::Error(why)));
            }
            if !here {
                return;
            }
            self.number = self.inner.inbox().task;
        }
    }
}

impl Drop for InboxTask {
    fn drop(&mut self) {
        let mut inbox = self.inner.inbox();
        if !inbox.running || inbox.task != self.number {
            return;
        }
        inbox.running = false;
        drop(inbox);
        let why = self.inner.refused("it let the task go without running it");
        self.inner.back(RemoteAction::In(InEvent::Error(why)));
    }
}

/// The handler in its separate chain.
struct StageWorker {
    pipeline: Pipeline<dyn Erased + Send>,
    channel: Weak<SignalBlock<Shared>>,
    home: Option<EventLoop>,
    id: u32,
    /// `true` if the handler was removed; later messages pass unchanged.
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
            inner: Arc::new(StageShared {
                executor,
                place: OnceLock::new(),
                inbox: Mutex::default(),
                work: Mutex::default(),
            }),
        }
    }

    /// Moves the handler to its separate chain, now that the channel is known.
    fn added(&mut self, ctx: &HandlerContext<'_>) {
        let Some(handler) = self.handler.take() else {
            return;
        };
        let shared = &ctx.parts.io.shared;
        let id = ctx.parts.id(ctx.at);
        let port = |outwards| StageEnd {
            channel: Arc::downgrade(shared),
            id,
            outwards,
        };
        let mut parts = PipelineState::new(Arc::clone(shared));
        let name = Name::Owned(ctx.name().to_owned());
        let own: [(Name, u32, Box<dyn Erased + Send>); 3] = [
            (Name::Borrowed("out"), 0, Box::new(port(true))),
            (name, id, handler),
            (Name::Borrowed("in"), 0, Box::new(port(false))),
        ];
        let mut handlers = Vec::with_capacity(own.len());
        for (name, id, handler) in own {
            parts
                .metas
                .push(HandlerEntry::new(name, handler.shape(), id));
            handlers.push(handler);
        }
        parts.update_masks();
        let _ = self.inner.place.set((Arc::downgrade(shared), id));
        *self.inner.work() = Some(StageWorker {
            pipeline: Pipeline { handlers, parts },
            channel: Arc::downgrade(shared),
            home: EventLoop::current(),
            id,
            removed: false,
        });
    }

    fn post(&self, item: StageMessage, ctx: &mut HandlerContext<'_>) {
        let mut inbox = self.inner.inbox();
        if matches!(item, StageMessage::Read(_)) {
            inbox.messages += 1;
            if inbox.messages > MOST_WAITING && !inbox.paused {
                inbox.paused = true;
                ctx.parts.io.state.hold_reads();
            }
        }
        inbox.queue.push_back(item);
        inbox.posted += 1;
        let idle = !std::mem::replace(&mut inbox.running, true);
        drop(inbox);
        if idle && let Err(why) = StageShared::submit(&self.inner) {
            ctx.fire_error(why);
        }
    }
}

impl StageShared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) -> MutexGuard<'_, Option<StageWorker>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an action to the channel, from the stage's position.
    fn back(&self, back: RemoteAction) {
        if let Some((channel, id)) = self.place.get() {
            send_to_channel(channel, *id, back);
        }
    }

    fn refused(&self, why: impl Into<String>) -> Failure {
        let executor = self.executor.name().to_owned();
        let why = why.into();
        Failure::new(NetError::ExecutorRefused { executor, why })
    }

    /// Submits a task that processes the inbox.
    fn submit(this: &Arc<Self>) -> Result<(), Failure> {
        let number = {
            let mut inbox = this.inbox();
            inbox.task += 1;
            inbox.task
        };
        let inner = Arc::clone(this);
        let turn = InboxTask { inner, number };
        let task = Task::named("a handler of its own executor", move || turn.run());
        match contain(|| this.executor.execute(task)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(refused)) => {
                let mut inbox = this.inbox();
                // Reset before `refused` drops the task, which would report the same error again.
                inbox.running &= inbox.task != number;
                drop(inbox);
                Err(this.refused(refused.to_string()))
            }
            // The executor may have kept the task. If it dropped the task, `InboxTask` has reported
            // that.
            Err(panic) => {
                let code = format!("executor `{}`", this.executor.name());
                Err(Failure::from_panic_of(code, panic))
            }
        }
    }

    /// Processes one batch of the inbox on this thread. Returns `true` if there may be more.
    fn run_batch(&self) -> bool {
        let mut work = self.work();
        let Some(work) = work.as_mut() else {
            self.inbox().running = false;
            return false;
        };
        let before = replace_home(work.home.clone());
        let more = self.turn(work);
        replace_home(before);
        more
    }

    /// Handles up to `BATCH` messages. Returns `true` if there may be more.
    fn turn(&self, work: &mut StageWorker) -> bool {
        let mut taken = 0;
        for _ in 0..BATCH {
            let mut inbox = self.inbox();
            let Some(item) = inbox.queue.pop_front() else {
                inbox.running = false;
                let posted = inbox.posted;
                drop(inbox);
                work.took(taken);
                if work.removed {
                    work.back(RemoteAction::Idle(posted));
                }
                return false;
            };
            inbox.messages -= usize::from(matches!(item, StageMessage::Read(_)));
            let resume = inbox.paused && inbox.messages < FEW_WAITING;
            inbox.paused &= !resume;
            drop(inbox);
            if resume {
                work.back(RemoteAction::Resume);
            }
            if let StageMessage::Write(msg, _) = &item {
                taken += msg.size() + ENTRY_OVERHEAD;
            }
            work.handle(item);
        }
        work.took(taken);
        true
    }

    /// Returns `true` if nothing was posted after the first `posted` messages.
    fn is_idle(&self, posted: u64) -> bool {
        self.inbox().posted == posted
    }
}

impl StageWorker {
    fn handle(&mut self, item: StageMessage) {
        if self.removed {
            return self.pass(item);
        }
        let pipeline = &mut self.pipeline;
        pipeline.parts.io.mirror();
        match item {
            StageMessage::Read(msg) => pipeline.start(Action::Read { at: 1, msg }),
            StageMessage::In(event) => pipeline.start(Action::In { at: 1, event }),
            StageMessage::Write(msg, promise) => {
                pipeline.parts.pass_on(2, msg, promise);
                pipeline.run();
            }
            StageMessage::Out(op) => pipeline.start(Action::Out { at: 2, op }),
            StageMessage::HandlerEvent(HandlerEvent::Removed) => {
                // The ends stay: they forward the last actions of the handler.
                pipeline.take_out(self.id);
                self.removed = true;
            }
            StageMessage::HandlerEvent(what) => {
                let id = self.id;
                pipeline.start(Action::HandlerEvent { id, what });
            }
        }
        // Memory for outputs belongs to loops: an idle handler holds none.
        pipeline.parts.io.lent = None;
    }

    /// Passes on a message that came after the handler was removed.
    fn pass(&self, item: StageMessage) {
        self.back(match item {
            StageMessage::Read(msg) => RemoteAction::Read(msg),
            StageMessage::In(event) => RemoteAction::In(event),
            StageMessage::Write(msg, promise) => RemoteAction::Write(msg, promise),
            StageMessage::Out(op) => RemoteAction::Out(op),
            StageMessage::HandlerEvent(_) => return,
        });
    }

    /// Notifies the channel that writes of `taken` bytes have left the inbox.
    fn took(&self, taken: usize) {
        if taken > 0 {
            self.back(RemoteAction::Taken(taken));
        }
    }

    fn back(&self, back: RemoteAction) {
        send_to_channel(&self.channel, self.id, back);
    }
}

/// Sends an action to the channel. If the channel is closed, the action's promise fails.
fn send_to_channel(channel: &Weak<SignalBlock<Shared>>, id: u32, back: RemoteAction) {
    let request = ChannelRequest::Stage(id, back);
    let refused = match channel.upgrade() {
        Some(channel) => Shared::post(&channel, request, true)
            .map_err(|request| (request, channel.close_cause()))
            .err(),
        None => Some((request, None)),
    };
    if let Some((request, cause)) = refused {
        refuse(request, cause.as_ref());
    }
}

impl Erased for Stage {
    fn shape(&self) -> &'static Shape {
        self.shape
    }

    fn read(&mut self, message: Msg, _: bool, mut ctx: HandlerContext<'_>) {
        self.post(StageMessage::Read(message), &mut ctx);
    }

    fn inbound(&mut self, event: InEvent, mut ctx: HandlerContext<'_>) {
        self.post(StageMessage::In(event), &mut ctx);
    }

    fn own(&mut self, what: HandlerEvent, mut ctx: HandlerContext<'_>) {
        if what == HandlerEvent::Added {
            self.added(&ctx);
        }
        self.post(StageMessage::HandlerEvent(what), &mut ctx);
    }

    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, mut ctx: HandlerContext<'_>) {
        if let Err(why) = ctx.hold(message.size() + ENTRY_OVERHEAD) {
            return ctx.refuse_write(message, promise, Failure::new(why));
        }
        self.post(StageMessage::Write(message, promise), &mut ctx);
    }

    fn outbound(&mut self, op: OutOp, mut ctx: HandlerContext<'_>) {
        self.post(StageMessage::Out(op), &mut ctx);
    }

    fn lingers(&self) -> bool {
        self.handler.is_none()
    }

    fn is_idle(&self, posted: u64) -> bool {
        self.inner.is_idle(posted)
    }
}

/// One end of the handler's separate chain.
struct StageEnd {
    channel: Weak<SignalBlock<Shared>>,
    id: u32,
    outwards: bool,
}

impl StageEnd {
    fn back(&self, back: RemoteAction) {
        send_to_channel(&self.channel, self.id, back);
    }
}

const ANY: Kind = Kind::of::<AnyMessage>();

pub(super) static OUTWARDS: Shape = Shape {
    inbound: None,
    outbound: Some([ANY; 2]),
    blocking: Blocking::Never,
    type_name: type_name::<StageEnd>,
};

static INWARDS: Shape = Shape {
    inbound: Some([ANY; 3]),
    outbound: None,
    blocking: Blocking::Never,
    type_name: type_name::<StageEnd>,
};

impl Erased for StageEnd {
    fn shape(&self) -> &'static Shape {
        if self.outwards { &OUTWARDS } else { &INWARDS }
    }

    fn read(&mut self, message: Msg, _: bool, _: HandlerContext<'_>) {
        self.back(RemoteAction::Read(message));
    }

    fn inbound(&mut self, event: InEvent, _: HandlerContext<'_>) {
        self.back(RemoteAction::In(event));
    }

    fn own(&mut self, _: HandlerEvent, _: HandlerContext<'_>) {}

    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, _: HandlerContext<'_>) {
        self.back(RemoteAction::Write(message, promise));
    }

    fn outbound(&mut self, op: OutOp, _: HandlerContext<'_>) {
        self.back(RemoteAction::Out(op));
    }

    fn forward_flush(&mut self, promise: Promise<()>) {
        self.back(RemoteAction::Flush(promise));
    }
}

impl<E: ?Sized + HandlerStorage> Pipeline<E> {
    /// Continues an action of a handler on another executor, from the stage's position.
    pub(super) fn handle_remote_action(&mut self, id: u32, back: RemoteAction) {
        if let RemoteAction::Write(msg, _) = &back {
            self.parts.io.shared.uncount_write(msg);
        }
        let Some(place) = self.find(id) else {
            return refuse(ChannelRequest::Stage(id, back), None);
        };
        let at = u32::try_from(place).expect("fewer handlers than that");
        match back {
            RemoteAction::Read(msg) => self.start(Action::Read { at: at + 1, msg }),
            RemoteAction::In(event) => self.start(Action::In { at: at + 1, event }),
            RemoteAction::Write(msg, promise) => {
                self.parts.pass_on(at, msg, promise);
                self.run();
            }
            RemoteAction::Out(op) => self.start(Action::Out { at, op }),
            RemoteAction::Flush(promise) => self.start(Action::FlushWith { at, promise }),
            RemoteAction::Resume => {
                // A handler that holds messages back until a read is requested must be notified.
                if self.parts.io.state.release_reads() && self.parts.is_watched(at, mask::DEMAND) {
                    self.start(Action::Out {
                        at,
                        op: OutOp::Read,
                    });
                }
            }
            RemoteAction::Taken(counts) => self.parts.io.release(counts),
            // If messages were posted since, their results may still be queued behind this request.
            // The stage then reports again when it is idle.
            RemoteAction::Idle(posted) if self.handlers[place].is_idle(posted) => {
                self.drop_handler(id)
            }
            RemoteAction::Idle(_) => {}
        }
    }
}

impl PipelineState {
    /// Returns `true` if this is the separate chain of a handler on an executor of its own.
    pub(super) fn is_on_other_executor(&self) -> bool {
        let first = self.metas.first();
        first.is_some_and(|meta| std::ptr::eq(meta.shape, &raw const OUTWARDS))
    }
}

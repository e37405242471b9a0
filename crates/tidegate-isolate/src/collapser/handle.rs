//! The collapser: collects requests into batches, and runs each batch through a command.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::CancelToken;
use tidegate_core::internal::{PlainTask, discard};
use tidegate_core::permits::Permit;
use tidegate_promise::{Completion, Outcome, promise_with_error};

use super::batch::{Batch, Due, NEXT_BATCH, Receive, Slot, Waiting};
use super::config::{CollapserConfig, CollapserScope, Live};
use super::error::CollapserError;
use crate::cancel::CallHandle;
use crate::command::Command;
use crate::error::{Cause, CommandError, ConfigError, Rejection, contain};
use crate::event::Event;
use crate::lock::lock;
use crate::properties::PropertyOwner;
use crate::request::{CacheOwner, RequestContext};

/// Collects requests into batches that run through a command. Clones are handles to the same
/// collapser.
///
/// ```
/// use std::collections::HashMap;
/// use tidegate_isolate::{CollapserScope, Collapser, CollapserConfig, Command, Isolation};
///
/// let isolation = Isolation::builder().build()?;
/// let command: Command<HashMap<u32, String>, String> =
///     Command::builder("names").group("users").build(&isolation)?;
/// let config = CollapserConfig { scope: CollapserScope::Global, max_batch: 2, ..Default::default() };
/// let names = Collapser::new(&command, config, |ids: &[u32], _cancel| {
///     Ok(ids.iter().map(|id| (*id, format!("user {id}"))).collect())
/// })?;
/// let (ann, bob) = (names.submit(1), names.submit(2)); // the second fills the batch
/// assert_eq!((ann.wait().unwrap(), bob.wait().unwrap()), ("user 1".into(), "user 2".into()));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
pub struct Collapser<A, V, E> {
    shared: Arc<Shared<A, V, E>>,
}

type Work<A, V, E> = dyn Fn(&[A], &CancelToken) -> Result<HashMap<A, V>, E> + Send + Sync;
type Shards<A> = Box<dyn Fn(Vec<A>) -> Vec<Vec<A>> + Send + Sync>;

struct Shared<A, V, E> {
    command: Command<HashMap<A, V>, E>,
    live: Arc<Live>,
    work: Arc<Work<A, V, E>>,
    shards: Mutex<Option<Arc<Shards<A>>>>,
    global: Slot<A, V, E>,
    /// Identifies this collapser's batches in the cache of a request; several collapsers may use
    /// one command.
    owner: CacheOwner,
}

impl<A, V, E> Collapser<A, V, E>
where
    A: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + 'static,
    E: Clone + Send + 'static,
{
    /// Creates a collapser whose batches run `work` through `command`. The work receives the
    /// arguments and returns a result for each of them.
    ///
    /// # Errors
    ///
    /// Returns which setting is invalid, and why.
    ///
    /// # Threads
    ///
    /// With permits, a batch runs on the thread whose request filled it, or on one of the command's
    /// callback threads.
    pub fn new<F>(
        command: &Command<HashMap<A, V>, E>,
        config: CollapserConfig,
        work: F,
    ) -> Result<Self, ConfigError>
    where
        F: Fn(&[A], &CancelToken) -> Result<HashMap<A, V>, E> + Send + Sync + 'static,
    {
        let sources = command.sources();
        let live = Live::new(sources, command.key(), config)?;
        let live = Arc::new(live);
        let listener: Arc<dyn PropertyOwner> = Arc::clone(&live) as _;
        sources.add(Arc::downgrade(&listener));
        Ok(Self {
            shared: Arc::new(Shared {
                command: command.clone(),
                live,
                work: Arc::new(work),
                shards: Mutex::default(),
                global: Arc::default(),
                owner: CacheOwner::new(),
            }),
        })
    }

    /// Changes the settings made in code, for all clones. `change` receives the settings in force. It runs
    /// twice, as for [`Command::configure`]: what it sets counts as set in code, also if it is the default.
    /// Requests that wait already are part of a batch with the new bound and the old delay.
    ///
    /// # Errors
    ///
    /// Returns which setting is invalid, and why. The old settings then stay in force.
    pub fn configure(
        &self,
        change: impl FnOnce(&mut CollapserConfig) + Clone,
    ) -> Result<(), ConfigError> {
        let shared = &self.shared;
        shared.live.configure(shared.command.sources(), change)
    }

    /// Returns the settings in force.
    pub fn config(&self) -> Arc<CollapserConfig> {
        self.shared.live.now()
    }

    /// Splits every batch from now on with `split`, also for clones. Each part is a separate call.
    pub fn shards(self, split: impl Fn(Vec<A>) -> Vec<Vec<A>> + Send + Sync + 'static) -> Self {
        let split: Shards<A> = Box::new(split);
        // The closure before is user code: it is dropped with no lock held.
        let before = lock(&self.shared.shards).replace(Arc::new(split));
        drop(before);
        self
    }

    /// Adds a request to the open batch.
    pub fn submit(&self, argument: A) -> Completion<V, CollapserError<E>> {
        let shared = &self.shared;
        let config = shared.live.now();
        let (slot, context) = match config.scope {
            CollapserScope::Global => (Arc::clone(&shared.global), None),
            CollapserScope::Request => match RequestContext::current() {
                None => return Completion::failed(CollapserError::NoContext),
                Some(context) => (shared.slot_of(&context), Some(context)),
            },
        };
        let (promise, answer) = promise_with_error();
        let mut batch = lock(&slot);
        let mut place = None;
        if batch.number == 0 && config.max_batch > 1 {
            // The batch may have to run on the command's callback threads.
            place = shared.command.aside().reserve(0);
            if place.is_none() {
                drop(batch);
                let _ = promise.fail(shared.backlog());
                return answer;
            }
        }
        match batch.requests.get_mut(&argument) {
            Some(waiting) if !config.share_equal && waiting.is_wanted() => {
                drop(batch);
                let _ = promise.fail(CollapserError::Duplicate);
                return answer;
            }
            Some(waiting) => waiting.add(promise),
            None => {
                let waiting: Waiting<V, E> = vec![promise];
                batch.requests.insert(argument.clone(), Box::new(waiting));
                batch.order.push(argument);
            }
        }
        let mut unwanted = None;
        if batch.order.len() >= config.max_batch {
            unwanted = Some(batch.take_unwanted());
        }
        if batch.order.len() >= config.max_batch {
            let full = std::mem::take(&mut *batch);
            drop(batch);
            Shared::run(shared, full, context);
        } else if batch.number == 0 {
            batch.number = NEXT_BATCH.fetch_add(1, Ordering::Relaxed);
            let number = batch.number;
            drop(batch);
            if let Some(place) = place {
                shared.set_alarm(&slot, number, place, context);
            }
        } else {
            drop(batch);
        }
        discard(unwanted);
        answer
    }
}

impl<A, V, E> Shared<A, V, E>
where
    A: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + 'static,
    E: Clone + Send + 'static,
{
    /// Returns the slot of a request's batch.
    fn slot_of(&self, context: &RequestContext) -> Slot<A, V, E> {
        // A request whose cache is cleared starts a new batch; the open one still runs after its
        // delay.
        let name = (self.command.key(), "\0batch");
        let made = context.cached(self.owner, name, || {
            let slot: Slot<A, V, E> = Arc::default();
            (Arc::clone(&slot), slot)
        });
        made.unwrap_or_else(|(slot, _)| slot)
    }

    /// Returns the error for too many batches that wait for a callback thread: no new batch is
    /// started.
    fn backlog(&self) -> CollapserError<E> {
        let cause = Cause::Rejected(Rejection::Backlog);
        self.command.count(cause.event());
        CollapserError::Batch(CommandError::new(self.command.key(), cause))
    }

    /// Sets the timer that runs a batch after its delay. Not called under the lock of the slot: a
    /// stopped isolation drops the timer task at once, and the batch with it.
    fn set_alarm(
        self: &Arc<Self>,
        slot: &Slot<A, V, E>,
        number: u64,
        place: Permit,
        context: Option<RequestContext>,
    ) {
        let alarms = self.command.alarms();
        let at = alarms.clock().clock().deadline(self.live.now().delay);
        let shared = Arc::clone(self);
        let mut due = Due {
            slot: Arc::clone(slot),
            number,
            _place: place,
        };
        let run = PlainTask::named("batch", move || {
            if let Some(batch) = due.take() {
                Shared::run(&shared, batch, context);
            }
        });
        let alarm = alarms.run_at(at, self.command.aside(), run);
        let mut batch = lock(slot);
        if batch.number == number {
            batch.alarm = Some(alarm);
        } else {
            // The batch was filled and taken in the meantime.
            drop(batch);
            alarms.cancel(alarm);
        }
    }

    /// Runs a batch that was taken from its slot.
    fn run(self: &Arc<Self>, mut batch: Batch<A, V, E>, context: Option<RequestContext>) {
        if let Some(alarm) = batch.alarm.take() {
            self.command.alarms().cancel(alarm);
        }
        discard(batch.take_unwanted());
        let mut left = std::mem::take(&mut batch.order);
        // The bound may have been lowered since the batch was opened.
        let most = self.live.now().max_batch;
        while !left.is_empty() {
            let rest = left.split_off(most.min(left.len()));
            let arguments = std::mem::replace(&mut left, rest);
            for part in self.split(arguments) {
                let requests: Vec<_> = part
                    .iter()
                    .filter_map(|argument| batch.requests.remove_entry(argument))
                    .collect();
                self.run_part(part, requests, context.as_ref());
            }
        }
        // Arguments that the split function left out receive no result.
        for (_, waiting) in batch.requests {
            waiting.end(self.command.key(), &|| Err(CollapserError::NoResponse));
        }
    }

    /// Splits the arguments of a call into those of its shards, if there are any.
    fn split(&self, arguments: Vec<A>) -> Vec<Vec<A>> {
        // Cloned, because `split` is user code and runs with no lock held.
        let Some(split) = lock(&self.shards).clone() else {
            return vec![arguments];
        };
        let whole = arguments.clone();
        let parts = contain(|| split(arguments));
        parts.unwrap_or_else(|message| {
            self.command.panicked(&message);
            vec![whole]
        })
    }

    fn run_part(
        &self,
        part: Vec<A>,
        requests: Vec<(A, Box<dyn Receive<V, E>>)>,
        context: Option<&RequestContext>,
    ) {
        let work = Arc::clone(&self.work);
        let waiting = requests.iter().map(|(_, waiting)| waiting.count()).sum();
        for _ in 0..waiting {
            self.command.count(Event::Collapsed);
        }
        let mut call = self.command.call();
        if let Some(context) = context {
            call = call.context(context);
        }
        let _apart = context.is_none().then(RequestContext::leave);
        let handle = self.command.has_threads().then(|| call.handle());
        let answer = call.queue(move |cancel| work(&part, cancel));
        if let Some(handle) = handle.filter(|_| !answer.is_done()) {
            let left = cancel_with_the_last(handle, waiting);
            for (_, waiting) in &requests {
                waiting.on_cancel(&left);
            }
        }
        let command = self.command.key().clone();
        answer.finally(move |outcome| {
            for (argument, waiting) in requests {
                waiting.end(&command, &|| match &outcome {
                    Outcome::Success(answers) => {
                        let answer = answers.get(&argument).cloned();
                        answer.ok_or(CollapserError::NoResponse)
                    }
                    Outcome::Failure(error) => Err(CollapserError::Batch((*error).clone())),
                    Outcome::Cancelled => Err(CollapserError::Gone),
                });
            }
        });
    }
}

/// Returns a function that each of `callers` calls when it cancels. The last one cancels the batch,
/// which no caller wants any more.
fn cancel_with_the_last(batch: CallHandle, callers: usize) -> Arc<dyn Fn() + Send + Sync> {
    let left = AtomicUsize::new(callers);
    Arc::new(move || {
        // Relaxed: only the number matters.
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            batch.cancel_as(None);
        }
    })
}

impl<A, V, E> Clone for Collapser<A, V, E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

debug_fields!([A, V, E] Collapser<A, V, E>, this => config: this.shared.live.now());

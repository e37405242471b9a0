//! A request: what belongs to it follows it across loops and pools.
//!
//! A context is a handle to a shared map. It is *entered* on a thread for a while; commands take
//! it along to the threads that work for them, and put back what was there before.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::{OnUnhandled, Unhandled, discard_all};

use crate::error::contain;
use crate::{Event, Events, Key};

/// The most calls that the log of a request keeps.
pub const MOST_LOGGED: usize = 1000;

thread_local! {
    static CURRENT: RefCell<Option<RequestContext>> = const { RefCell::new(None) };
}

/// What one request carries: variables, cached answers, a log. Clones are the same context.
///
/// ```
/// use tidegate_isolate::RequestContext;
///
/// let request = RequestContext::new();
/// assert!(RequestContext::current().is_none());
/// {
///     let _entered = request.enter();
///     assert!(RequestContext::current().is_some());
/// }
/// assert!(RequestContext::current().is_none());
/// request.end();
/// ```
#[derive(Clone, Default)]
pub struct RequestContext {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    variables: Mutex<HashMap<u64, Stored>>,
    cache: Mutex<HashMap<(Key, String), Vec<Cached>>>,
    log: Mutex<Vec<Logged>>,
    dropped: AtomicU64,
    ended: AtomicBool,
}

/// An answer, or a batch, that calls of this request share.
struct Cached {
    owner: CacheOwner,
    /// Names the entry: a later one of the same owner and key has another number.
    number: u64,
    shared: Box<dyn Any + Send>,
}

/// The owner of entries in the caches of requests: one command of one isolation, or a collapser.
/// Keys are names, and two isolations may have one in common; owners are never equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheOwner(u64);

impl CacheOwner {
    pub(crate) fn new() -> Self {
        Self(NEXT_NUMBER.fetch_add(1, Ordering::Relaxed))
    }
}

/// Numbers owners and entries.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

struct Stored {
    value: Arc<dyn Any + Send + Sync>,
    end: Option<Box<dyn FnOnce() + Send>>,
}

/// One call in the log of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The key of the command.
    pub command: Key,
    /// What happened.
    pub events: Events,
    /// How long it took.
    pub took: Duration,
}

impl RequestContext {
    /// A new request.
    pub fn new() -> Self {
        Self::default()
    }

    /// The context that the calling thread is in.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok()?
    }

    /// Whether the calling thread is in a context.
    #[inline]
    pub(crate) fn is_entered() -> bool {
        let entered = CURRENT.try_with(|current| current.borrow().is_some());
        entered.unwrap_or(false)
    }

    /// Makes this the context of the calling thread until the answer is dropped.
    #[must_use = "dropping the answer leaves the context"]
    pub fn enter(&self) -> Entered {
        Entered::set(Some(self.clone()))
    }

    /// The same work, in this request wherever it runs: on a loop, on a thread of a pool.
    ///
    /// ```
    /// use tidegate_isolate::RequestContext;
    ///
    /// let request = RequestContext::new();
    /// let work = request.bind(|| RequestContext::current().is_some());
    /// assert!(std::thread::spawn(work).join().unwrap());
    /// ```
    pub fn bind<R, F: FnOnce() -> R>(&self, work: F) -> impl FnOnce() -> R + use<R, F> {
        let context = self.clone();
        move || {
            let _entered = context.enter();
            work()
        }
    }

    /// The same future, in this request whenever it is polled, on whichever thread.
    ///
    /// ```
    /// use tidegate_isolate::RequestContext;
    ///
    /// let request = RequestContext::new();
    /// let work = request.follow(async { RequestContext::current().is_some() });
    /// // `spawn` it on a loop: it may go from one to another.
    /// # use std::future::Future;
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(work).poll(&mut context), std::task::Poll::Ready(true));
    /// ```
    pub fn follow<F: Future>(&self, work: F) -> InContext<F> {
        InContext {
            context: self.clone(),
            work: Box::pin(work),
        }
    }

    /// Takes the calling thread out of whatever context it is in, until the answer is dropped.
    pub(crate) fn leave() -> Entered {
        Entered::set(None)
    }

    /// Ends the request: the end of every variable is called, and the cache is emptied. A
    /// variable whose end panics does not keep the others from ending.
    pub fn end(&self) {
        if self.shared.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let variables = std::mem::take(&mut *lock(&self.shared.variables));
        for stored in variables.into_values() {
            if let Some(end) = stored.end
                && let Err(message) = contain(end)
            {
                let message = &*message;
                OnUnhandled::stderr().tell("a request", &Unhandled::HookPanic { message });
            }
        }
        let cache = std::mem::take(&mut *lock(&self.shared.cache));
        discard_all(cache.into_values().flatten());
    }

    /// Forgets what the commands of this key have cached for `key`, in whichever isolation they
    /// are; false if there was nothing. [`Command::clear_cached`](crate::Command::clear_cached)
    /// forgets for one command only.
    pub fn clear_cached(&self, command: &Key, key: &str) -> bool {
        let entry = (command.clone(), key.to_owned());
        let removed = lock(&self.shared.cache).remove(&entry);
        removed.is_some()
    }

    /// Forgets the entries of one owner for `key` that `is_meant` says; false if there was none.
    pub(crate) fn forget(
        &self,
        owner: CacheOwner,
        (command, key): (&Key, &str),
        is_meant: impl Fn(u64) -> bool,
    ) -> bool {
        let entry = (command.clone(), key.to_owned());
        let mut cache = lock(&self.shared.cache);
        let Some(mut entries) = cache.remove(&entry) else {
            return false;
        };
        let at = entries
            .iter()
            .position(|one| one.owner == owner && is_meant(one.number));
        let removed = at.map(|at| entries.swap_remove(at));
        if !entries.is_empty() {
            cache.insert(entry, entries);
        }
        // Dropped after the lock is released: the answer is the user's.
        drop(cache);
        removed.is_some()
    }

    /// The calls that were made, oldest first, at most [`MOST_LOGGED`].
    pub fn log(&self) -> Vec<Logged> {
        lock(&self.shared.log).clone()
    }

    /// How many calls the log had no room for.
    pub fn unlogged(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// The log as one line: equal calls are told once, with their number and the sum of their
    /// times.
    ///
    /// ```
    /// use tidegate_isolate::RequestContext;
    ///
    /// assert_eq!(RequestContext::new().log_text(), "");
    /// ```
    pub fn log_text(&self) -> String {
        let mut groups: Vec<(Key, Events, Duration, u32)> = Vec::new();
        for call in self.log() {
            let same = |group: &&mut (Key, Events, Duration, u32)| {
                group.0 == call.command && group.1 == call.events
            };
            match groups.iter_mut().find(same) {
                Some(group) => {
                    group.2 += call.took;
                    group.3 += 1;
                }
                None => groups.push((call.command, call.events, call.took, 1)),
            }
        }
        let text = groups.into_iter().map(|(command, events, took, count)| {
            let times = if count > 1 {
                format!("x{count}")
            } else {
                String::new()
            };
            format!("{command}{events}[{}ms]{times}", took.as_millis())
        });
        text.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn note(&self, call: Logged) {
        let mut log = lock(&self.shared.log);
        if log.len() < MOST_LOGGED {
            log.push(call);
        } else {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the owner has cached for `key`, or what `make` puts in its place, with the number of
    /// the entry: of several callers exactly one makes it.
    pub(crate) fn cached<S: Clone + Send + 'static, M>(
        &self,
        owner: CacheOwner,
        (command, key): (&Key, &str),
        make: impl FnOnce() -> (S, M),
    ) -> Result<S, (M, u64)> {
        self.cached_if(owner, (command, key), |_| true, make)
    }

    /// As [`RequestContext::cached`]; an entry that is not `usable` any more is left to those who
    /// have it, and made anew.
    pub(crate) fn cached_if<S: Clone + Send + 'static, M>(
        &self,
        owner: CacheOwner,
        (command, key): (&Key, &str),
        usable: impl Fn(&S) -> bool,
        make: impl FnOnce() -> (S, M),
    ) -> Result<S, (M, u64)> {
        let mut unusable = None;
        let mut cache = lock(&self.shared.cache);
        let entry = (command.clone(), key.to_owned());
        let entries = cache.entry(entry).or_default();
        let is_mine = |one: &Cached| one.owner == owner && one.shared.is::<S>();
        if let Some(at) = entries.iter().position(is_mine) {
            let found = entries[at].shared.downcast_ref::<S>();
            match found.filter(|found| usable(found)) {
                Some(found) => return Ok(found.clone()),
                // Dropped after the lock is released.
                None => unusable = Some(entries.swap_remove(at)),
            }
        }
        let (shared, made) = make();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        entries.push(Cached {
            owner,
            number,
            shared: Box::new(shared),
        });
        drop(cache);
        drop(unusable);
        Err((made, number))
    }
}

impl fmt::Debug for RequestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestContext")
            .field("variables", &lock(&self.shared.variables).len())
            .field("cached", &lock(&self.shared.cache).len())
            .finish_non_exhaustive()
    }
}

/// The future of [`RequestContext::follow`].
#[must_use = "a future does nothing until it is polled"]
#[derive(Debug)]
pub struct InContext<F> {
    context: RequestContext,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for InContext<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.context.enter();
        self.work.as_mut().poll(context)
    }
}

/// A thread's stay in a context; dropping it puts the earlier one back.
#[derive(Debug)]
pub struct Entered {
    earlier: Option<RequestContext>,
    /// Belongs to the thread.
    _here: PhantomData<*const ()>,
}

impl Entered {
    /// Sets the context of the calling thread, or takes it away.
    pub(crate) fn set(context: Option<RequestContext>) -> Self {
        let earlier = CURRENT.try_with(|current| current.replace(context));
        Self {
            earlier: earlier.ok().flatten(),
            _here: PhantomData,
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let earlier = self.earlier.take();
        let left = CURRENT.try_with(|current| current.replace(earlier));
        drop(left);
    }
}

/// A variable that every request has its own value of.
///
/// ```
/// use tidegate_isolate::{RequestContext, RequestVariable};
///
/// let user = RequestVariable::new(|| String::from("nobody"));
/// assert!(user.get().is_err(), "there is no request");
/// let request = RequestContext::new();
/// let _entered = request.enter();
/// assert_eq!(*user.get()?, "nobody");
/// user.set("ann".to_owned())?;
/// assert_eq!(*user.get()?, "ann");
/// # Ok::<(), tidegate_isolate::NoContext>(())
/// ```
pub struct RequestVariable<T> {
    id: u64,
    make: Box<dyn Fn() -> T + Send + Sync>,
    end: Option<OnEnd<T>>,
}

type OnEnd<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// There is no request on this thread: enter a [`RequestContext`] first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NoContext;

impl fmt::Display for NoContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no request on this thread: enter a RequestContext first")
    }
}

tidegate_core::debug_as_display!(NoContext);

impl Error for NoContext {}

impl<T: Send + Sync + 'static> RequestVariable<T> {
    /// A variable that begins as what `make` answers, when a request first asks for it.
    pub fn new(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            make: Box::new(make),
            end: None,
        }
    }

    /// Calls `end` with the value when the request ends, on the thread that ends it.
    pub fn on_end(mut self, end: impl Fn(&T) + Send + Sync + 'static) -> Self {
        self.end = Some(Arc::new(end));
        self
    }

    /// The value of the current request.
    ///
    /// # Errors
    ///
    /// [`NoContext`] outside of a request.
    pub fn get(&self) -> Result<Arc<T>, NoContext> {
        let context = RequestContext::current().ok_or(NoContext)?;
        let known = |context: &RequestContext| {
            let variables = lock(&context.shared.variables);
            let stored = variables.get(&self.id)?;
            Arc::clone(&stored.value).downcast::<T>().ok()
        };
        if let Some(value) = known(&context) {
            return Ok(value);
        }
        // Made outside of the lock; a value that came in between wins.
        let value = Arc::new((self.make)());
        let stored = self.stored(&value);
        let mut variables = lock(&context.shared.variables);
        let kept = variables.entry(self.id).or_insert(stored);
        Ok(Arc::clone(&kept.value).downcast::<T>().unwrap_or(value))
    }

    /// Replaces the value of the current request.
    ///
    /// # Errors
    ///
    /// [`NoContext`] outside of a request.
    pub fn set(&self, value: T) -> Result<(), NoContext> {
        let context = RequestContext::current().ok_or(NoContext)?;
        let stored = self.stored(&Arc::new(value));
        let old = lock(&context.shared.variables).insert(self.id, stored);
        drop(old);
        Ok(())
    }

    fn stored(&self, value: &Arc<T>) -> Stored {
        let end = self.end.clone().map(|end| {
            let value = Arc::clone(value);
            Box::new(move || end(&value)) as Box<dyn FnOnce() + Send>
        });
        Stored {
            value: Arc::clone(value) as Arc<dyn Any + Send + Sync>,
            end,
        }
    }
}

impl<T> fmt::Debug for RequestVariable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestVariable")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// What a call adds to the log when its answer came from the cache.
pub(crate) fn cached_events(events: Events) -> Events {
    let mut events = events;
    events.add(Event::ResponseFromCache);
    events
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    //! Contexts nest, end once, and keep a bounded log.

    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn leaving_a_context_restores_the_one_before() {
        let (outer, inner) = (RequestContext::new(), RequestContext::new());
        let is = |context: &RequestContext| {
            RequestContext::current().is_some_and(|now| Arc::ptr_eq(&now.shared, &context.shared))
        };
        let entered = outer.enter();
        {
            let _inside = inner.enter();
            assert!(is(&inner));
        }
        assert!(is(&outer));
        drop(entered);
        assert!(RequestContext::current().is_none());
    }

    #[test]
    fn every_variable_ends_once_even_if_one_panics() {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = |ended: &Arc<AtomicUsize>| {
            let ended = Arc::clone(ended);
            move |_: &u32| {
                ended.fetch_add(1, Ordering::Relaxed);
            }
        };
        let one = RequestVariable::new(|| 1).on_end(count(&ended));
        let bad = RequestVariable::new(|| 2).on_end(|_| panic!("on purpose"));
        let two = RequestVariable::new(|| 3).on_end(count(&ended));
        let unused = RequestVariable::new(|| 4).on_end(count(&ended));
        let request = RequestContext::new();
        {
            let _entered = request.enter();
            for variable in [&one, &bad, &two] {
                variable.get().unwrap();
            }
        }
        request.end();
        request.end();
        assert_eq!(ended.load(Ordering::Relaxed), 2);
        assert_eq!(unused.get(), Err(NoContext));
    }

    #[test]
    fn the_log_is_bounded_and_groups_equal_calls() {
        let request = RequestContext::new();
        let call = |command: &str, ms| Logged {
            command: command.into(),
            events: Events::of(&[Event::Success]),
            took: Duration::from_millis(ms),
        };
        request.note(call("a", 5));
        request.note(call("b", 1));
        request.note(call("a", 7));
        assert_eq!(request.log_text(), "a[SUCCESS][12ms]x2, b[SUCCESS][1ms]");
        for _ in 0..MOST_LOGGED {
            request.note(call("a", 0));
        }
        assert_eq!((request.log().len(), request.unlogged()), (MOST_LOGGED, 3));
    }

    #[test]
    fn one_caller_makes_what_is_cached() {
        let request = RequestContext::new();
        let (key, owner) = (Key::from("k"), CacheOwner::new());
        let cached = |value: u32| {
            let cached = request.cached(owner, (&key, "x"), || (value, "made"));
            cached.map_err(|(made, _)| made)
        };
        assert_eq!(cached(1), Err("made"));
        assert_eq!(cached(2), Ok(1));
        assert!(request.clear_cached(&key, "x") && !request.clear_cached(&key, "x"));
        assert_eq!(cached(3), Err("made"));
    }

    #[test]
    fn owners_of_one_key_have_entries_of_their_own() {
        let request = RequestContext::new();
        let key = Key::from("k");
        let (one, other) = (CacheOwner::new(), CacheOwner::new());
        let put = |owner, value: u32| request.cached(owner, (&key, "x"), || (value, ()));
        let Err(((), first)) = put(one, 1) else {
            panic!("nothing was there");
        };
        // Of another type, too.
        let text = request.cached(other, (&key, "x"), || ("text", ()));
        assert!(text.is_err());
        assert_eq!(put(one, 2), Ok(1), "it was not overwritten");
        assert!(request.forget(one, (&key, "x"), |_| true));
        let Err(((), second)) = put(one, 3) else {
            panic!("it was forgotten");
        };
        assert!(!request.forget(one, (&key, "x"), |number| number == first));
        assert_eq!(put(one, 4), Ok(3), "the later entry stays");
        assert!(request.forget(one, (&key, "x"), |number| number == second));
        assert!(
            request.clear_cached(&key, "x"),
            "the other's is still there"
        );
    }
}

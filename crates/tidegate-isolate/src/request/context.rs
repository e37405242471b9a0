//! The context of a request, with its cache. It is entered on a thread and carried to other
//! threads.
//!
//! A context is a handle to a shared map. It is *entered* on a thread for a limited time. Commands
//! carry it to the threads that work for them, and restore the previous context afterwards.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tidegate_core::internal::discard;
use tidegate_core::{OnUnhandled, Unhandled};

use super::log::{Log, LogEntry};
use crate::error::contain;
use crate::key::Key;
use crate::lock::lock;

thread_local! {
    static CURRENT: RefCell<Option<RequestContext>> = const { RefCell::new(None) };
}

/// The data of one request: variables, cached results, a log. Clones are handles to the same
/// context.
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
    pub(super) shared: Arc<Shared>,
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) variables: Mutex<HashMap<u64, Stored>>,
    cache: Mutex<HashMap<(Key, String), Vec<Cached>>>,
    log: Log,
    ended: AtomicBool,
}

/// A result, or a batch, that calls of this request share.
struct Cached {
    owner: CacheOwner,
    /// Identifies the entry: a later one of the same owner and key has another number.
    number: u64,
    shared: Box<dyn Any + Send>,
}

/// The owner of entries in the caches of requests: one command of one isolation, or a collapser.
/// Keys are names, and two isolations may use the same key; owners are always distinct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheOwner(u64);

impl CacheOwner {
    pub(crate) fn new() -> Self {
        Self(NEXT_NUMBER.fetch_add(1, Ordering::Relaxed))
    }
}

/// The next number of an owner or entry.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

pub(super) struct Stored {
    pub(super) value: Arc<dyn Any + Send + Sync>,
    pub(super) end: Option<Box<dyn FnOnce() + Send>>,
}

impl RequestContext {
    /// Creates a new request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the context of the calling thread.
    #[inline]
    pub fn current() -> Option<Self> {
        if Self::is_entered() {
            return Self::clone_current();
        }
        None
    }

    #[cold]
    fn clone_current() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok()?
    }

    /// Returns `true` if the calling thread is in a context.
    #[inline]
    pub(crate) fn is_entered() -> bool {
        let entered = CURRENT.try_with(|current| current.borrow().is_some());
        entered.unwrap_or(false)
    }

    /// Makes this the context of the calling thread until the returned guard is dropped.
    #[must_use = "dropping the guard leaves the context"]
    pub fn enter(&self) -> Entered {
        Entered::set(Some(self.clone()))
    }

    /// Returns the same work, which runs in this request wherever it is called: on a loop, on a
    /// thread of a pool.
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

    /// Returns the same future, which is in this request whenever it is polled, on any thread.
    ///
    /// ```
    /// use tidegate_isolate::RequestContext;
    ///
    /// let request = RequestContext::new();
    /// let work = request.follow(async { RequestContext::current().is_some() });
    /// // `spawn` it on a loop: it may move from one thread to another.
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

    /// Removes the calling thread from its context until the returned guard is dropped.
    pub(crate) fn leave() -> Entered {
        Entered::set(None)
    }

    /// Ends the request: runs the `on_end` closure of every variable and clears the cache. A panic
    /// in one of these closures does not stop the others.
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
                OnUnhandled::default().report("a request", &Unhandled::HookPanic { message });
            }
        }
        let cache = std::mem::take(&mut *lock(&self.shared.cache));
        for entries in cache.into_values() {
            for entry in entries {
                discard(entry);
            }
        }
    }

    /// Removes the results that the commands with the key `command` have cached for `key`, in all
    /// isolations. Returns `false` if there were none.
    /// [`Command::clear_cached`](crate::Command::clear_cached) removes the results of one command
    /// only.
    pub fn clear_cached(&self, command: &Key, key: &str) -> bool {
        let entry = (command.clone(), key.to_owned());
        let removed = lock(&self.shared.cache).remove(&entry);
        removed.is_some()
    }

    /// Removes the entry of one owner for `key` whose number satisfies `is_meant`; returns `false`
    /// if there is none.
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
        // Dropped after the lock is released, because the result is the user's.
        drop(cache);
        removed.is_some()
    }

    /// Returns the owner's cached entry for `key`. If there is none, stores the one that `make`
    /// creates and returns the second value of `make` and the entry's number as an error. Of
    /// several concurrent callers exactly one creates the entry.
    pub(crate) fn cached<S: Clone + Send + 'static, M>(
        &self,
        owner: CacheOwner,
        (command, key): (&Key, &str),
        make: impl FnOnce() -> (S, M),
    ) -> Result<S, (M, u64)> {
        self.cached_if(owner, (command, key), |_| true, make)
    }

    /// Like [`RequestContext::cached`], but replaces an entry that is not `usable` any more. Calls
    /// that already share the old entry keep it.
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

    /// Returns the calls of this request, oldest first, at most
    /// [`MOST_LOGGED`](crate::MOST_LOGGED).
    pub fn log(&self) -> Vec<LogEntry> {
        self.shared.log.calls()
    }

    /// Returns the number of calls that did not fit into the log.
    pub fn unlogged(&self) -> u64 {
        self.shared.log.dropped()
    }

    /// Returns the log as one line. Calls of the same command with the same events are listed once,
    /// with their number and the sum of their times.
    ///
    /// ```
    /// use tidegate_isolate::RequestContext;
    ///
    /// assert_eq!(RequestContext::new().log_text(), "");
    /// ```
    pub fn log_text(&self) -> String {
        self.shared.log.text()
    }

    pub(crate) fn note(&self, call: LogEntry) {
        self.shared.log.add(call);
    }
}

debug_fields!(RequestContext, this =>
    variables: lock(&this.shared.variables).len(), cached: lock(&this.shared.cache).len());

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

/// The guard of an entered context; dropping it restores the previous context.
#[derive(Debug)]
pub struct Entered {
    earlier: Option<RequestContext>,
    /// Makes the guard `!Send`: it belongs to the thread.
    _here: PhantomData<*const ()>,
}

impl Entered {
    /// Sets or removes the context of the calling thread.
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

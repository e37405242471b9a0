//! The lookup of a call in the cache of its request.
//!
//! The first call with a cache key runs, and stores an entry in the cache of its request from which
//! later calls copy the result.

use std::sync::Arc;

use tidegate_core::Clock;

use super::context::{CacheOwner, RequestContext};
use super::first_caller::{FirstCaller, RunOwner};
use super::shared_run::{LaterCaller, Run, Shareable, SharedAnswer, promise_at};
use super::shared_run_home::home_of;
use super::subscribers::Subscribers;
use crate::bulkhead::Home;
use crate::key::Key;

/// The owner of a cache entry, the key of its command, and the home and the clock of waits for it.
pub(crate) struct CacheScope<'a> {
    pub(crate) owner: CacheOwner,
    pub(crate) command: &'a Key,
    pub(crate) home: Option<&'a Home>,
    pub(crate) clock: &'a Clock,
}

/// A cache key, and the function that shares a result. Created only where the result can be cloned.
pub(crate) struct CacheKey<T, E> {
    key: String,
    look_up: fn(&RequestContext, CacheScope<'_>, &str) -> CacheLookup<T, E>,
}

impl<T, E> CacheKey<T, E> {
    /// Creates a cache use for this key, whose run may be shared.
    pub(crate) fn of(key: String) -> Self
    where
        T: Shareable,
        E: Shareable,
    {
        Self {
            key,
            look_up: look_up::<T, E>,
        }
    }

    /// Finds a run in the cache of a request, or stores one that this call must execute.
    pub(crate) fn look_up(
        &self,
        context: &RequestContext,
        scope: CacheScope<'_>,
    ) -> CacheLookup<T, E> {
        (self.look_up)(context, scope, &self.key)
    }
}

/// The result of a cache lookup.
pub(crate) enum CacheLookup<T, E> {
    /// Another call executes or executed the run.
    Hit(Box<dyn SharedAnswer<T, E>>),
    /// This call must execute the run.
    Miss(Box<dyn RunOwner<T, E>>),
    /// The run is in flight, and waiting for it would deadlock.
    WouldDeadlock,
}

fn look_up<T: Shareable, E: Shareable>(
    context: &RequestContext,
    scope: CacheScope<'_>,
    key: &str,
) -> CacheLookup<T, E> {
    let CacheScope {
        owner,
        command,
        home,
        clock,
    } = scope;
    let usable = |run: &Run<T, E>| run.answer.is_done() || run.callers.join();
    let made = context.cached_if(owner, (command, key), usable, || {
        let callers = Arc::new(Subscribers::new());
        let home = home_of(callers.id, command, home, clock);
        let (promise, answer) = promise_at::<T, E>(Some(home));
        let answer = answer.share().ok();
        let answer = answer.expect("the outcome of a new promise is not taken yet");
        let run = Run { answer, callers };
        (run.clone(), (promise, run))
    });
    let copies = |run: Run<T, E>| LaterCaller::new(run, command);
    match made {
        Ok(run) => CacheLookup::Hit(Box::new(copies(run))),
        Err(((promise, run), number)) => CacheLookup::Miss(Box::new(FirstCaller {
            promise,
            entry: (owner, number),
            copies: copies(run),
            context: context.clone(),
            key: key.to_owned(),
        })),
    }
}

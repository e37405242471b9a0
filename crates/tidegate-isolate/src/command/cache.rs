//! The cache lookup of a call with a cache key: finds a run of its request that the call can share.

use super::options::CallOptions;
use super::report::CallRecord;
use super::shared::Shared;
use crate::error::{Cause, CommandError, Rejection};
use crate::event::Event;
use crate::isolation::state::{CACHES, LOGS};
use crate::plugin::CallStage;
use crate::request::{Answer, CacheLookup, CacheScope, RequestContext};

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Looks for a run that the call can share. With `waits`, the caller will wait for the result,
    /// and a wait that would deadlock is detected. Returns `None` if the call has no cache key or
    /// the cache is disabled.
    pub(super) fn look_up(
        &self,
        options: &mut CallOptions<T, E>,
        waits: bool,
    ) -> Result<Option<CacheLookup<T, E>>, CommandError<E>> {
        let state = &*self.state;
        let Some(cache) = options.take_cache() else {
            return Ok(None);
        };
        if state.flags() & CACHES == 0 {
            return Ok(None);
        }
        let context = options.context.clone().or_else(RequestContext::current);
        let Some(context) = context else {
            return Err(self.misused(options, Cause::NoRequest));
        };
        let scope = CacheScope {
            owner: state.cache_owner,
            command: &state.key,
            home: state.threads.get().map(|pool| &**pool.home()),
            clock: state.alarms.clock().clock(),
        };
        let mut looked = cache.look_up(&context, scope);
        if let CacheLookup::Hit(copies) = &mut looked {
            if waits && !copies.begin_wait() {
                return Ok(Some(CacheLookup::WouldDeadlock));
            }
            let now = state.now();
            state.metrics.count(now, Event::ResponseFromCache);
            let _ = state.hook(CallStage::CacheHit);
            state.plugins.event(&state.key, Event::ResponseFromCache);
            state.notify_observer(options.observer(), Event::ResponseFromCache);
            if state.flags() & LOGS != 0 {
                copies.log_into(context);
            }
        }
        if let CacheLookup::Miss(first) = &looked {
            options.rare().run = Some(first.callers().id);
        }
        Ok(Some(looked))
    }

    /// Rejects a call that would wait for the run in which it is made.
    #[cold]
    pub(super) fn reject_deadlock(&self, options: &mut CallOptions<T, E>) -> Answer<T, E> {
        let record = CallRecord::new(self.state.now());
        self.failed(record, options, Cause::Rejected(Rejection::Deadlock))
    }
}

//! Variables with a separate value for every request.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::context::{RequestContext, Stored};
use crate::lock::lock;

/// A variable that has a separate value for every request.
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
/// # Ok::<(), tidegate_isolate::NoContextError>(())
/// ```
pub struct RequestVariable<T> {
    id: u64,
    make: Box<dyn Fn() -> T + Send + Sync>,
    end: Option<OnEnd<T>>,
}

type OnEnd<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// The error of an access outside of a request: enter a [`RequestContext`] first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NoContextError;

impl fmt::Display for NoContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no request on this thread: enter a RequestContext first")
    }
}

impl Error for NoContextError {}

tidegate_core::debug_as_display!(NoContextError);

impl<T: Send + Sync + 'static> RequestVariable<T> {
    /// Creates a variable whose value is created by `make` when a request first reads it.
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

    /// Returns the value of the current request.
    ///
    /// # Errors
    ///
    /// Returns [`NoContextError`] outside of a request.
    pub fn get(&self) -> Result<Arc<T>, NoContextError> {
        let context = RequestContext::current().ok_or(NoContextError)?;
        let known = |context: &RequestContext| {
            let variables = lock(&context.shared.variables);
            let stored = variables.get(&self.id)?;
            Arc::clone(&stored.value).downcast::<T>().ok()
        };
        if let Some(value) = known(&context) {
            return Ok(value);
        }
        // Created outside of the lock; a value that was stored in the meantime takes precedence.
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
    /// Returns [`NoContextError`] outside of a request.
    pub fn set(&self, value: T) -> Result<(), NoContextError> {
        let context = RequestContext::current().ok_or(NoContextError)?;
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

debug_fields!([T] RequestVariable<T>, this => id: this.id);

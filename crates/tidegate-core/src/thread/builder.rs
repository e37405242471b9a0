//! The description and the start of the threads of one pool.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::handle::{ThreadHandle, ThreadWatch};
use super::info::{NORMAL_PRIORITY, ThreadRecord};
use super::start::{
    CurrentThreadGuard, EndGuard, ThreadNames, hook_panic, run_contained, run_exit_hooks_to,
    spawn_named,
};
use crate::contain::{contain, discard, discard_all};
use crate::sys::prim;
use crate::{OnUnhandled, Unhandled, sys};

/// A hook that runs when a thread starts or stops.
type Hook = Arc<dyn Fn() + Send + Sync>;
/// The user's function that starts threads.
type Spawner = Arc<dyn Fn(ThreadJob) -> io::Result<()> + Send + Sync>;

/// Describes and starts the threads of one pool.
///
/// If `io` is the first builder of the process, its first thread is named `io-1-1` and the next one
/// `io-1-2`; the first thread of the next builder is `…-2-1`.
///
/// ```
/// use tidegate_core::ThreadBuilder;
///
/// let builder = ThreadBuilder::new("io").stack_size(256 * 1024);
/// let thread = builder.spawn(|| ())?;
/// assert!(thread.info().name().starts_with("io-"));
/// assert!(thread.join().is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct ThreadBuilder {
    names: ThreadNames,
    priority: u8,
    cpus: Vec<usize>,
    stack_size: Option<usize>,
    detached: bool,
    on_start: Vec<Hook>,
    on_stop: Vec<Hook>,
    spawner: Option<Spawner>,
    on_unhandled: Option<OnUnhandled>,
}

impl ThreadBuilder {
    /// The default priority of a thread.
    pub const NORMAL_PRIORITY: u8 = NORMAL_PRIORITY;
    /// The highest priority that can be requested.
    pub const MAX_PRIORITY: u8 = 10;

    /// Describes the threads of a pool called `name`. A NUL, which the system allows in no name, is
    /// replaced.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            names: ThreadNames::new(name),
            priority: Self::NORMAL_PRIORITY,
            cpus: Vec::new(),
            stack_size: None,
            detached: false,
            on_start: Vec::new(),
            on_stop: Vec::new(),
            spawner: None,
            on_unhandled: None,
        }
    }

    /// Describes the threads of a pool named after the type `T`: its simple name, with a lower-case
    /// first letter unless it begins like an abbreviation.
    ///
    /// ```
    /// # use tidegate_core::ThreadBuilder;
    /// struct EventLoops;
    /// assert_eq!(ThreadBuilder::for_type::<EventLoops>().pool(), "eventLoops");
    /// ```
    pub fn for_type<T: ?Sized>() -> Self {
        Self::new(pool_name(std::any::type_name::<T>()))
    }

    /// Requests a priority from 1 (lowest) to 10.
    ///
    /// # Errors
    ///
    /// [`PriorityError`] for any other number.
    pub fn priority(mut self, priority: u8) -> Result<Self, PriorityError> {
        if !(1..=Self::MAX_PRIORITY).contains(&priority) {
            return Err(PriorityError { asked: priority });
        }
        self.priority = priority;
        Ok(self)
    }

    /// Requests the CPUs that the threads may run on.
    pub fn cpus(mut self, cpus: impl Into<Vec<usize>>) -> Self {
        self.cpus = cpus.into();
        self
    }

    /// Sets the size of the threads' stacks in bytes.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Detaches the threads: they run on their own (elsewhere called daemons), and their handles
    /// cannot be joined.
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Runs `hook` on each thread before its job.
    pub fn on_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_start.push(Arc::new(hook));
        self
    }

    /// Runs `hook` on each thread after its job, also when the job panicked.
    pub fn on_stop(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_stop.push(Arc::new(hook));
        self
    }

    /// Starts threads through `spawner`, which must call [`ThreadJob::run`] on a new thread and not
    /// on the calling thread.
    pub fn spawner(
        mut self,
        spawner: impl Fn(ThreadJob) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.spawner = Some(Arc::new(spawner));
        self
    }

    /// Sets the hook that receives panics of the threads' jobs and hooks, with the thread's name;
    /// the default is [`OnUnhandled::default`].
    pub fn report_to(mut self, hook: OnUnhandled) -> Self {
        self.on_unhandled = Some(hook);
        self
    }

    /// Does the same as [`ThreadBuilder::report_to`], unless a hook is already set.
    #[doc(hidden)]
    pub fn or_report_to(mut self, hook: &OnUnhandled) -> Self {
        self.on_unhandled.get_or_insert_with(|| hook.clone());
        self
    }

    /// Returns the pool's name.
    pub fn pool(&self) -> &str {
        self.names.pool()
    }

    /// Starts a thread that runs `job`.
    ///
    /// # Errors
    ///
    /// The error of the system or of the user's spawner if no thread can be started, or an error
    /// which says that the spawner panicked; `job` is then dropped without having run.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) -> io::Result<ThreadHandle> {
        self.spawn_watched(move |_| job())
    }

    /// Does the same as [`ThreadBuilder::spawn`], and passes the job a [`ThreadWatch`] of its
    /// thread.
    ///
    /// # Errors
    ///
    /// The same as for [`ThreadBuilder::spawn`].
    #[doc(hidden)]
    pub fn spawn_watched(
        &self,
        job: impl FnOnce(&ThreadWatch) + Send + 'static,
    ) -> io::Result<ThreadHandle> {
        self.spawn_boxed(Box::new(job))
    }

    fn spawn_boxed(&self, job: Box<dyn FnOnce(&ThreadWatch) + Send>) -> io::Result<ThreadHandle> {
        let record = Arc::new(ThreadRecord::new(
            self.names.next(),
            self.priority,
            self.detached,
        ));
        let watch = ThreadWatch::new(&record);
        let job = ThreadJob {
            builder: self.clone(),
            end: EndGuard::new(&record),
            job: Box::new(move || job(&watch)),
        };
        let joined = match &self.spawner {
            Some(spawner) => {
                start_by(spawner, job, &record)?;
                None
            }
            None => Some(start(job)?),
        };
        let joined = joined.filter(|_| !self.detached);
        Ok(ThreadHandle::new(record, joined))
    }

    /// Drops the user's hooks inside containment, in case this is the last reference to them.
    fn discard(self) {
        discard_all(self.on_start);
        discard_all(self.on_stop);
        discard(self.spawner);
        discard(self.on_unhandled);
    }
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("pool", &self.pool())
            .field("priority", &self.priority)
            .field("cpus", &self.cpus)
            .field("detached", &self.detached)
            .finish_non_exhaustive()
    }
}

/// The work of a new thread. A user-supplied spawner receives it and calls [`ThreadJob::run`] on a
/// new thread.
#[must_use = "a job that is dropped never runs"]
pub struct ThreadJob {
    builder: ThreadBuilder,
    end: EndGuard,
    job: Box<dyn FnOnce() + Send>,
}

impl ThreadJob {
    /// Returns the name that the thread should have.
    pub fn name(&self) -> &str {
        self.end.record().name()
    }

    /// Returns the requested stack size.
    pub fn stack_size(&self) -> Option<usize> {
        self.builder.stack_size
    }

    /// Runs the job on the calling thread: sets the thread up, then runs the start hooks, the job,
    /// the stop hooks and the hooks of `at_thread_exit`. A panic of the
    /// job or of a hook is contained and reported.
    pub fn run(self) {
        let Self { builder, end, job } = self;
        let record = end.record();
        let granted = builder.priority != ThreadBuilder::NORMAL_PRIORITY
            && sys::thread::set_priority(builder.priority);
        if !builder.cpus.is_empty() {
            sys::thread::set_affinity(&builder.cpus);
        }
        if !record.begin(granted) {
            // The spawner reported that it had no thread, so `spawn` returns an error and the job
            // must not run.
            discard(job);
            return builder.discard();
        }
        let current = CurrentThreadGuard::enter(record);
        let report = |what: &Unhandled<'_>| {
            let hook = builder.on_unhandled.clone().unwrap_or_default();
            hook.report(record.name(), what);
        };
        for hook in &builder.on_start {
            if let Err(panic) = contain(|| hook()) {
                report(&hook_panic(panic.message()));
            }
        }
        run_contained(job, report);
        for hook in &builder.on_stop {
            if let Err(panic) = contain(|| hook()) {
                report(&hook_panic(panic.message()));
            }
        }
        run_exit_hooks();
        builder.discard();
        drop(current);
        drop(end);
    }
}

impl fmt::Debug for ThreadJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadJob")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Starts a thread through the user's spawner. If the spawner fails or panics although the thread
/// has started, the start counts as successful; otherwise the job is revoked and cannot start.
fn start_by(spawner: &Spawner, job: ThreadJob, record: &ThreadRecord) -> io::Result<()> {
    let failed = match contain(|| spawner(job)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(cause)) => cause,
        Err(panic) => io::Error::other(format!(
            "{}: the spawner panicked: {}",
            record.name(),
            panic.message()
        )),
    };
    if record.revoke() { Err(failed) } else { Ok(()) }
}

fn start(job: ThreadJob) -> io::Result<prim::JoinHandle<()>> {
    let (name, stack_size) = (job.name().to_owned(), job.stack_size());
    spawn_named(name, stack_size, move || job.run())
}

/// A priority outside 1 to 10.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PriorityError {
    asked: u8,
}

impl fmt::Display for PriorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked } = self;
        write!(
            f,
            "{asked} is not a thread priority; use 1 (lowest) to 10 (highest)"
        )
    }
}

impl std::error::Error for PriorityError {}

crate::debug_as_display!(PriorityError);

/// Runs the hooks that `at_thread_exit` registered on this thread, newest
/// first, until none is left. A panicking hook does not prevent the others from running.
pub fn run_exit_hooks() {
    run_exit_hooks_to(|source, error| OnUnhandled::default().report(source, error));
}

/// Returns the pool name for a type's name.
pub(super) fn pool_name(type_name: &str) -> String {
    let path = type_name.split('<').next().unwrap_or_default();
    let simple = path.rsplit(':').next().unwrap_or_default();
    let mut letters = simple.chars();
    let (first, rest) = (letters.next(), letters.as_str());
    match (first, letters.next()) {
        (None, _) => "unknown".to_owned(),
        (Some(_), None) => simple.to_lowercase(),
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_string().to_lowercase() + rest
        }
        _ => simple.to_owned(),
    }
}

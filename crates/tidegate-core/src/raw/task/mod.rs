//! A task: one closure, type-erased, in 32 bytes.
//!
//! Executors run tasks, lanes carry them, and a refusal returns them. A closure of up to three
//! words is stored in the task itself; a larger one is boxed. Moving a task between threads
//! therefore allocates nothing for the closures that programs submit by the million.

pub(crate) mod plain;

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};

use crate::raw::running::{self, Running};
use crate::raw::vtable::{Blocking, Data, INLINE_WORDS, Vtable};
use crate::trace::{self, Span};

/// One unit of work: a closure that runs once.
///
/// Dropping a task drops the closure without running it. With the feature `tracing`, a task runs in
/// the span in which it was created.
///
/// ```
/// use std::sync::mpsc;
/// use tidegate_core::Task;
///
/// let (tx, rx) = mpsc::channel();
/// let task = Task::named("greet", move || tx.send("hello").unwrap());
/// assert_eq!(task.name(), "greet");
/// task.run();
/// assert_eq!(rx.recv(), Ok("hello"));
/// ```
#[must_use = "a task does nothing until it is run or handed to an executor"]
pub struct Task {
    pub(crate) vtable: &'static Vtable,
    pub(crate) data: Data,
}

impl Task {
    /// Creates a task from `run`, which may block.
    #[inline]
    pub fn new<F>(run: F) -> Self
    where
        F: FnOnce() + Send + 'static,
    {
        Self::erase::<F, May>(run)
    }

    /// Creates a task that never blocks the thread that runs it.
    #[inline]
    pub fn non_blocking<F>(run: F) -> Self
    where
        F: FnOnce() + Send + 'static,
    {
        Self::erase::<F, Never>(run)
    }

    /// Creates a task that checks whether its thread may block before it blocks.
    #[inline]
    pub fn adaptive<F>(run: F) -> Self
    where
        F: FnOnce() + Send + 'static,
    {
        Self::erase::<F, Adapts>(run)
    }

    /// Creates a task that may block and is known to take long. Strategies use this as a hint and
    /// give the task a thread of its own at once, instead of observing it first.
    ///
    /// ```
    /// use tidegate_core::{Blocking, Task};
    ///
    /// let task = Task::long(|| ());
    /// assert!(task.is_long() && task.blocking() == Blocking::May);
    /// ```
    #[inline]
    pub fn long<F>(run: F) -> Self
    where
        F: FnOnce() + Send + 'static,
    {
        Self::erase::<F, Long>(run)
    }

    /// Creates a task of a kind that is known only at run time.
    ///
    /// ```
    /// use tidegate_core::{Blocking, Task};
    ///
    /// let kind = Blocking::Never.max(Blocking::Adapts);
    /// assert_eq!(Task::of(kind, || ()).blocking(), Blocking::Adapts);
    /// ```
    #[inline]
    pub fn of<F>(kind: Blocking, run: F) -> Self
    where
        F: FnOnce() + Send + 'static,
    {
        match kind {
            Blocking::Never => Self::non_blocking(run),
            Blocking::Adapts => Self::adaptive(run),
            Blocking::May => Self::new(run),
        }
    }

    /// Creates a task with a `name` for metrics and watchdog reports.
    ///
    /// A task without a name is identified by the type of its closure. The name takes two of the
    /// three inline words.
    #[inline]
    pub fn named<F>(name: &'static str, run: F) -> Self
    where
        F: FnOnce() + Send + 'static,
    {
        Self::erase::<Named<F>, May>(Named { name, run })
    }

    /// Creates a task that is identified by the type `L` instead of the type of its closure: for
    /// code that wraps a user's closure and wants reports to show the user's type.
    #[doc(hidden)]
    #[inline]
    pub fn labelled<L: 'static, F>(run: F) -> Self
    where
        F: FnOnce() + Send + 'static,
    {
        Self::erase::<Labelled<L, F>, May>(Labelled {
            run,
            label: PhantomData,
        })
    }

    /// Runs the task on this thread. A panic of the closure propagates to the caller.
    #[inline]
    pub fn run(self) {
        let mut task = ManuallyDrop::new(self);
        let run = task.vtable.run;
        // SAFETY: `data` holds the closure that this vtable was made for, and `ManuallyDrop`
        // keeps it from being dropped again after `run` has consumed it.
        unsafe { run(&raw mut task.data) };
    }

    /// Returns the task's name: the given name, or the type of its closure.
    pub fn name(&self) -> &'static str {
        // SAFETY: `data` holds the live closure that this vtable was made for.
        unsafe { (self.vtable.name)(&raw const self.data) }
    }

    /// Returns whether the task may block its thread.
    pub fn blocking(&self) -> Blocking {
        self.vtable.blocking
    }

    /// Returns `true` if the task is known to take long.
    pub fn is_long(&self) -> bool {
        self.vtable.long
    }

    /// Returns `true` if the task is of the runtime itself. An executor that ends drops such a task
    /// and hands back the others.
    #[doc(hidden)]
    pub fn is_internal(&self) -> bool {
        self.vtable.internal
    }

    /// Returns a number that tasks made from the same closure share: for statistics by class.
    pub fn class(&self) -> usize {
        std::ptr::from_ref(self.vtable).addr()
    }

    /// Makes a task that runs in the span in which it was made, if there is one.
    #[inline]
    fn erase<F: Body, B: Kind>(body: F) -> Self {
        if trace::is_on() {
            return Self::erase_in_span::<F, B>(body);
        }
        Self::erase_plain::<F, B>(body)
    }

    #[cold]
    #[inline(never)]
    fn erase_in_span<F: Body, B: Kind>(body: F) -> Self {
        let task = Self::erase_plain::<F, B>(body);
        let span = Span::current();
        if span.is_none() {
            return task;
        }
        Self::erase_plain::<InSpan<F>, B>(InSpan {
            task,
            span,
            body: PhantomData,
        })
    }

    #[inline]
    fn erase_plain<F: Body, B: Kind>(body: F) -> Self {
        let mut data: Data = [MaybeUninit::uninit(); INLINE_WORDS];
        // A constant, so that only the code of one branch is generated.
        let vtable = if const { fits::<F>() } {
            // SAFETY: `fits` checked that size and alignment of `data` suffice for an `F`.
            unsafe { (&raw mut data).cast::<F>().write(body) };
            Inline::<F, B>::VTABLE
        } else {
            data[0].write(Box::into_raw(Box::new(body)).cast::<()>());
            Boxed::<F, B>::VTABLE
        };
        Self { vtable, data }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // SAFETY: a task that is dropped has not been run (`run` forgets it), so `data` still
        // holds the closure of this vtable.
        unsafe { (self.vtable.drop)(&raw mut self.data) };
    }
}

// SAFETY: `Task::erase` is only reached with closures that are `Send`.
unsafe impl Send for Task {}

// SAFETY: through a shared task only its name and its kind can be read, which are not part of the
// closure's captures; those are touched by `run` and `drop` alone, which own the task.
unsafe impl Sync for Task {}

impl Running {
    /// Records that the loop starts `task`. Called only by the loop's thread.
    #[inline(always)]
    pub fn begin(&self, task: &Task) {
        self.begin_closure(task.vtable);
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("name", &self.name())
            .field("blocking", &self.blocking())
            .finish_non_exhaustive()
    }
}

/// Returns `true` if an `F` fits into the words of a task.
const fn fits<F>() -> bool {
    mem::size_of::<F>() <= mem::size_of::<Data>() && mem::align_of::<F>() <= mem::align_of::<Data>()
}

/// The content of a task: a closure, or a closure with a name.
trait Body: Send + 'static {
    fn call(self);
    fn name(&self) -> &'static str;
    fn type_name() -> &'static str;
}

impl<F: FnOnce() + Send + 'static> Body for F {
    #[inline(always)]
    fn call(self) {
        self();
    }

    fn name(&self) -> &'static str {
        type_name::<F>()
    }

    fn type_name() -> &'static str {
        type_name::<F>()
    }
}

struct Named<F> {
    name: &'static str,
    run: F,
}

impl<F: FnOnce() + Send + 'static> Body for Named<F> {
    fn call(self) {
        // The loop records only the vtable of the task that it runs, so a given name is shown
        // separately.
        let _shown = running::show_name(self.name);
        (self.run)();
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn type_name() -> &'static str {
        type_name::<F>()
    }
}

/// A closure that is identified by the name of another type.
struct Labelled<L, F> {
    run: F,
    label: PhantomData<fn() -> L>,
}

impl<L: 'static, F: FnOnce() + Send + 'static> Body for Labelled<L, F> {
    #[inline(always)]
    fn call(self) {
        (self.run)();
    }

    fn name(&self) -> &'static str {
        type_name::<L>()
    }

    fn type_name() -> &'static str {
        type_name::<L>()
    }
}

/// A task whose body is an `F`, and the span in which it runs. It contains the task and not the
/// body: with a second caller, the compiler would no longer inline the body into the first one.
struct InSpan<F> {
    task: Task,
    span: Span,
    body: PhantomData<fn() -> F>,
}

impl<F: Body> Body for InSpan<F> {
    fn call(self) {
        let _entered = self.span.enter();
        self.task.run();
    }

    fn name(&self) -> &'static str {
        self.task.name()
    }

    fn type_name() -> &'static str {
        F::type_name()
    }
}

/// A [`Blocking`] as a type, so that it takes no word of the task.
trait Kind {
    const BLOCKING: Blocking;
    const LONG: bool = false;
    const INTERNAL: bool = false;
}
struct Never;
struct Adapts;
struct May;
/// May block, and is known to take long.
struct Long;
/// May block, and is of no use outside its executor.
struct Internal;
impl Kind for Internal {
    const BLOCKING: Blocking = Blocking::May;
    const INTERNAL: bool = true;
}
impl Kind for Long {
    const BLOCKING: Blocking = Blocking::May;
    const LONG: bool = true;
}
impl Kind for Never {
    const BLOCKING: Blocking = Blocking::Never;
}
impl Kind for Adapts {
    const BLOCKING: Blocking = Blocking::Adapts;
}
impl Kind for May {
    const BLOCKING: Blocking = Blocking::May;
}

/// Vtable of a closure that is stored in the task's own words.
struct Inline<F, B>(PhantomData<(F, B)>);

impl<F: Body, B: Kind> Inline<F, B> {
    const VTABLE: &'static Vtable = &Vtable {
        run: Self::run,
        drop: Self::drop,
        name: Self::name,
        type_name: F::type_name,
        blocking: B::BLOCKING,
        long: B::LONG,
        internal: B::INTERNAL,
    };

    unsafe fn run(data: *mut Data) {
        // SAFETY: the caller passes data that holds a live `F` and does not use it afterwards.
        let body = unsafe { data.cast::<F>().read() };
        body.call();
    }

    unsafe fn drop(data: *mut Data) {
        // SAFETY: the caller passes data that holds a live `F` and does not use it afterwards.
        unsafe { data.cast::<F>().drop_in_place() };
    }

    unsafe fn name(data: *const Data) -> &'static str {
        // SAFETY: the caller passes data that holds a live `F`.
        let body = unsafe { &*data.cast::<F>() };
        body.name()
    }
}

/// Vtable of a closure in a box; the first word is the pointer to the box.
struct Boxed<F, B>(PhantomData<(F, B)>);

impl<F: Body, B: Kind> Boxed<F, B> {
    const VTABLE: &'static Vtable = &Vtable {
        run: Self::run,
        drop: Self::drop,
        name: Self::name,
        type_name: F::type_name,
        blocking: B::BLOCKING,
        long: B::LONG,
        internal: B::INTERNAL,
    };

    unsafe fn unbox(data: *mut Data) -> Box<F> {
        // SAFETY: the caller passes data made by `erase` for a boxed `F`: word 0 is the box.
        let word = unsafe { data.cast::<*mut F>().read() };
        // SAFETY: that word came from `Box::into_raw`, and the caller gives it up.
        unsafe { Box::from_raw(word) }
    }

    unsafe fn run(data: *mut Data) {
        // SAFETY: as this function's caller promises.
        let body = unsafe { Self::unbox(data) };
        body.call();
    }

    unsafe fn drop(data: *mut Data) {
        // SAFETY: as this function's caller promises.
        drop(unsafe { Self::unbox(data) });
    }

    unsafe fn name(data: *const Data) -> &'static str {
        // SAFETY: the caller passes data made by `erase` for a boxed `F`: word 0 is the box.
        let word = unsafe { data.cast::<*const F>().read() };
        // SAFETY: the box is alive as long as the task is.
        let body = unsafe { &*word };
        body.name()
    }
}

#[cfg(test)]
mod tests;

//! The trait of a producer, the source of a strategy's tasks.

use tidegate_core::{Rejected, Task};

/// Makes a producer that waits inside `produce` return soon, with a task that may block or adapts.
pub type InterruptFn = Box<dyn Fn() + Send + Sync>;

/// Creates tasks, one at a time, on the thread that holds the producer at that moment.
///
/// `None` means that there is no task now: the strategy becomes idle until it is called again. A
/// producer that can wait by itself (a poller) waits inside `produce` and returns `None` only at
/// its end. Return tasks one by one, not in batches: tasks that were not returned yet stay with the
/// next producing thread, so they are not stuck behind a task that blocks.
///
/// The right to produce is the ownership of this value: whoever has it is the only one that can
/// call `produce`, and sees what the previous owner wrote.
///
/// Whether a task may block its thread is stored in the task ([`Task::blocking`]) when it is
/// produced.
///
/// Any `FnMut() -> Option<Task>` that is `Send` is a producer. A producer that wraps another one
/// forwards every method.
///
/// ```
/// use tidegate_pool::strategy::Producer;
/// use tidegate_core::Task;
///
/// struct Ready(Vec<u32>);
///
/// impl Producer for Ready {
///     fn produce(&mut self) -> Option<Task> {
///         let n = self.0.pop()?;
///         Some(Task::non_blocking(move || println!("{n}")))
///     }
///
///     fn backlog(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// let mut ready = Ready(vec![1, 2]);
/// assert!(ready.produce().is_some() && ready.backlog() == 1);
/// ```
pub trait Producer: Send + 'static {
    /// Returns the next task, or `None` if there is none now.
    fn produce(&mut self) -> Option<Task>;

    /// Returns how many more tasks are ready, as far as the producer knows without checking. If
    /// tasks wait while a processor is idle, [`Adaptive`](crate::strategy::Adaptive) may use a
    /// second thread. Returns zero if the number is not known.
    fn backlog(&self) -> usize {
        0
    }

    /// Receives a task of this producer that the executor refused. A strategy calls it for the task
    /// that was produced last, before it asks for the next one. The default drops the task, which
    /// closes what it holds.
    fn refused(&mut self, refused: Rejected<Task>) {
        drop(refused);
    }

    /// Returns a function that ends the wait of a producer that waits inside `produce`. Its thread
    /// is then available for tasks that wait for one.
    #[doc(hidden)]
    fn interrupter(&self) -> Option<InterruptFn> {
        None
    }
}

impl<F> Producer for F
where
    F: FnMut() -> Option<Task> + Send + 'static,
{
    fn produce(&mut self) -> Option<Task> {
        self()
    }
}

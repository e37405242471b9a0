//! The trait of a producer, the source of a strategy's tasks.

use tidegate_core::Task;

/// Creates tasks, one at a time, on the thread that holds the producer at that moment.
///
/// `None` means that there is no task now: the strategy becomes idle until it is called again. A
/// producer that can wait by itself (a poller) waits inside `produce` and returns `None` only at
/// its end. Return tasks one by one, not in batches: tasks that were not returned yet stay with the
/// next producing thread, so they are not stuck behind a task that blocks.
///
/// Whether a task may block its thread is stored in the task ([`Task::blocking`]) when it is
/// produced.
///
/// Any `FnMut() -> Option<Task>` that is `Send` is a producer.
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
    /// tasks wait while a processor is idle, [`Adaptive`](crate::strategy::Adaptive) may use a second thread.
    /// Returns zero if the number is not known.
    fn backlog(&self) -> usize {
        0
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

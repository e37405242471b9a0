//! What makes the tasks.

use tidegate_core::Task;

/// Makes tasks, one at a time, on whichever thread holds it at that moment.
///
/// `None` means "nothing now": the strategy goes idle until it is called again. A producer that
/// has its own way to wait (a poller) waits in `produce` instead and answers `None` only at its
/// end. Hand tasks out singly, not in batches: what was not handed out yet stays with whoever
/// produces next, so nothing is stuck behind a task that blocks.
///
/// What a task may do to its thread travels inside the task ([`Task::blocking`]), fixed when it
/// is produced.
///
/// Any `FnMut() -> Option<Task>` that is `Send` is a producer.
///
/// ```
/// use tidegate_pool::Producer;
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
    /// The next task, or `None` when there is nothing now.
    fn produce(&mut self) -> Option<Task>;

    /// How many more tasks could be had at once, as far as it is known without looking. Work
    /// that waits while a processor is idle is a reason for [`Adaptive`](crate::Adaptive) to
    /// bring a second thread. Zero if the producer cannot say.
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

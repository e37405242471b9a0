//! Implements `Executor` for a handle by delegating to its shared state, which implements
//! `Executor`.

/// Implements every method of `Executor` by calling the same method of the handle's `shared` field.
macro_rules! delegate_executor {
    ($handle:ty) => {
        const _: () = {
            use std::any::Any;
            use std::sync::Arc;
            use tidegate_core::executor::{ExecutorId, Need, Signal, Work};
            use tidegate_core::{Clock, Executor, Rejected, Task, Unhandled};

            impl Executor for $handle {
                fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
                    Executor::execute(&*self.shared, task)
                }

                fn execute_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
                    Executor::execute_internal(&*self.shared, task)
                }

                fn offer_task(&self, task: Task) -> Result<(), Rejected<Task>> {
                    self.shared.offer_task(task)
                }

                fn shared_with_views(&self) -> Option<Arc<dyn Any + Send + Sync>> {
                    self.shared.shared_with_views()
                }

                fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
                    self.shared.signal(signal)
                }

                fn is_current(&self) -> bool {
                    self.shared.is_current()
                }

                fn id(&self) -> ExecutorId {
                    self.shared.id()
                }

                fn name(&self) -> &str {
                    self.shared.name()
                }

                fn clock(&self) -> &Clock {
                    self.shared.clock()
                }

                fn width(&self) -> usize {
                    self.shared.width()
                }

                fn most_threads(&self) -> usize {
                    self.shared.most_threads()
                }

                fn needs(&self, work: Work) -> Vec<Need> {
                    self.shared.needs(work)
                }

                fn has_abandoned_tasks(&self) -> bool {
                    self.shared.has_abandoned_tasks()
                }

                fn unhandled(&self, what: &Unhandled<'_>) {
                    self.shared.unhandled(what);
                }
            }
        };
    };
}
pub(crate) use delegate_executor;

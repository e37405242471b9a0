//! A macro that forwards the methods of an executor to another executor.

/// Implements methods of [`Executor`](tidegate_core::Executor) by forwarding to `self.$to`.
macro_rules! forward_executor {
    ($to:ident) => {
        fn execute(
            &self,
            task: tidegate_core::Task,
        ) -> Result<(), tidegate_core::Rejected<tidegate_core::Task>> {
            tidegate_core::Executor::execute(&*self.$to, task)
        }

        fn signal(
            &self,
            signal: tidegate_core::executor::Signal,
        ) -> Result<(), tidegate_core::Rejected<tidegate_core::executor::Signal>> {
            tidegate_core::Executor::signal(&*self.$to, signal)
        }

        fn is_current(&self) -> bool {
            tidegate_core::Executor::is_current(&*self.$to)
        }

        fn id(&self) -> tidegate_core::executor::ExecutorId {
            tidegate_core::Executor::id(&*self.$to)
        }

        fn name(&self) -> &str {
            tidegate_core::Executor::name(&*self.$to)
        }

        fn needs(&self, work: tidegate_core::executor::Work) -> Vec<tidegate_core::executor::Need> {
            tidegate_core::Executor::needs(&*self.$to, work)
        }

        fn clock(&self) -> &tidegate_core::Clock {
            tidegate_core::Executor::clock(&*self.$to)
        }
    };
}

pub(crate) use forward_executor;

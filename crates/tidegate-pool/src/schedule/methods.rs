//! The methods of a handle that schedule tasks.

/// Implements the methods for a handle whose field `shared` is a `ScheduleTarget`. The attributes are
/// the documentation of `schedule`.
macro_rules! schedule_methods {
    ($(#[$doc:meta])* $handle:ty) => {
        impl $handle {
            $(#[$doc])*
            pub fn schedule<T, F>(
                &self,
                after: std::time::Duration,
                run: F,
            ) -> Result<tidegate_promise::Completion<T>, tidegate_core::Rejected<F>>
            where
                T: Send + 'static,
                F: FnOnce() -> T + Send + 'static,
            {
                $crate::schedule::once(&self.shared, after, run)
            }

            /// Runs `run` after `first` and then every `period`, measured from start to start.
            /// Missed runs are made up for. A run never overlaps the previous one. The
            /// completion never succeeds: it ends as cancelled, or as failed if `run` panics.
            ///
            /// A run that is refused is reported and counted as for [`Self::schedule`] and is
            /// left out. So is a run for which there is no thread. The task stays scheduled.
            ///
            /// # Errors
            ///
            /// [`PeriodError`](crate::PeriodError) if the period is zero, the pool takes no more
            /// jobs, or no thread can be started for its timer.
            pub fn schedule_at_fixed_rate<F>(
                &self,
                first: std::time::Duration,
                period: std::time::Duration,
                run: F,
            ) -> Result<tidegate_promise::Completion<()>, $crate::PeriodError>
            where
                F: FnMut() + Send + 'static,
            {
                self.schedule_at_rate(first, period, $crate::Missed::default(), run)
            }

            /// [`Self::schedule_at_fixed_rate`] with a policy for missed runs.
            ///
            /// # Errors
            ///
            /// As for [`Self::schedule_at_fixed_rate`].
            pub fn schedule_at_rate<F>(
                &self,
                first: std::time::Duration,
                period: std::time::Duration,
                missed: $crate::Missed,
                run: F,
            ) -> Result<tidegate_promise::Completion<()>, $crate::PeriodError>
            where
                F: FnMut() + Send + 'static,
            {
                let every = $crate::schedule::Period::rate(period, missed)?;
                $crate::schedule::repeat(&self.shared, first, every, run)
            }

            /// Runs `run` after `first`, and then again `pause` after the end of each run.
            ///
            /// # Errors
            ///
            /// As for [`Self::schedule_at_fixed_rate`].
            pub fn schedule_with_fixed_delay<F>(
                &self,
                first: std::time::Duration,
                pause: std::time::Duration,
                run: F,
            ) -> Result<tidegate_promise::Completion<()>, $crate::PeriodError>
            where
                F: FnMut() + Send + 'static,
            {
                let every = $crate::schedule::Period::delay(pause)?;
                $crate::schedule::repeat(&self.shared, first, every, run)
            }
        }
    };
}
pub(crate) use schedule_methods;

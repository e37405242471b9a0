//! Our own contestants. There are none yet; this is how they come in.
//!
//! 1. Add `tidegate-exec` and `tidegate-promise` to `bench/Cargo.toml`.
//! 2. The loop: a newtype that implements [`LoopContestant`](crate::contest::LoopContestant).
//!
//!    ```ignore
//!    struct Tidegate(EventLoop);
//!    impl LoopContestant for Tidegate {
//!        fn start(name: &str, limit: Limit) -> Self {
//!            let builder = EventLoop::builder(name);
//!            let builder = match limit {
//!                Limit::Own(bound) | Limit::Window(bound) => builder.max_pending_tasks(bound),
//!                Limit::Unbounded => builder.max_pending_tasks(4_000_000), // the burst: at most 3 million tasks
//!            };
//!            Tidegate(builder.build().expect("the set-up is valid"))
//!        }
//!        #[inline]
//!        fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
//!            // A refusal may come early by the running batch: take the task back, yield, try again.
//!            let mut task = task;
//!            while let Err(refused) = self.0.execute(task) {
//!                task = refused.into_task();
//!                std::thread::yield_now();
//!            }
//!        }
//!        fn wakeups(&self) -> Option<u64> { Some(self.0.metrics().wakeups_sent()) }
//!        fn stop(self) { /* shutdown_gracefully with quiet period 0, await_termination */ }
//!    }
//!    ```
//! 3. The promise: a type that implements [`PromiseContestant`](crate::contest::PromiseContestant) (the listener ends in
//!    `observe(value)`; keep an `Option` in `Pending` where listening consumes) and
//!    [`WaitContestant`](crate::contest::WaitContestant).
//! 4. One line in each function below:
//!
//!    ```ignore
//!    let window = Limit::Window(OUTSTANDING); // or Limit::Own(OUTSTANDING): keep the better
//!    lineup.add::<Tidegate>("tidegate", Role::Ours, window, true); // handoff
//!    lineup.add::<Tidegate>("tidegate", Role::Ours, Limit::Unbounded, true); // burst
//!    lineup.push(pingpong::entry::<Tidegate>("tidegate", Role::Ours, Limit::Unbounded, true));
//!    lineup.push(promise::single::<TidegatePromise>("tidegate", Role::Ours));
//!    ```
//!
//! The first row with `Role::Ours` in a table is the one its RATIO lines are about; further rows of ours (another fence,
//! another placement) may follow it, with `Role::Ours` or `Role::Floor`.

use crate::handoff::Lineup;
use crate::rounds::Entry;

/// Ours in `handoff` with at most 65,536 outstanding.
pub(crate) fn handoff(_lineup: &mut Lineup) {}

/// Ours in the unbounded burst.
pub(crate) fn burst(_lineup: &mut Lineup) {}

/// Ours in `pingpong`.
pub(crate) fn pingpong(_lineup: &mut Vec<Entry>) {}

/// Ours in `promise`: one at a time.
pub(crate) fn promise_single(_lineup: &mut Vec<Entry>) {}

/// Ours in `promise`: 100,000 alive.
pub(crate) fn promise_outstanding(_lineup: &mut Vec<Entry>) {}

/// Ours in `promise`: the blocking wait.
pub(crate) fn promise_wait(_lineup: &mut Vec<Entry>) {}

//! A roaming loop as a producer of tasks for a strategy.
//!
//! The strategy owns the producer. The thread that calls `produce` is the event loop's thread during
//! the call. See `core/hand_out.rs` for what runs where.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tidegate_core::internal::PlainTask;
use tidegate_core::{Blocking, RejectReason, Rejected, Task, Unhandled};
use tidegate_pool::ShutdownError;
use tidegate_pool::internal::InterruptFn;
use tidegate_pool::strategy::Producer;

use crate::spawn::slots::LocalFutures;
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::{Drive, Produced, Shared};

/// An event loop as a producer of tasks: what
/// [`RoamingConfig::strategy`](crate::RoamingConfig::strategy) gives to a strategy.
///
/// Its `produce` waits for the next task, and returns `None` when the event loop gives its thread
/// back or has ended. If it is dropped earlier, no thread can drive the event loop any more: the
/// loop ends with [`ShutdownError::BadStrategy`], and its tasks are handed back.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_core::{Blocking, Rejected, Task};
/// use tidegate_loop::{EventLoop, LoopProducer, RoamingConfig};
/// use tidegate_pool::WorkerPool;
/// use tidegate_pool::strategy::{Adaptive, Producer};
///
/// /// Declares every task to be short, whatever it says of itself.
/// struct AllShort(LoopProducer);
///
/// impl Producer for AllShort {
///     fn produce(&mut self) -> Option<Task> {
///         let task = self.0.produce()?;
///         Some(Task::of(Blocking::Never, move || task.run()))
///     }
///
///     fn backlog(&self) -> usize {
///         self.0.backlog()
///     }
///
///     fn refused(&mut self, refused: Rejected<Task>) {
///         self.0.refused(refused);
///     }
/// }
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let config = RoamingConfig::new(pool)
///     .strategy(|producer, pool| Adaptive::new(AllShort(producer), pool));
/// let home = EventLoop::builder("home").build_roaming(&config)?;
/// assert_eq!(home.submit(|| 1 + 1)?.wait()?, 2);
/// assert_eq!(home.strategy().metrics().pc, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LoopProducer {
    /// While no thread drives the event loop, this is only a weak reference.
    shared: Weak<Shared>,
    driving: Option<(Arc<Shared>, Box<dyn Drive>)>,
    /// Present as long as a thread drives the event loop, or may drive on.
    present: Option<Present>,
    manual: bool,
}

/// Counts a driver of an event loop.
struct Present(Arc<AtomicUsize>);

impl Present {
    fn of(shared: &Shared) -> Self {
        shared.drivers.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&shared.drivers))
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LoopProducer {
    pub(super) fn new(shared: &Arc<Shared>, manual: bool) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            driving: None,
            present: None,
            manual,
        }
    }

    fn begin(&mut self) -> Option<()> {
        let shared = self.shared.upgrade()?;
        if !self.manual || shared.thread.lock().is_starting() {
            // A loop that never waits keeps no thread, so a thread that comes by itself is no start.
            shared.arrive(None);
        }
        let mut core = *shared.core.take()?;
        self.present = Some(Present::of(&shared));
        core.begin_producing(&shared, self.manual);
        self.driving = Some((shared, core));
        Some(())
    }

    /// Takes the event loop out for good, whether a thread drives it or not. Returns `None` if it
    /// has ended.
    fn take_loop(&mut self) -> Option<(Arc<Shared>, Box<dyn Drive>)> {
        self.driving.take().or_else(|| {
            let shared = self.shared.upgrade()?;
            let core = *shared.core.take()?;
            Some((shared, core))
        })
    }
}

impl Producer for LoopProducer {
    fn produce(&mut self) -> Option<Task> {
        loop {
            let Some((shared, core)) = &mut self.driving else {
                self.begin()?;
                continue;
            };
            match core.produce(shared) {
                Produced::Task(task) => return Some(task),
                Produced::Nothing => return None,
                Produced::Leave => {
                    let (shared, core) = self.driving.take()?;
                    drop(shared.core.put(Box::new(core)));
                    if !shared.suspend_or_drive_on() {
                        self.present = None;
                        return None;
                    }
                }
                Produced::Over => {
                    let (shared, core) = self.driving.take()?;
                    drop(core);
                    shared.announce_end();
                    return None;
                }
            }
        }
    }

    fn backlog(&self) -> usize {
        self.driving.as_ref().map_or(0, |(_, core)| core.backlog())
    }

    /// A refused task of the driver is dropped, which returns the work to the driver. A submitted
    /// task was accepted and must not be lost: it runs here, where it must not block, unless the
    /// pool is closed.
    fn refused(&mut self, refused: Rejected<Task>) {
        let driving = self.driving.as_ref();
        let of_driver = driving.is_none_or(|(shared, _)| shared.handed_out.is_of_driver());
        if of_driver || refused.why() == RejectReason::Closed {
            drop(refused);
        } else {
            Blocking::forbid(|| refused.into_inner().run());
        }
    }

    fn interrupter(&self) -> Option<InterruptFn> {
        let weak = Weak::clone(&self.shared);
        Some(Box::new(move || {
            if let Some(shared) = weak.upgrade() {
                interrupt(&shared);
            }
        }))
    }
}

/// Ends the wait of an event loop's thread, with a task that does nothing.
fn interrupt(shared: &Shared) {
    let task = PlainTask::of(Blocking::Adapts, || ());
    // If the lane is full, the event loop has work and does not wait.
    if shared.state.get() < Lifecycle::ShuttingDown && shared.mailbox.lane.push(task).is_ok() {
        shared.ring();
    }
}

impl Drop for LoopProducer {
    /// Ends the event loop, unless it has ended: no thread can drive it any more.
    fn drop(&mut self) {
        let Some((shared, mut core)) = self.take_loop() else {
            return;
        };
        // Without a name, the strategy is being built: the error of the builder says what happened.
        let Some(strategy) = shared.thread.strategy_name() else {
            return;
        };
        let unasked = shared.state.get() < Lifecycle::ShuttingDown;
        core.abandon(&shared, &mut LocalFutures::default(), &|handed_back| {
            ShutdownError::BadStrategy {
                name: shared.name.clone(),
                strategy,
                fault: "dropped the loop's producer; it has to keep it until `shutdown`",
                handed_back,
            }
        });
        drop(core);
        shared.announce_end();
        if unasked {
            let message = format!("{strategy} dropped the producer of the loop, which has ended");
            shared.unhandled(&Unhandled::Strategy { message: &message });
        }
    }
}

impl fmt::Debug for LoopProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.shared.upgrade();
        f.debug_struct("LoopProducer")
            .field("loop", &shared.as_ref().map(|shared| &shared.name))
            .field("driving", &self.driving.is_some())
            .finish_non_exhaustive()
    }
}

//! The trait of a queue that a program supplies for a pool, and what such a queue sees of a call.

use crate::bulkhead::partition::Criticality;
use crate::key::Key;

/// A call that waits for a thread, as a [`CallQueue`] sees it. It is a copy: the pool keeps the call
/// itself, so a queue cannot lose it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WaitingCall {
    pub(super) id: u64,
    pub(super) command: Key,
    pub(super) criticality: Criticality,
    pub(super) since_nanos: u64,
}

impl WaitingCall {
    /// Returns the number of the call, which grows with each call of the pool.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the key of the command, since several commands may share a pool.
    pub fn command(&self) -> &Key {
        &self.command
    }

    /// Returns how critical the call is.
    pub fn criticality(&self) -> Criticality {
        self.criticality
    }

    /// Returns when the call was made, in nanoseconds of the isolation's clock.
    pub fn since_nanos(&self) -> u64 {
        self.since_nanos
    }
}

/// The order in which the waiting calls of a pool get a thread, supplied by the program; see
/// [`ConcurrencyStrategy::queue`](crate::ConcurrencyStrategy::queue).
///
/// # Contract
///
/// * Each call that was pushed is popped once, or removed. No other call is popped.
/// * [`CallQueue::len`] is the number of calls that were pushed and neither popped nor removed.
/// * No method blocks or panics. The bound of the queue is the pool's: it is never exceeded.
///
/// A queue that breaks the contract is dropped and reported
/// ([`IsolationBuilder::on_unhandled`](crate::IsolationBuilder::on_unhandled),
/// [`PoolSnapshot::failed_part`](crate::PoolSnapshot::failed_part)). No call is lost: those that
/// wait, and all later ones, run in the order of their arrival. A method counts as blocked after one
/// second.
///
/// # Threads
///
/// All methods are called on threads of the pool, one at a time, with no lock held. A call that
/// arrives or leaves is passed on when a thread is free to take the next one.
///
/// ```
/// use tidegate_isolate::{
///     CallQueue, Command, ConcurrencyStrategy, Isolation, PoolConfig, WaitingCall,
/// };
///
/// /// The newest call first.
/// #[derive(Default)]
/// struct Stack(Vec<WaitingCall>);
///
/// impl CallQueue for Stack {
///     fn push(&mut self, call: WaitingCall) {
///         self.0.push(call);
///     }
///     fn pop(&mut self) -> Option<WaitingCall> {
///         self.0.pop()
///     }
///     fn remove(&mut self, call: &WaitingCall) {
///         self.0.retain(|one| one != call);
///     }
///     fn len(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// let isolation = Isolation::builder()
///     .concurrency_strategy(|pool| match &**pool {
///         "prices" => ConcurrencyStrategy::default().queue(Stack::default()),
///         _ => ConcurrencyStrategy::default(), // the built-in parts
///     })
///     .build()?;
/// let prices: Command<u32, String> = Command::builder("prices")
///     .group("catalog")
///     .threads(PoolConfig { core: 2, queue: 100, ..PoolConfig::default() })
///     .build(&isolation)?;
/// assert_eq!(prices.run(|_cancel| Ok(42)), Ok(42));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
pub trait CallQueue: Send + 'static {
    /// Adds a call.
    fn push(&mut self, call: WaitingCall);

    /// Removes and returns the call that gets the next thread.
    fn pop(&mut self) -> Option<WaitingCall>;

    /// Removes a call that no longer waits, because it timed out, was cancelled or was displaced.
    fn remove(&mut self, call: &WaitingCall);

    /// Returns the number of calls.
    fn len(&self) -> usize;

    /// Returns `true` if there are no calls.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

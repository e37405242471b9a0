//! Unit tests of the block's internals: size, state bits, inline slot and queue.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};

use tidegate_core::executor::{ExecutorId, Signal};
use tidegate_core::internal::prim::Ordering;
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task, Unhandled};

use super::listener::Listener;
use super::state::{DONE, INLINE, LISTENER, NOTIFYING, READER, WRITER};
use super::storage::{Block, BlockPtr, SWEEP_AFTER};
use super::{Reader, Writer, block};
use crate::Outcome;

type Log = Arc<Mutex<Vec<u32>>>;

const ABANDONED: u32 = 99;

fn ends() -> (Writer<u32, u32>, Reader<u32, u32>) {
    block(None, || ABANDONED)
}

fn note(log: &Log, what: u32) -> impl FnOnce(Outcome<&u32, &u32>) + Send + 'static {
    let log = Arc::clone(log);
    move |_| held(&log).push(what)
}

fn held<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock()
        .expect("no thread panics while it holds the lock")
}

fn state<T: Send, E: Send>(block: BlockPtr<T, E>) -> u32 {
    block.get().state.load(Ordering::Relaxed)
}

/// Counts the nodes in the inbox and in the queue, including removed ones.
fn nodes(block: BlockPtr<u32, u32>) -> usize {
    block.get().nodes.count()
}

/// A test executor that delivers signals in place, keeps them, or refuses them.
struct TestExecutor {
    id: ExecutorId,
    clock: Clock,
    how: How,
    kept: Mutex<Vec<Signal>>,
    unhandled: Mutex<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    OnTheSpot,
    Keeps,
    Refuses,
    /// Refuses, and panics in its `unhandled` handler.
    Panics,
}

impl TestExecutor {
    fn new(how: How) -> Arc<Self> {
        Arc::new(Self {
            id: ExecutorId::next(),
            clock: Clock::system(),
            how,
            kept: Mutex::default(),
            unhandled: Mutex::default(),
        })
    }
}

impl Executor for TestExecutor {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        Err(Rejected::new(task, RejectReason::Unsupported))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        match self.how {
            How::OnTheSpot => signal.deliver(),
            How::Keeps => held(&self.kept).push(signal),
            How::Refuses | How::Panics => return Err(Rejected::new(signal, RejectReason::Closed)),
        }
        Ok(())
    }

    fn is_current(&self) -> bool {
        false
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        "odd"
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        held(&self.unhandled).push(what.to_string());
        assert!(self.how != How::Panics, "on purpose");
    }
}

#[test]
fn a_promise_of_a_word_fits_two_cache_lines() {
    assert!(size_of::<Block<u64, Arc<u64>>>() <= 128);
    assert!(size_of::<Block<(), Arc<u64>>>() <= 128);
    assert_eq!(size_of::<Listener>(), 4 * size_of::<usize>());
    assert_eq!(size_of::<Writer<u64, u64>>(), size_of::<usize>());
}

#[test]
fn goes_from_open_to_done_to_settled() {
    let (writer, mut reader) = ends();
    let block = reader.block();
    assert_eq!(state(block), WRITER | READER);
    reader.listen(|_| ());
    assert_eq!(state(block), WRITER | READER | LISTENER | INLINE);
    writer.complete(Ok(1)).unwrap();
    assert_eq!(state(block), DONE | READER);
    assert_eq!(reader.try_take(), Some(Outcome::Success(1)));
    assert_eq!(reader.try_take(), None);
}

#[test]
fn is_not_settled_while_it_is_on_its_way_home() {
    let home = TestExecutor::new(How::Keeps);
    let (writer, mut reader) = block::<u32, u32>(Some(home.clone()), || ABANDONED);
    reader.listen(|_| ());
    writer.complete(Ok(1)).unwrap();
    assert_eq!(state(reader.block()), DONE | READER | NOTIFYING);
    assert!(reader.is_done() && reader.try_take().is_none());
    reader.listen(|_| ());
    assert_eq!(state(reader.block()), DONE | READER | NOTIFYING | LISTENER);
    let kept = std::mem::take(&mut *home.kept.lock().unwrap());
    assert_eq!(kept.len(), 1, "it travels once");
    kept.into_iter().for_each(Signal::deliver);
    assert_eq!(state(reader.block()), DONE | READER);
    assert_eq!(reader.try_take(), Some(Outcome::Success(1)));
}

#[test]
fn the_slot_is_reused_only_by_wakers_without_successors() {
    let (writer, mut reader) = ends();
    let log = Log::default();
    for _ in 0..3 {
        assert!(reader.poll(Waker::noop()).is_pending());
        assert_eq!(state(reader.block()) & INLINE, INLINE);
        reader.remove_waker();
        assert_eq!(state(reader.block()), WRITER | READER);
    }
    assert!(reader.poll(Waker::noop()).is_pending());
    reader.listen(note(&log, 1));
    reader.remove_waker();
    assert_eq!(state(reader.block()), WRITER | READER | LISTENER);
    reader.listen(note(&log, 2));
    assert_eq!(nodes(reader.block()), 2);
    writer.complete(Ok(1)).unwrap();
    assert_eq!(*log.lock().unwrap(), [1, 2]);
}

#[test]
fn a_removed_inline_listener_leaves_no_trace_in_the_state() {
    let (writer, reader) = ends();
    let token = reader.listen(|_| ()).unwrap();
    assert!(reader.remove(&token));
    assert_eq!(state(reader.block()), WRITER | READER);
    assert!(!reader.remove(&token));
    let log = Log::default();
    reader.listen(note(&log, 1));
    assert!(!reader.remove(&token), "a stale token matches no listener");
    writer.complete(Ok(1)).unwrap();
    assert_eq!(*log.lock().unwrap(), [1]);
}

#[test]
fn a_token_of_another_block_does_not_remove_the_waker_in_the_slot() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let (writer, mut reader) = ends();
    let (_other, foreign) = ends();
    let token = foreign.listen(|_| ()).unwrap();
    let woken = Arc::new(Count(AtomicUsize::new(0)));
    assert!(reader.poll(&Waker::from(Arc::clone(&woken))).is_pending());
    assert!(!reader.remove(&token));
    writer.complete(Ok(1)).unwrap();
    assert_eq!(woken.0.load(Relaxed), 1);
}

#[test]
fn removed_nodes_are_swept_and_the_others_keep_their_order() {
    let (writer, reader) = ends();
    let log = Log::default();
    reader.listen(note(&log, 0));
    let block = reader.block();
    let reader = reader
        .share()
        .unwrap_or_else(|_| panic!("nothing was taken"));
    let mut expected = vec![0];
    for n in 1..=1_000 {
        let token = reader.listen(note(&log, n));
        if n % 10 == 0 {
            expected.push(n);
        } else {
            assert!(reader.remove(&token));
        }
        assert!(nodes(block) <= 2 * expected.len() + usize::from(SWEEP_AFTER));
    }
    assert_eq!(state(block), WRITER | READER | LISTENER | INLINE);
    writer.complete(Ok(1)).unwrap();
    assert_eq!(*log.lock().unwrap(), expected);
    assert_eq!(nodes(block), 0);
}

#[test]
fn a_removed_listener_is_dropped_at_once_and_its_node_later() {
    let (_writer, reader) = ends();
    let reader = reader
        .share()
        .unwrap_or_else(|_| panic!("nothing was taken"));
    let captured = Arc::new(());
    let inner = Arc::clone(&captured);
    let token = reader.listen(move |_| drop(inner));
    assert!(reader.remove(&token));
    assert_eq!(Arc::strong_count(&captured), 1);
    assert_eq!(nodes(reader.block()), 1);
}

#[test]
fn an_executor_that_delivers_on_the_spot_does_not_deepen_the_stack() {
    let home = TestExecutor::new(How::OnTheSpot);
    let notified = Arc::new(AtomicUsize::new(0));
    let make = || block::<u32, u32>(Some(home.clone() as _), || ABANDONED);
    let (first, mut reader) = make();
    for _ in 0..50_000 {
        let (writer, next) = make();
        let notified = Arc::clone(&notified);
        reader.finish(move |_| {
            notified.fetch_add(1, Relaxed);
            writer.complete(Ok(1)).unwrap();
        });
        reader = next;
    }
    first.complete(Ok(1)).unwrap();
    assert_eq!(notified.load(Relaxed), 50_000);
}

#[test]
fn a_refused_signal_calls_the_listeners_here_and_reports() {
    for how in [How::Refuses, How::Panics] {
        let home = TestExecutor::new(how);
        let (writer, reader) = block::<u32, u32>(Some(home.clone()), || ABANDONED);
        let log = Log::default();
        let panicking = note(&log, 1);
        reader.listen(move |outcome| {
            panicking(outcome);
            panic!("on purpose");
        });
        reader.listen(note(&log, 2));
        writer.complete(Ok(1)).unwrap();
        assert_eq!(*log.lock().unwrap(), [1, 2]);
        let reports = home.unhandled.lock().unwrap().len();
        assert_eq!(reports, 2, "that it fell back, and the panic");
        drop(reader);
        assert_eq!(Arc::strong_count(&home), 1, "nothing is left behind");
    }
}

#[test]
fn a_late_cancel_hook_that_panics_is_contained_and_reported() {
    let home = TestExecutor::new(How::OnTheSpot);
    let (writer, reader) = block::<u32, u32>(Some(home.clone()), || ABANDONED);
    assert!(reader.cancel());
    writer.on_cancel(Task::new(|| panic!("on purpose")));
    let (writer, _reader) = block::<u32, u32>(Some(home.clone()), || ABANDONED);
    let bad = Bad;
    writer.on_cancel(Task::new(move || drop(bad)));
    writer.on_cancel(Task::new(|| ()));
    let expected = [
        "a listener panicked: on purpose",
        "a listener panicked: worse",
    ];
    assert_eq!(*held(&home.unhandled), expected);
}

/// Panics when it is dropped.
struct Bad;
impl Drop for Bad {
    fn drop(&mut self) {
        panic!("worse");
    }
}

#[test]
fn a_payload_whose_drop_panics_is_contained_too() {
    let (writer, reader) = ends();
    let log = Log::default();
    reader.listen(|_| std::panic::panic_any(Bad));
    reader.listen(note(&log, 1));
    writer.complete(Ok(1)).unwrap();
    assert_eq!(*log.lock().unwrap(), [1]);
}

#[test]
fn a_hook_is_dropped_with_the_decision_and_run_only_by_a_cancellation() {
    let captured = Arc::new(AtomicUsize::new(0));
    let hook = || {
        let captured = Arc::clone(&captured);
        Task::new(move || {
            captured.fetch_add(1, Relaxed);
        })
    };
    let (writer, reader) = ends();
    writer.on_cancel(hook());
    writer.complete(Ok(1)).unwrap();
    assert_eq!(Arc::strong_count(&captured), 1);
    drop(reader);
    let (writer, reader) = ends();
    drop(reader);
    writer.on_cancel(hook());
    writer.complete(Ok(1)).unwrap();
    assert_eq!(Arc::strong_count(&captured), 1);
    let (writer, reader) = ends();
    writer.on_cancel(hook());
    assert!(reader.cancel());
    assert_eq!(
        (captured.load(Relaxed), Arc::strong_count(&captured)),
        (1, 1)
    );
    writer.on_cancel(hook());
    assert_eq!(
        (captured.load(Relaxed), Arc::strong_count(&captured)),
        (2, 1)
    );
    let (writer, _reader) = ends();
    writer.on_cancel(hook());
    writer.cancel();
    assert_eq!(captured.load(Relaxed), 3);
}

#[test]
fn a_poll_after_the_outcome_was_taken_says_so() {
    let (writer, mut reader) = ends();
    assert!(reader.poll(Waker::noop()).is_pending());
    writer.complete(Err(3)).unwrap();
    assert_eq!(
        reader.poll(Waker::noop()),
        Poll::Ready(Some(Outcome::Failure(3)))
    );
    assert_eq!(reader.poll(Waker::noop()), Poll::Ready(None));
    assert!(reader.is_taken() && reader.peek().is_none() && reader.listen(|_| ()).is_none());
    assert!(reader.share().is_err());
}

#[test]
fn memory_of_blocks_is_recycled_by_their_thread() {
    if cfg!(any(tidegate_sanitize, miri)) {
        return;
    }
    let (writer, reader) = ends();
    let first = reader.block().addr();
    drop((writer, reader));
    let (_writer, reader) = ends();
    assert_eq!(reader.block().addr(), first);
}

/// A thread may end the promises of others for ever: their memory must not pile up there.
#[test]
fn a_thread_keeps_no_more_memory_than_it_has_allocated() {
    if cfg!(any(tidegate_sanitize, miri)) {
        return;
    }
    let of_others: Vec<_> = (0..1_000).map(|_| ends()).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(of_others);
            assert_eq!(super::memory::free_blocks(), 64);
            drop((0..200).map(|_| ends()).collect::<Vec<_>>());
            assert_eq!(super::memory::free_blocks(), 200);
        });
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_reader_asleep_on_its_block_is_woken_each_time_and_the_block_reused() {
    let (send, receive) = std::sync::mpsc::channel::<(u32, Writer<u32, u32>)>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (round, writer) in receive {
                match round % 3 {
                    0 => drop(writer.complete(Ok(round))),
                    1 => writer.cancel(),
                    _ => drop(writer),
                }
            }
        });
        for round in 0..3_000 {
            let (writer, mut reader) = block::<u32, u32>(None, || 99);
            if round % 2 == 0 {
                reader.listen(|_| ());
            }
            send.send((round, writer))
                .expect("the other thread listens");
            assert!(reader.sleep());
            let expected = match round % 3 {
                0 => Outcome::Success(round),
                1 => Outcome::Cancelled,
                _ => Outcome::Failure(99),
            };
            assert_eq!(reader.try_take(), Some(expected));
        }
        drop(send);
    });
}

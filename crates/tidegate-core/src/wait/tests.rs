//! A wait that could never end is refused, and the error names the executors of the cycle.

use std::sync::Arc;

use super::record::{Place, Target, lock};
use super::*;
use crate::Blocking;
use crate::executor::{Executor, ExecutorId, Need, WaitPolicy, Work, enter};
use crate::permits::Permits;
use crate::raw::working::run_task_of_promise;
use crate::testing::StubExecutor;

/// Records a wait of one of `from`'s threads for `to`. All waits of a test are made on the test's
/// own thread, because the record is kept per executor.
fn wait(from: &Arc<StubExecutor>, to: &Arc<StubExecutor>) -> Result<WaitGuard, WaitRefusedError> {
    let _mark = enter(Arc::clone(from) as _, WaitPolicy::Loop);
    Blocking::allow(|| check_wait(Some(&**to)))
}

#[test]
fn two_executors_in_a_circle_are_refused_by_name() {
    let (a, b) = (StubExecutor::new("a", 1), StubExecutor::new("b", 1));
    let _first = wait(&a, &b).expect("b is free");
    let refused = wait(&b, &a).unwrap_err();
    assert!(refused.is_deadlock());
    assert_eq!(refused.names(), ["b", "a"]);
    let text =
        "this wait would be a deadlock: b waits for a, a waits for b; await or listen instead";
    assert_eq!(refused.to_string(), text);
}

#[test]
fn three_executors_in_a_circle_are_refused_by_name() {
    let [a, b, c] = ["a", "b", "c"].map(|name| StubExecutor::new(name, 1));
    let _first = wait(&a, &b).expect("b is free");
    let _second = wait(&b, &c).expect("c is free");
    let refused = wait(&c, &a).unwrap_err();
    assert!(refused.is_deadlock());
    assert_eq!(refused.names(), ["c", "a", "b"]);
}

#[test]
fn a_chain_without_a_circle_is_allowed() {
    let [a, b, c] = ["a", "b", "c"].map(|name| StubExecutor::new(name, 1));
    let _held = [
        wait(&a, &b).expect("no circle"),
        wait(&b, &c).expect("no circle"),
    ];
    let other = StubExecutor::new("d", 1);
    drop(wait(&other, &a).expect("no thread waits for d"));
}

#[test]
fn an_executor_of_one_thread_cannot_wait_for_itself() {
    let a = StubExecutor::new("a", 1);
    let refused = wait(&a, &a).unwrap_err();
    assert!(refused.is_deadlock());
    assert_eq!(refused.names(), ["a"]);
    let text = "this wait would be a deadlock: a waits for a; await or listen instead";
    assert_eq!(refused.to_string(), text);
}

#[test]
fn a_width_that_changes_while_a_wait_is_checked_counts() {
    let a = StubExecutor::narrowing("a", 2, Some(1));
    let refused = wait(&a, &a).unwrap_err();
    assert_eq!(refused.names(), ["a"]);
}

#[test]
fn a_pool_of_two_may_wait_for_itself_once() {
    let pool = StubExecutor::new("pool", 2);
    let first = wait(&pool, &pool).expect("the other thread is free");
    assert!(wait(&pool, &pool).unwrap_err().is_deadlock());
    drop(first);
    drop(wait(&pool, &pool).expect("both are free again"));
}

#[test]
fn fewer_threads_than_waits_rely_on_are_refused() {
    let (pool, other) = (StubExecutor::new("pool", 3), StubExecutor::new("other", 1));
    let first = wait(&pool, &pool).expect("two threads are free");
    let mut narrowed = false;
    change_width(pool.id(), 2, 2, || narrowed = true).expect("one thread is free");
    assert!(narrowed);
    let refused = change_width(pool.id(), 1, 1, || unreachable!("it is refused")).unwrap_err();
    assert_eq!(refused.names(), ["pool"]);
    drop(first);
    change_width(pool.id(), 1, 1, || ()).expect("no thread waits");
    // The same through another executor.
    let _to = wait(&pool, &other).expect("it does not wait");
    let _back = wait(&other, &pool).expect("two threads are free");
    let refused = change_width(pool.id(), 1, 1, || unreachable!("it is refused")).unwrap_err();
    assert_eq!(refused.names(), ["pool", "other"]);
}

#[test]
fn more_threads_open_a_circle_for_the_next_wait() {
    let (pool, other) = (StubExecutor::new("pool", 1), StubExecutor::new("other", 1));
    let _to = wait(&pool, &other).expect("it does not wait");
    assert!(wait(&other, &pool).is_err());
    change_width(pool.id(), 2, 2, || ()).expect("more are never too few");
    drop(wait(&other, &pool).expect("a thread of the pool is free"));
}

#[test]
fn a_free_thread_on_the_way_opens_the_circle() {
    let (a, pool) = (StubExecutor::new("a", 1), StubExecutor::new("pool", 2));
    let _one = wait(&pool, &a).expect("a is free");
    let held = wait(&a, &pool).expect("the pool has a free thread");
    let refused = wait(&pool, &a).unwrap_err();
    assert_eq!(refused.names(), ["pool", "a"]);
    drop(held);
    drop(wait(&pool, &a).expect("a does not wait any more"));
}

#[test]
fn a_dropped_guard_takes_its_edge_out() {
    let (a, b) = (StubExecutor::new("a", 1), StubExecutor::new("b", 1));
    for _ in 0..3 {
        drop(wait(&a, &b).expect("b is free"));
        drop(wait(&b, &a).expect("a is free"));
    }
    let record = lock();
    assert!(!record.waiting.contains_key(&a.id()) && !record.waiting.contains_key(&b.id()));
}

#[test]
fn a_refused_wait_leaves_no_edge() {
    let (a, b) = (StubExecutor::new("a", 1), StubExecutor::new("b", 1));
    let first = wait(&a, &b).expect("b is free");
    drop(wait(&b, &a).unwrap_err());
    drop(first);
    drop(wait(&a, &b).expect("the refused wait is forgotten"));
    assert!(!lock().waiting.contains_key(&b.id()));
}

#[test]
fn a_loop_must_not_wait_at_all() {
    let (a, b) = (StubExecutor::new("a", 1), StubExecutor::new("b", 1));
    let _mark = enter(Arc::clone(&a) as _, WaitPolicy::Loop);
    let refused = check_wait(Some(&*b)).unwrap_err();
    assert!(!refused.is_deadlock());
    assert_eq!(refused.names(), ["a", "b"]);
    let text = refused.to_string();
    assert!(text.starts_with("a, an event loop, must not block to wait for a promise of b"));
    assert!(Blocking::allow(|| check_wait(Some(&*b)).is_ok()));
    assert!(check_wait(Some(&*b)).is_err(), "only inside the escape");
}

#[test]
fn a_tagged_thread_must_not_wait_at_all() {
    let home = StubExecutor::new("home", 1);
    Blocking::forbid(|| {
        let refused = check_wait(Some(&*home)).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("a thread tagged non-blocking, must not block"));
        assert!(text.contains("a promise of home"));
        assert_eq!(refused.names()[1], "home");
        assert!(Blocking::allow(|| check_wait(Some(&*home)).is_ok()));
    });
    assert!(check_wait(Some(&*home)).is_ok());
}

#[test]
fn a_plain_thread_may_wait_for_anything() {
    let home = StubExecutor::new("home", 1);
    let _twice = [check_wait(Some(&*home)), check_wait(Some(&*home))];
    assert!(check_wait(None).is_ok());
    assert!(lock().waiting.keys().all(|id| *id != home.id()));
}

/// Records a wait of one of `from`'s threads for the end of `to`.
fn wait_for_end(
    from: &Arc<StubExecutor>,
    to: &Arc<StubExecutor>,
) -> Result<WaitGuard, WaitRefusedError> {
    let end = StubExecutor::end_of(to);
    wait(from, &end)
}

#[test]
fn the_end_of_an_executor_needs_all_its_threads() {
    let (pool, other) = (StubExecutor::new("pool", 8), StubExecutor::new("other", 1));
    let refused = wait_for_end(&pool, &pool).unwrap_err();
    assert_eq!(refused.names(), ["pool"]);
    drop(wait_for_end(&other, &pool).expect("no job of the pool waits"));
    // Through another executor: seven threads are free, and the eighth keeps the pool from ending.
    let held = wait(&pool, &other).expect("it does not wait");
    let refused = wait_for_end(&other, &pool).unwrap_err();
    assert_eq!(refused.names(), ["other", "pool"]);
    drop(held);
    let _held = wait_for_end(&other, &pool).expect("no job of the pool waits");
    assert_eq!(wait(&pool, &other).unwrap_err().names(), ["pool", "other"]);
}

#[test]
fn many_waits_of_many_executors_are_searched_once() {
    let layers: Vec<_> = (0..24).map(|_| StubExecutor::new("layer", 8)).collect();
    let mut held = Vec::new();
    for pair in layers.windows(2) {
        held.extend((0..8).map(|_| wait(&pair[0], &pair[1]).expect("no circle")));
    }
    let first = StubExecutor::new("first", 1);
    held.push(wait(&first, &layers[0]).expect("no circle"));
    let _last = wait(&layers[23], &first).expect("seven threads of the last layer are free");
}

#[test]
fn a_gate_is_stuck_only_if_all_holders_of_its_permits_are() {
    let [first, second, other] = [(); 3].map(|()| ExecutorId::next());
    let (one, two) = (Permits::new(1), Permits::new(2));
    let held = (one.try_acquire(), two.try_acquire(), two.try_acquire());
    let of = |gate, permits: &Permits| [(gate, Capacity::Permits(permits.clone()))];
    // One holder of the second gate waits for a gate that others serve.
    let leaves = record_wait(of(second, &two), other).expect("nothing waits");
    let _waits = record_wait(of(second, &two), first).expect("its permit may come back");
    drop(record_wait(of(first, &one), second).expect("one holder comes back"));
    drop(leaves);
    let _stays = record_wait(of(second, &two), second).expect("the other holder comes back");
    assert!(record_wait(of(first, &one), second).is_err(), "none does");
    drop(held);
}

#[test]
fn a_whole_place_is_stuck_by_any_of_its_waits() {
    let [run, next, last] = [(); 3].map(|()| ExecutorId::next());
    let inside = |run| [(run, Capacity::Whole)];
    assert!(record_wait([], run).expect("it works for none").is_empty());
    assert!(record_wait(inside(run), run).is_err(), "itself");
    let _first = record_wait(inside(run), next).expect("no circle");
    let _also = record_wait(inside(run), last).expect("no circle");
    let both = record_wait([inside(next), inside(last)].concat(), ExecutorId::next());
    assert_eq!(both.expect("no circle").len(), 2);
    assert!(
        record_wait(inside(last), run).is_err(),
        "through one of two"
    );
}

/// Records a wait of one of `from`'s threads for a task of `to`, whose promise is at `task`.
fn wait_for_task(
    from: &Arc<StubExecutor>,
    to: &Arc<StubExecutor>,
    (task, started): (usize, bool),
    endless: bool,
) -> Result<WaitGuard, WaitRefusedError> {
    let _mark = enter(Arc::clone(from) as _, WaitPolicy::Free);
    let awaited = Awaited {
        promise: Some(task),
        work: Work::Submitted,
        endless,
    };
    check_wait_for(Some(&**to), awaited, || started)
}

#[test]
fn a_task_that_runs_needs_no_other_thread() {
    let (pool, other) = (StubExecutor::new("pool", 1), StubExecutor::new("other", 1));
    assert!(wait_for_task(&pool, &pool, (8, false), true).is_err());
    drop(wait_for_task(&pool, &pool, (8, true), true).expect("another thread runs it"));
    // The same through another executor, for a task that starts after the wait was recorded.
    let _waits = wait_for_task(&other, &pool, (16, false), true).expect("the pool is free");
    assert!(wait(&pool, &other).is_err());
    needs_nothing(24);
    assert!(wait(&pool, &other).is_err(), "another task has started");
    needs_nothing(16);
    drop(wait(&pool, &other).expect("the task runs on another thread"));
}

#[test]
fn the_thread_of_a_task_closes_a_circle_though_its_pool_has_others() {
    let (one, many) = (StubExecutor::new("one", 1), StubExecutor::new("many", 4));
    let _waits = wait_for_task(&one, &many, (8, false), true).expect("it has threads");
    needs_nothing(8);
    drop(wait(&many, &one).expect("another task of the pool"));
    let refused = run_task_of_promise(8, || wait(&many, &one));
    let refused = refused.unwrap().unwrap_err();
    assert_eq!(refused.names(), ["many", "one"]);
    // In a task inside that task as well, as a pool whose policy is to run tasks in place has it.
    let inside = || run_task_of_promise(16, || wait(&many, &one)).unwrap();
    assert!(run_task_of_promise(8, inside).unwrap().is_err());
}

#[test]
fn a_thread_that_waits_in_a_view_is_a_waiting_thread_of_the_pool() {
    let (pool, view) = (StubExecutor::new("pool", 2), StubExecutor::new("view", 1));
    let in_view = || {
        let _pool = enter(Arc::clone(&pool) as _, WaitPolicy::Free);
        wait(&view, &pool)
    };
    let first = wait(&pool, &pool).expect("the other thread is free");
    let refused = in_view().unwrap_err();
    assert_eq!(refused.names(), ["view", "pool"]);
    drop(first);
    let _held = in_view().expect("the other thread is free");
    assert!(wait(&pool, &pool).is_err());
}

#[test]
fn a_wait_with_a_limit_makes_nothing_stuck_and_is_refused_if_only_its_limit_ends_it() {
    let (one, two) = (StubExecutor::new("one", 1), StubExecutor::new("two", 1));
    let limited = |from, to| wait_for_task(from, to, (8, false), false);
    let _until = limited(&one, &two).expect("two is free");
    let _waits = wait(&two, &one).expect("the wait of one ends");
    let refused = limited(&one, &two).unwrap_err();
    assert_eq!(refused.names(), ["one", "two"]);
}

#[test]
fn a_refused_wait_is_never_seen_by_others() {
    let pool = StubExecutor::new("pool", 1);
    let place = Place {
        id: pool.id(),
        name: "pool".to_owned(),
        capacity: Capacity::Threads { width: 1, most: 1 },
    };
    let mut record = lock();
    let needs = Target::needing(Need::thread_of(pool.id()));
    let admitted = record.admit(&[place], needs, true);
    assert!(admitted.is_err() && !record.waiting.contains_key(&pool.id()));
    drop(record);
    // A width that grows is not refused, whatever waits.
    let (wide, other) = (StubExecutor::new("wide", 2), StubExecutor::new("other", 1));
    let _waits = wait(&wide, &other).expect("it is free");
    for (width, most) in [(1, 2), (1, 1), (2, 2)] {
        change_width(wide.id(), width, most, || ()).expect("its wait ends");
    }
}

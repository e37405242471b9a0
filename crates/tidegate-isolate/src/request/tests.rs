//! Contexts nest, end once, and keep a bounded log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::{Event, EventSet, Key};

#[test]
fn leaving_a_context_restores_the_one_before() {
    let (outer, inner) = (RequestContext::new(), RequestContext::new());
    let is = |context: &RequestContext| {
        RequestContext::current().is_some_and(|now| Arc::ptr_eq(&now.shared, &context.shared))
    };
    let entered = outer.enter();
    {
        let _inside = inner.enter();
        assert!(is(&inner));
    }
    assert!(is(&outer));
    drop(entered);
    assert!(RequestContext::current().is_none());
}

#[test]
fn every_variable_ends_once_even_if_one_panics() {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = |ended: &Arc<AtomicUsize>| {
        let ended = Arc::clone(ended);
        move |_: &u32| {
            ended.fetch_add(1, Ordering::Relaxed);
        }
    };
    let one = RequestVariable::new(|| 1).on_end(count(&ended));
    let bad = RequestVariable::new(|| 2).on_end(|_| panic!("on purpose"));
    let two = RequestVariable::new(|| 3).on_end(count(&ended));
    let unused = RequestVariable::new(|| 4).on_end(count(&ended));
    let request = RequestContext::new();
    {
        let _entered = request.enter();
        for variable in [&one, &bad, &two] {
            variable.get().unwrap();
        }
    }
    request.end();
    request.end();
    assert_eq!(ended.load(Ordering::Relaxed), 2);
    assert_eq!(unused.get(), Err(NoContextError));
}

#[test]
fn the_log_is_bounded_and_groups_equal_calls() {
    let request = RequestContext::new();
    let call = |command: &str, ms| LogEntry {
        command: command.into(),
        events: EventSet::of(&[Event::Success]),
        took: Duration::from_millis(ms),
    };
    request.note(call("a", 5));
    request.note(call("b", 1));
    request.note(call("a", 7));
    assert_eq!(request.log_text(), "a[SUCCESS][12ms]x2, b[SUCCESS][1ms]");
    for _ in 0..MOST_LOGGED {
        request.note(call("a", 0));
    }
    assert_eq!((request.log().len(), request.unlogged()), (MOST_LOGGED, 3));
}

#[test]
fn one_caller_makes_what_is_cached() {
    let request = RequestContext::new();
    let (key, owner) = (Key::from("k"), CacheOwner::new());
    let cached = |value: u32| {
        let cached = request.cached(owner, (&key, "x"), || (value, "made"));
        cached.map_err(|(made, _)| made)
    };
    assert_eq!(cached(1), Err("made"));
    assert_eq!(cached(2), Ok(1));
    assert!(request.clear_cached(&key, "x") && !request.clear_cached(&key, "x"));
    assert_eq!(cached(3), Err("made"));
}

#[test]
fn owners_of_one_key_have_entries_of_their_own() {
    let request = RequestContext::new();
    let key = Key::from("k");
    let (one, other) = (CacheOwner::new(), CacheOwner::new());
    let put = |owner, value: u32| request.cached(owner, (&key, "x"), || (value, ()));
    let Err(((), first)) = put(one, 1) else {
        panic!("nothing was there");
    };
    // The entry of the other owner has another type, too.
    let text = request.cached(other, (&key, "x"), || ("text", ()));
    assert!(text.is_err());
    assert_eq!(put(one, 2), Ok(1), "it was not overwritten");
    assert!(request.forget(one, (&key, "x"), |_| true));
    let Err(((), second)) = put(one, 3) else {
        panic!("it was forgotten");
    };
    assert!(!request.forget(one, (&key, "x"), |number| number == first));
    assert_eq!(put(one, 4), Ok(3), "the later entry stays");
    assert!(request.forget(one, (&key, "x"), |number| number == second));
    assert!(
        request.clear_cached(&key, "x"),
        "the other's is still there"
    );
}

//! A thread knows the executor whose work it runs, and the guard restores the previous one.

use std::sync::Arc;

use super::current::*;
use super::traits::Executor;
use crate::Blocking;
use crate::contain::contain;
use crate::testing::StubExecutor;

fn name() -> Option<String> {
    current_executor().map(|executor| executor.name().to_owned())
}

#[test]
fn nested_drivers_restore_the_previous_one() {
    let (outer, inner) = (StubExecutor::new("outer", 1), StubExecutor::new("inner", 1));
    assert_eq!((name(), wait_policy()), (None, WaitPolicy::Free));
    {
        let _outer = enter(Arc::clone(&outer) as _, WaitPolicy::Loop);
        assert!(outer.is_current() && !inner.is_current());
        {
            let _inner = enter(Arc::clone(&inner) as _, WaitPolicy::Free);
            assert!(inner.is_current() && !outer.is_current());
            assert_eq!(name().as_deref(), Some("inner"));
            assert_eq!(wait_policy(), WaitPolicy::Free);
        }
        assert_eq!(name().as_deref(), Some("outer"));
        assert_eq!(wait_policy(), WaitPolicy::Loop);
        assert!(is_current(outer.id()));
    }
    assert_eq!((name(), wait_policy()), (None, WaitPolicy::Free));
    assert_eq!(Arc::strong_count(&outer), 1);
}

#[test]
fn a_panic_restores_the_previous_one() {
    let one = StubExecutor::new("one", 1);
    let caught = contain(|| {
        let _mark = enter(Arc::clone(&one) as _, WaitPolicy::Loop);
        Blocking::forbid(|| Blocking::allow(|| panic!("on purpose")))
    });
    assert!(caught.is_err());
    assert_eq!((name(), wait_policy()), (None, WaitPolicy::Free));
}

#[test]
fn tags_nest() {
    Blocking::forbid(|| {
        Blocking::allow(|| {
            assert_eq!(wait_policy(), WaitPolicy::Free);
            Blocking::forbid(|| assert_eq!(wait_policy(), WaitPolicy::Tagged));
            assert_eq!(wait_policy(), WaitPolicy::Free);
        });
        assert_eq!(wait_policy(), WaitPolicy::Tagged);
    });
    assert_eq!(wait_policy(), WaitPolicy::Free);
}

#[test]
fn a_mark_is_of_its_thread_only() {
    let one = StubExecutor::new("one", 1);
    let _mark = enter(Arc::clone(&one) as _, WaitPolicy::Loop);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(current_executor().is_none() && !one.is_current());
            assert_eq!(wait_policy(), WaitPolicy::Free);
        });
    });
}

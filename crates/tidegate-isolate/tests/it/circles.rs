//! Waits that could never end are refused.

use tidegate_isolate::{Cause, Refused};

use crate::support::{builder, pool_of, still};

#[test]
fn a_command_inside_its_own_run_does_not_wait_for_itself() {
    let (_clock, isolation) = still();
    let build = |key: &str| {
        let command = builder(key).threads(pool_of(1, 4)).no_timeout();
        command.build(&isolation).unwrap()
    };
    let (a, b) = (build("a"), build("b"));
    // Directly, by either way to wait.
    let inner = a.clone();
    let answer = a.run(move |_| {
        let error = inner.run(|_| Ok(1)).unwrap_err();
        assert_eq!(error.cause(), &Cause::Rejected(Refused::Circle));
        let error = inner.queue(|_| Ok(1)).wait().unwrap_err();
        assert!(error.is_refused(), "{error}");
        assert_eq!(inner.snapshot().config.pool.core, 1);
        Ok(2)
    });
    assert_eq!(answer, Ok(2));
    // Through another command, whose only thread waits meanwhile.
    let (middle, last) = (b.clone(), a.clone());
    let answer = a.run(move |_| {
        let answer = middle.run(move |_| match last.run(|_| Ok(1)) {
            Err(error) if error.cause() == &Cause::Rejected(Refused::Circle) => Ok(3),
            other => panic!("{other:?}"),
        });
        answer.map_err(|_| "it was refused one too early")
    });
    assert_eq!(answer, Ok(3));
    // A thread is left: nothing is refused.
    a.configure(|c| c.pool.core = 2).unwrap();
    let inner = a.clone();
    let answer = a.run(move |_| inner.run(|_| Ok(4)).map_err(|_| "refused"));
    assert_eq!(answer, Ok(4));
}

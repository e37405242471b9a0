//! The memory that ended executors leave behind. A separate test program, because its counting
//! allocator applies to the whole program.
#![cfg(not(any(tidegate_loom, tidegate_sanitize, miri)))]

use tidegate_core::executor::ExecutorId;
use tidegate_pool::HandedBack;
use tidegate_pool::internal::UnstartedTasks;

#[path = "../../tidegate-testkit/shared/counting.rs"]
mod counting;

#[test]
fn executors_that_were_given_up_leave_nothing_behind() {
    let given_up = || UnstartedTasks::of(&HandedBack::default()).give_up(ExecutorId::next());
    given_up();
    let before = counting::BYTES.get();
    (0..1_000).for_each(|_| given_up());
    assert_eq!(counting::BYTES.get(), before);
}

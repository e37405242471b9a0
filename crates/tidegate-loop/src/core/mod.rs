//! The core of an event loop, and one turn of it.
//!
//! | file | what |
//! |---|---|
//! | `driver.rs` | [`Driver`](driver::Driver): what an idle event loop waits on |
//! | `budget.rs` | the turn budget: how many tasks, and how long, for each kind of work |
//! | `idle_spin.rs` | how long an idle event loop spins before it sleeps |
//! | `run_task.rs` | running one task, and reporting its panic |
//! | `loop_core.rs` | [`Core`](loop_core::Core): the state that an event loop owns |
//! | `dump.rs` | answering the requests for a dump |
//! | `check_clock.rs`, `due.rs`, `turn.rs` | one turn: clock reads, due timers, the whole turn |
//! | `sleep.rs` | arming the doorbell and waiting on the driver |
//! | `after_turn.rs` | what follows a turn: another turn, sleep, suspension, shutdown |
//! | `hand_out.rs` | the turns of a roaming loop, whose tasks run on other threads |
//! | `drive.rs` | the ways to drive an event loop: own thread, `block_on`, by hand, strategy |
//!
//! Each file uses only those above it in this table. The first three do not use the event loop. The
//! others use the shared state (`state/`), the thread-local state (`thread/local.rs`) and the
//! timers (`schedule/`). `after_turn.rs` calls `shutdown/steps.rs` when the event loop ends.
//! Handles reach the core only through `Drive` in `state/shared.rs`.

pub(crate) mod after_turn;
pub(crate) mod budget;
pub(crate) mod check_clock;
pub(crate) mod drive;
pub(crate) mod driver;
pub(crate) mod due;
pub(crate) mod dump;
pub(crate) mod hand_out;
pub(crate) mod idle_spin;
pub(crate) mod loop_core;
pub(crate) mod run_task;
pub(crate) mod sleep;
pub(crate) mod turn;

//! What a loop owns, and one turn of it.
//!
//! | file | what |
//! |---|---|
//! | `driver.rs` | [`Driver`](driver::Driver): what an idle loop waits on |
//! | `budget.rs` | the turn budget: how many tasks, and how long, for each kind of work |
//! | `patience.rs` | how long an idle loop spins before it sleeps |
//! | `run_task.rs` | running one task, and reporting its panic |
//! | `loop_core.rs` | [`Core`](loop_core::Core): what a loop owns |
//! | `look.rs`, `due.rs`, `turn.rs` | one turn: looks at the clock, timers that are due, everything |
//! | `sleep.rs` | arming the doorbell and waiting on the driver |
//! | `after_turn.rs` | what follows a turn: another one, sleep, suspension, the end |
//! | `hand_out.rs` | turns of a roaming loop, whose tasks other threads run |
//! | `drive.rs` | the three ways to drive a loop: its own thread, a caller by hand, a strategy |
//!
//! Each file knows those above it in this table. The first three know nothing of a loop; the others
//! know the shared state (`state/`), the thread-local state (`thread/local.rs`) and the timers
//! (`schedule/`). `after_turn.rs` goes to `shutdown/steps.rs` when the loop ends. Handles reach the
//! core only through `Drive` in `state/shared.rs`.

pub(crate) mod after_turn;
pub(crate) mod budget;
pub(crate) mod drive;
pub(crate) mod driver;
pub(crate) mod due;
pub(crate) mod hand_out;
pub(crate) mod look;
pub(crate) mod loop_core;
pub(crate) mod patience;
pub(crate) mod run_task;
pub(crate) mod sleep;
pub(crate) mod turn;

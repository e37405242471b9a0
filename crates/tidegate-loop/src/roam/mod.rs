//! Roaming loops: what drives them is a strategy over a pool.
//!
//! | file | what |
//! |---|---|
//! | `producer.rs` | the loop as a producer of tasks |
//! | `loop_pool.rs` | the pool as the strategy of one loop sees it |
//! | `crew.rs` | [`Crew`](crew::Crew): the threads and the strategy, as a program chooses them |
//!
//! What runs where is said in `core/hand_out.rs`. The strategies are those of `tidegate_pool`.

pub(crate) mod crew;
pub(crate) mod loop_pool;
pub(crate) mod producer;

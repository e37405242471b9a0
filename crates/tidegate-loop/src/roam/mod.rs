//! Roaming loops: event loops that a strategy drives on the threads of a pool.
//!
//! | file | what |
//! |---|---|
//! | `producer.rs` | [`LoopProducer`](producer::LoopProducer): the loop as a producer of tasks |
//! | `loop_pool.rs` | the pool as the strategy of one loop sees it |
//! | `config.rs` | [`RoamingConfig`](config::RoamingConfig): the user's choice of threads and strategy |
//! | `build.rs` | the methods of the builders that make roaming loops and groups of them |
//!
//! `core/hand_out.rs` describes what runs on which thread. The strategies are those of
//! `tidegate_pool`, or the user's own.

mod build;
pub(crate) mod config;
pub(crate) mod loop_pool;
pub(crate) mod producer;

//! The words of an isolated call: who ends it, and whether it may begin.
//!
//! Both are one atomic each. What else belongs to a call or to a breaker is written before the
//! word says so and read after it does.

mod breaker_word;
mod call_word;

pub use self::breaker_word::{BreakerWord, Phase};
pub use self::call_word::{CallWord, Leave, Left, UnderWay};

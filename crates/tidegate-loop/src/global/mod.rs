//! The default loop of the process, `EventLoop::global()`.
//!
//! `default_loop.rs` builds it as any program could build a loop, and knows the handles (`handle/`).

pub(crate) mod default_loop;

#[cfg(test)]
mod tests;

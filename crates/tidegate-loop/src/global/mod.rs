//! The default event loop of the process, `EventLoop::global()`.
//!
//! `default_loop.rs` builds it with the public builder (`handle/`), as any program could.

pub(crate) mod default_loop;

#[cfg(test)]
mod tests;

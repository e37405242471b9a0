//! What CI runs, as Rust: `cargo xtask ci` on a laptop is the same run.
//!
//! Each task is one module with a `run` function. The house needs nothing but a Rust toolchain,
//! so this package has no dependencies.
#![forbid(unsafe_code)]

pub mod ci;
pub mod cost;
pub mod deny;
pub mod features;
pub mod fuzz;
pub mod interop;
pub mod loom;
pub mod miri;
pub mod msrv;
pub mod nightly;
pub mod readme;
pub mod root;
pub mod sanitize;
pub mod shuttle;
pub mod step;
pub mod summary;
pub mod tidy;

//! The tasks of CI, written in Rust: `cargo xtask ci` on a laptop runs the same steps.
//!
//! Each task is one module with a `run` function. Building needs nothing but a Rust toolchain, so
//! this package has no dependencies.
#![forbid(unsafe_code)]

pub mod bench;
mod browser;
pub mod ci;
pub mod cost;
pub mod dashboard;
pub mod deny;
pub mod features;
pub mod fuzz;
pub mod interop;
pub mod loom;
pub mod miri;
pub mod nightly;
pub mod package;
pub mod page;
pub mod platforms;
pub mod root;
pub mod sanitize;
pub mod shuttle;
pub mod step;
pub mod summary;
pub mod tidy;
pub mod tokio;

//! The `tidegate` binary.
#![forbid(unsafe_code)]
fn main() {}

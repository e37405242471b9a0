//! Integration tests of `tidegate-testkit`: each tool as the other crates use it.

mod randomness;
mod threads;

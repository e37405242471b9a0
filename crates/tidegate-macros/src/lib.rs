//! The attributes `#[tidegate::main]` and `#[tidegate::test]`.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html), whose pages
//! have examples. It depends on no other crate: the attributes only look at the tokens before the
//! body of the function. A parser of Rust would take longer to build than the event loops.
#![forbid(unsafe_code)]

mod expand;

use proc_macro::TokenStream;

/// Runs an `async fn main` with `tidegate::block_on`.
///
/// The function takes no arguments and returns what any `main` may return. Its future runs on the
/// main thread, which drives an event loop with timers, and with I/O if the feature `net` is on.
/// The attribute has no options. A program that needs other settings calls `block_on` of a builder
/// instead. The package must have the name `tidegate` in the manifest.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::main(options, item).unwrap_or_else(expand::Fault::into_tokens)
}

/// Runs an `async fn` as a test, with `tidegate::block_on`.
///
/// The function takes no arguments and returns what any test may return. Other attributes of tests,
/// such as `#[should_panic]`, work as usual.
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::test(options, item).unwrap_or_else(expand::Fault::into_tokens)
}

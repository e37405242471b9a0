//! The attribute `#[tidegate::main]`.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html). It depends on
//! no other crate: the attribute only looks at the tokens in front of the function's body.
#![forbid(unsafe_code)]

mod expand;

use proc_macro::TokenStream;

/// Runs an `async fn main` with `tidegate::block_on`.
///
/// ```ignore
/// #[tidegate::main]
/// async fn main() -> tidegate::Result<()> {
///     tidegate::sleep(std::time::Duration::from_millis(1)).await?;
///     Ok(())
/// }
/// ```
///
/// The function takes no arguments and may return what any `main` may return. Its future runs on
/// the main thread, which drives an event loop with timers, and with I/O if the feature `net` is on.
/// The attribute has no options. A program that needs settings calls `block_on` of a builder.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::main(options, item).unwrap_or_else(expand::Fault::into_tokens)
}

/// Runs an `async fn` as a test, with `tidegate::block_on`.
///
/// ```ignore
/// #[tidegate::test]
/// async fn sleeps() -> tidegate::Result<()> {
///     tidegate::sleep(std::time::Duration::from_millis(1)).await?;
///     Ok(())
/// }
/// ```
///
/// The function takes no arguments. Other attributes of tests, such as `#[should_panic]`, work as
/// usual.
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::test(options, item).unwrap_or_else(expand::Fault::into_tokens)
}

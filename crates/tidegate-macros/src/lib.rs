//! The attributes `#[tidegate::main]` and `#[tidegate::test]`, and the derive macro for the error
//! types of this workspace.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html), whose pages
//! have examples. It depends on no other crate: the attributes only look at the tokens before the
//! body of the function, and the error types are simple. A parser of Rust would take longer to build
//! than the crates that use this one.
#![forbid(unsafe_code)]

mod error;
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

/// Derives `Display` and `Error`, for the crates of this workspace.
///
/// It is the part of `thiserror` that these crates need: `#[error("…")]` with the fields in braces,
/// `#[error(transparent)]` for a tuple of one field, and `#[source]` at the field that is the cause.
/// In further arguments of a sentence the fields of a tuple are `_0`, `_1` and so on. The type has no
/// type parameters.
///
/// ```
/// #[derive(Debug, tidegate_macros::Error)]
/// enum DoorError {
///     #[error("the door `{name}` is locked; open it with a key")]
///     Locked { name: String },
///     #[error("no door is called {0:?}; use one of {}", _1.join(", "))]
///     Unknown(String, Vec<&'static str>),
/// }
///
/// let unknown = DoorError::Unknown("atic".to_owned(), vec!["attic", "cellar"]);
/// assert_eq!(unknown.to_string(), r#"no door is called "atic"; use one of attic, cellar"#);
/// ```
///
/// A variant without a sentence is refused:
///
/// ```compile_fail
/// #[derive(Debug, tidegate_macros::Error)]
/// enum DoorError {
///     Locked,
/// }
/// ```
#[doc(hidden)]
#[proc_macro_derive(Error, attributes(error, source))]
pub fn derive_error(item: TokenStream) -> TokenStream {
    error::derive(item).unwrap_or_else(expand::Fault::into_tokens)
}

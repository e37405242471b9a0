//! A macro for errors whose `Debug` output is the same sentence as their `Display` output.

/// Implements `Debug` for an error by its `Display`. An error that `main` returns is printed with
/// `Debug`, and so is an error that `unwrap` finds; people read both.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_display {
    ($error:ty) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    };
}

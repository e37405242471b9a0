//! Errors that are sentences wherever they are printed.

/// Lets `Debug` of an error print what `Display` does. An error that `main` returns is printed with
/// `Debug`, and so is one that `unwrap` finds; both are read by people.
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

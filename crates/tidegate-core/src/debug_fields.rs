//! A macro for types whose fields cannot all be printed.

/// Implements `Debug` for a type, with its name and these fields.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    (
        $([$($generic:ident $(: $bound:path)?),*])? $type:ident $(<$($arg:tt),*>)?
        $(, $this:ident => $($field:ident: $value:expr),*)?
    ) => {
        impl $(<$($generic $(: $bound)?),*>)? ::std::fmt::Debug for $type $(<$($arg),*>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $(let $this = self;)?
                f.debug_struct(stringify!($type))
                    $($(.field(stringify!($field), &$value))*)?
                    .finish_non_exhaustive()
            }
        }
    };
}

//! The description of a change: where a handler is inserted, removed or replaced. `H` is the type
//! that holds the handler until then.

use super::check::Name;

#[derive(Debug)]
pub(crate) struct ChangeOp<H> {
    pub(super) place: Place,
    /// The handler that is inserted there, and its name.
    pub(super) insert: Option<(Name, H)>,
}

/// A place in a chain.
#[derive(Debug)]
pub(crate) enum Place {
    First,
    Last,
    Before(Name),
    After(Name),
    /// The place of this handler, which is removed.
    Of(Name),
}

impl Place {
    /// Returns the position of this place in a chain of handlers with these names.
    ///
    /// # Errors
    ///
    /// The name that no handler has.
    pub(super) fn find<'a>(
        &self,
        mut names: impl ExactSizeIterator<Item = &'a Name>,
    ) -> Result<usize, &Name> {
        match self {
            Self::First => Ok(0),
            Self::Last => Ok(names.len()),
            Self::Before(name) | Self::After(name) | Self::Of(name) => {
                let at = names.position(|other| other == name).ok_or(name)?;
                Ok(at + usize::from(matches!(self, Self::After(_))))
            }
        }
    }

    /// Returns `true` if the handler at this place is removed.
    pub(super) fn removes(&self) -> bool {
        matches!(self, Self::Of(_))
    }
}

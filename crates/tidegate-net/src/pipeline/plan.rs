//! The description of a change: where a handler is inserted, removed or replaced. `H` is the type
//! that holds the handler until then.

use super::check::Name;

#[derive(Debug)]
pub(crate) enum ChangeOp<H> {
    Insert {
        place: InsertPosition,
        name: Name,
        handler: H,
    },
    Remove {
        name: Name,
    },
    Replace {
        old: Name,
        name: Name,
        handler: H,
    },
}

#[derive(Debug)]
pub(crate) enum InsertPosition {
    First,
    Last,
    Before(Name),
    After(Name),
}

//! Where a change puts a handler or takes one out, whatever holds the handler meanwhile.

use super::check::Name;

#[derive(Debug)]
pub(crate) enum What<H> {
    Insert {
        place: Place,
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
pub(crate) enum Place {
    First,
    Last,
    Before(Name),
    After(Name),
}

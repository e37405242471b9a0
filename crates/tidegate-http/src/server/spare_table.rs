//! One table for the heads of all connections of a thread: filling a new one with zeros would cost
//! more than parsing a short head.

use std::cell::Cell;

use crate::codec::HeadTable;

thread_local! {
    static SPARE: Cell<Option<Box<HeadTable>>> = const { Cell::new(None) };
}

/// Takes the table of this thread. A connection that is served inside the service of another one
/// gets a new table.
#[inline]
pub(crate) fn take() -> Box<HeadTable> {
    let spare = SPARE.try_with(Cell::take).ok().flatten();
    spare.unwrap_or_default()
}

/// Keeps a table for the next connection.
#[inline]
pub(crate) fn put_back(table: Box<HeadTable>) {
    let _ = SPARE.try_with(|spare| spare.set(Some(table)));
}

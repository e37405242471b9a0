//! One table for the heads of all connections of a thread: filling a new one with zeros would cost
//! more than parsing a short head.

use tidegate_core::internal::Spares;

use crate::codec::HeadTable;

thread_local! {
    static SPARE: Spares<Box<HeadTable>> = const { Spares::new(1) };
}

/// Takes the table of this thread. A connection that is served inside the service of another one
/// gets a new table.
#[inline]
pub(crate) fn take() -> Box<HeadTable> {
    Spares::take(&SPARE).unwrap_or_default()
}

/// Keeps a table for the next connection.
#[inline]
pub(crate) fn put_back(table: Box<HeadTable>) {
    Spares::put_back(&SPARE, table);
}

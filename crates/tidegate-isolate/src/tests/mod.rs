//! Tests of the crate as a whole that need private items.

mod properties_page;

//! Dynamic configuration: properties with the names that Hystrix gave them.
//!
//! A setting is looked for in four places, the first that has it wins: the property of the
//! command (`hystrix.command.<KEY>.x`), what the code said when it built the command, the property
//! for all commands (`hystrix.command.default.x`), the default. A change is pushed to the commands
//! it concerns at once. One that makes no sense is refused with a reason, and the old stays. So is a
//! name that is none, with the one that was probably meant. A change that has no effect because
//! another level or another source hides it is reported
//! ([`IsolationBuilder::on_unhandled`](crate::IsolationBuilder::on_unhandled)).
//!
//! `table` lists every property with how it is read and written: a new one is a row there. `names`
//! recognises them, `source` is what a program implements, `in_memory` a source of our own,
//! `sources` all of them together. `precedence` finds the settings in force, over a `draft`;
//! `merge` joins changes that were made at the same time, `difference` says where two builders
//! disagree. Knows the settings of a command, and no command.

mod difference;
mod draft;
mod in_memory;
mod merge;
mod names;
mod precedence;
mod serial;
mod source;
mod sources;
mod table;

pub use self::in_memory::Properties;
pub use self::names::PREFIX;
pub use self::source::{ChangeListener, PropertySource};

pub(crate) use self::difference::pool_difference;
pub(crate) use self::merge::merge;
pub(crate) use self::names::{COLLAPSER, Concerns, Named, parse};
pub(crate) use self::precedence::Said;
pub(crate) use self::sources::{Concerned, Reading, Sources};
pub(crate) use self::table::{Family, POOL, Property, boolean, millis, number};

#[cfg(test)]
mod tests;

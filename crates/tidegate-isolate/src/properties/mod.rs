//! Dynamic configuration: properties with the names that Hystrix gave them.
//!
//! A setting is searched at four levels, and the first that has it wins: the property of the
//! command (`hystrix.command.<KEY>.x`), the settings made in code when the command was built, the
//! property for all commands (`hystrix.command.default.x`), the default. A change is passed at once
//! to the commands that it concerns. An invalid value is rejected with a reason, and the old value
//! stays in force. An unknown name is rejected with the name that was probably meant. A change
//! that another level or another source overrides has no effect: [`Settings`] has the origin of each
//! value in force.
//!
//! `table` lists every property and how it is parsed and printed: a new property is a row there.
//! `names` recognises them, `source` is the trait that a program implements, `in_memory` is a
//! source of this crate, and `sources` combines all sources. `precedence` computes the settings in
//! force, with the help of `draft`, and `settings` lists them with their origin. `merge` finds out what
//! a change in code sets, and merges concurrent changes. This module uses the settings of a command, and no command.

mod draft;
mod in_memory;
mod merge;
mod names;
mod precedence;
mod serial;
mod settings;
mod source;
mod sources;
mod table;

pub use self::in_memory::Properties;
pub use self::names::PREFIX;
pub use self::settings::{Origin, Setting, Settings};
pub use self::source::{ChangeListener, PropertySource};

pub(crate) use self::draft::HEALTH_INTERVAL;
pub(crate) use self::merge::Changes;
pub(crate) use self::names::{COLLAPSER, Named, parse};
pub(crate) use self::precedence::CodeSettings;
pub(crate) use self::settings::difference;
pub(crate) use self::sources::{PropertyOwner, Reading, Sources};
pub(crate) use self::table::{COMMAND, Family, POOL, Property, boolean, millis, number};

#[cfg(test)]
pub(crate) use self::table::all;

#[cfg(test)]
mod tests;

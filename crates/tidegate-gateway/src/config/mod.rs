//! The configuration: read with all mistakes at once, checked, explained.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `source` | the files, places in them, what must not be printed | |
//! | `mistake` | a mistake and its message | `source` |
//! | `hiding` | what names a secret | |
//! | `tree` | the values of a file with their places; variables | `mistake`, `hiding` |
//! | `include` | several files as one tree | `tree` |
//! | `notation` | durations, sizes, shares as people write them | |
//! | `setting` | how a setting is read and inherited; the macros of sections | `tree` |
//! | `places` | where settings are, and which are wrong | `setting` |
//! | `fields` | tables of HTTP fields | `setting` |
//! | `values` | the single values: numbers, networks, secrets | `setting`, `notation` |
//! | `address` | the addresses of listeners and servers | `values` |
//! | `protocol` | the names of protocols to which a connection may be upgraded | `setting` |
//! | `types` | the sections | `values`, `address`, `fields` |
//! | `whole` | whether a listener or all routes are missing | `tree` |
//! | `set` | the settings that operators set | `types`, `tree` |
//! | `load` | the whole configuration | `types`, `include`, `check`, `whole`, `set`, `places` |
//! | `check` | checks between sections | `types`, `load` |
//! | `watch` | notices that the files have changed | `source`, `include` |
//! | `file` | a configuration that can be read again | `load` |
//! | `explain` | the route of a request and the origin of its settings | `load` |
//! | `reference` | the reference, made from the types | `load` |

mod address;
mod check;
mod explain;
mod fields;
mod file;
mod hiding;
mod include;
mod load;
mod mistake;
mod notation;
mod places;
mod protocol;
mod reference;
pub(crate) mod set;
mod setting;
mod source;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
pub mod types;
mod values;
mod watch;
mod whole;

pub use address::Address;
pub use explain::{Asked, explain};
pub use file::{ConfigFile, VariableReader};
pub use include::{Disk, RealDisk};
pub(crate) use include::{contents, is_passed};
pub(crate) use load::Tree;
pub use load::{Config, Loaded, Named, load};
pub use mistake::{Mistake, Mistakes, Severity};
pub use notation::{Share, Size};
pub(crate) use notation::{duration, show_duration};
pub(crate) use places::Places;
pub use protocol::Protocol;
pub use reference::reference;
pub use setting::{Field, Leaf, Origin, Reading, Scope, Section, Setting, Shape, Source};
pub use source::{Excerpt, FileId, Place, Sources, Span};
pub use tree::{Entry, Node, Value, Variables};
pub use values::{
    Balance, ClientCertificate, Count, FilePath, HealthKind, HostName, LimitKind, Method, Network,
    Percent, Ratio, Secret, Status, Statuses, Written,
};
pub use watch::FileWatch;

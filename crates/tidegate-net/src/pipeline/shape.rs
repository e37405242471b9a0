//! What is known of a handler's types, for the checks of a chain and for the mask of its events.

use tidegate_core::Blocking;

use crate::channel::mask;
use crate::message::Kind;

/// The types of a handler, as far as the pipeline knows them.
#[derive(Debug)]
pub(crate) struct Shape {
    /// `In`, `Out` and `Write` of the inbound side.
    pub(crate) inbound: Option<[Kind; 3]>,
    /// `Take` and `Write` of the outbound side.
    pub(crate) outbound: Option<[Kind; 2]>,
    pub(crate) blocking: Blocking,
    pub(crate) type_name: fn() -> &'static str,
}

impl Shape {
    pub(crate) fn mask(&self) -> u16 {
        let inbound = self.inbound.map_or(0, |_| mask::INBOUND);
        let outbound = self.outbound.map_or(0, |_| mask::OUTBOUND);
        inbound | outbound
    }
}

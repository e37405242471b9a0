//! What a connection costs while nothing happens on it.

use std::mem::size_of;

use super::*;
use crate::pipeline::{Action, Erased, Parts};

#[test]
fn an_idle_channel_is_small() {
    let sizes = (
        size_of::<ChannelCore<dyn Erased>>(),
        size_of::<SignalBlock<Shared>>(),
        size_of::<Parts>(),
        size_of::<Action>(),
    );
    assert!(sizes.0 + sizes.1 <= 640, "{sizes:?}");
}

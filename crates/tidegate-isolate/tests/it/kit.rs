//! The isolation of tests that also run over parts of a pool that a program supplies; see
//! `threads::users_queue`.

pub(crate) use crate::support::{alone, still};

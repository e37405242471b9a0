//! A router: calls the handler of the route that matches the method and the path of a request.
//!
//! | file | contents |
//! |---|---|
//! | `builder` | [`RouterBuilder`] and [`RouterError`] |
//! | `dispatch` | [`Router`]: finds the route of a request, and responds if there is none |
//! | `methods` | the handlers of one path, by method |
//!
//! Imports: `builder` → `dispatch` → `methods`.

mod builder;
mod dispatch;
mod methods;

pub use self::builder::{RouterBuilder, RouterError};
pub use self::dispatch::Router;

#[cfg(test)]
mod tests;

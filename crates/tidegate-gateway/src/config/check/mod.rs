//! Checks between sections: references, times that cannot fit, routes that no request reaches.
//!
//! Each check has a mistake at the place of the setting, also if the setting is inherited. No
//! message contains a value that may come from a variable.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `checks` | the configuration and the mistakes; places of settings | |
//! | `listen` | checks of listeners | `checks` |
//! | `upstream` | checks of upstreams | `checks` |
//! | `route` | checks of routes: actions, references, ties | `checks` |
//! | `times` | checks of times: timeouts and their parts, retries | `checks` |
//! | `target` | what a redirect may have as its target | |
//! | `texts` | checks of texts that become parts of heads | `checks`, `target` |
//! | `all` | all checks in order; the conditions of a route | all others |

mod all;
mod checks;
mod listen;
mod route;
mod target;
mod texts;
mod times;
mod upstream;

pub(super) use all::{all, rule};

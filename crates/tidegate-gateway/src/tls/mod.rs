//! TLS of listeners and to servers, from files. The only module with types of rustls.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `pem` | certificates and keys in files | |
//! | `validity` | the time in which a certificate is valid | |
//! | `server` | the certificates of a listener, by name; client certificates | `pem`, `validity` |
//! | `client` | the servers that the gateway trusts, and its own certificate | `pem`, `validity` |

mod client;
mod pem;
mod server;
mod validity;

pub(crate) use client::Trust;
pub(crate) use server::Certificates;
pub(crate) use validity::Expiry;

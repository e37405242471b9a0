//! TLS of listeners and to servers, from files. The only module with types of rustls.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `pem` | certificates and keys in files | |
//! | `validity` | the time in which a certificate is valid | |
//! | `wrong` | what is wrong, and with which setting | |
//! | `server` | the certificates of a listener, by name; client certificates | `pem`, `validity`, `wrong` |
//! | `client` | the servers that the gateway trusts, and its own certificate | `pem`, `validity`, `wrong` |
//! | `files` | what a configuration names of both, each file read once | `server`, `client` |

mod client;
mod files;
mod pem;
mod server;
mod validity;
mod wrong;

pub(crate) use client::Trust;
pub(crate) use files::TlsFiles;
pub(crate) use server::Certificates;
pub(crate) use validity::Expiry;

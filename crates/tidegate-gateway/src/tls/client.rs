//! TLS to the servers of an upstream.

use std::fmt;
use std::sync::Arc;

use tidegate::tls::TlsClient;
use tidegate::tls::rustls::{self, ClientConfig};

use super::pem;
use crate::config::types::UpstreamTls;

/// Returns the servers that the gateway trusts, and its own certificate if it has one.
pub(crate) fn trusted(tls: &UpstreamTls) -> Result<TlsClient, String> {
    let error = |why: &dyn fmt::Display| format!("TLS to the servers cannot be set up: {why}");
    let (cert, key) = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => (cert, key),
        (None, None) => {
            let Some(path) = &tls.roots else {
                return TlsClient::with_native_roots().map_err(|why| error(&why));
            };
            let roots = std::fs::read(path).map_err(|why| pem::wrong(path, why))?;
            return TlsClient::trusting(&roots).map_err(|why| pem::wrong(path, why));
        }
        _ => return Err("`cert` and `key` belong together: give both".to_owned()),
    };
    let Some(path) = &tls.roots else {
        return Err("with `cert` and `key`, give `roots` too".to_owned());
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config
        .map_err(|why| error(&why))?
        .with_root_certificates(pem::roots(path)?);
    let config = config.with_client_auth_cert(pem::certificates(cert)?, pem::key(key)?);
    let config = config.map_err(|why| pem::wrong(cert, why))?;
    Ok(TlsClient::from_config(Arc::new(config)))
}

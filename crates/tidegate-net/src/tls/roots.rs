//! Root certificates: given as PEM, or those of the platform.

use std::fmt;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::TlsError;

/// Returns the roots in `pem`.
pub(super) fn given(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(pem) {
        let root = root.map_err(|why| invalid(&format_args!("they are not PEM: {why}")))?;
        store.add(root).map_err(|why| invalid(&why))?;
    }
    if store.is_empty() {
        return Err(invalid(
            &"there is no certificate among them; give PEM with `-----BEGIN CERTIFICATE-----`",
        ));
    }
    Ok(store)
}

/// Returns the roots of the platform.
pub(super) fn of_platform() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let errors = found.errors.iter().map(ToString::to_string);
    usable(found.certs, errors.collect())
}

/// Returns the usable ones of `certificates`. Platforms contain some that are not; only if none is
/// left, that is an error, with the first of `errors`.
fn usable(
    certificates: Vec<CertificateDer<'static>>,
    errors: Vec<String>,
) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    let (_, unusable) = store.add_parsable_certificates(certificates);
    if !store.is_empty() {
        return Ok(store);
    }
    let why = match (errors.into_iter().next(), unusable) {
        (Some(first), _) => format!(" ({first})"),
        (None, 0) => String::new(),
        (None, unusable) => format!(" ({unusable} cannot be parsed)"),
    };
    Err(invalid(&format_args!(
        "the platform has none{why}; install its CA certificates (on most systems the package \
         `ca-certificates`), set SSL_CERT_FILE to a PEM file, or pass your own to \
         `TlsClient::trusting`"
    )))
}

pub(super) fn invalid(why: &dyn fmt::Display) -> TlsError {
    TlsError::InvalidRoots(why.to_string())
}

#[cfg(test)]
mod tests {
    //! Platforms with few or bad roots.

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn root() -> CertificateDer<'static> {
        let params = CertificateParams::new(Vec::new()).unwrap();
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    fn text(certificates: Vec<CertificateDer<'static>>, errors: &[&str]) -> String {
        let errors = errors.iter().map(ToString::to_string);
        let why = usable(certificates, errors.collect()).unwrap_err();
        why.to_string()
    }

    #[test]
    fn a_platform_without_roots_is_an_error_that_says_what_to_do() {
        let why = text(Vec::new(), &[]);
        assert!(why.contains("has none; install") && why.contains("SSL_CERT_FILE"));
        let why = text(Vec::new(), &["no such file: a.pem", "another"]);
        assert!(why.contains("has none (no such file: a.pem);"), "{why}");
        let why = text(vec![CertificateDer::from(vec![1, 2, 3])], &[]);
        assert!(why.contains("(1 cannot be parsed)"), "{why}");
    }

    #[test]
    fn one_usable_root_is_enough() {
        let bad = CertificateDer::from(vec![1, 2, 3]);
        let store = usable(vec![bad, root()], vec!["a file is missing".to_owned()]);
        assert_eq!(store.unwrap().len(), 1);
    }
}

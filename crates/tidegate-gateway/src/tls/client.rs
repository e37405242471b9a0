//! TLS to the servers of an upstream. Everything is read from files, at the start and with each
//! reload.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use tidegate::tls::TlsClient;
use tidegate::tls::rustls::{self, ClientConfig};

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::pem;
use super::validity::{self, Expiry};
use super::wrong::Wrong;
use crate::config::types::UpstreamTls;

/// The servers that the gateway trusts, and its own certificate if it has one.
pub(crate) struct Trust {
    /// What new connections use.
    pub(crate) client: TlsClient,
    /// Which setting each certificate comes from, and when it expires.
    pub(crate) expiries: Vec<(String, Expiry)>,
    read: Read,
}

/// What was read from the files.
#[derive(PartialEq)]
struct Read {
    /// `None` means the roots of the platform.
    roots: Option<Vec<CertificateDer<'static>>>,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

impl Trust {
    /// Reads the files of an upstream. Our own certificate must be valid now. Returns `before` if
    /// the files contain the same as then.
    ///
    /// # Errors
    ///
    /// The setting that is wrong, if it is a single one, and what is wrong with it.
    pub(super) fn read(
        tls: &UpstreamTls,
        before: Option<&Arc<Self>>,
        now: SystemTime,
    ) -> Result<Arc<Self>, Wrong> {
        let read = Read::new(tls, now)?;
        if let Some(before) = before
            && before.read == read
        {
            return Ok(Arc::clone(before));
        }
        Ok(Arc::new(Self {
            client: read.client(tls)?,
            expiries: read.expiries(now),
            read,
        }))
    }
}

impl Read {
    fn new(tls: &UpstreamTls, now: SystemTime) -> Result<Self, Wrong> {
        let roots = match &tls.roots {
            Some(path) => {
                let roots = pem::certificates(path);
                Some(roots.map_err(|why| Wrong::new("roots", why))?)
            }
            None => None,
        };
        let identity = match (&tls.cert, &tls.key) {
            (Some(_), Some(_)) if roots.is_none() => {
                let why = "`cert` and `key` need `roots`, too";
                return Err(Wrong::new("cert", why));
            }
            (Some(cert), Some(key)) => {
                let chain = pem::certificates(cert).map_err(|why| Wrong::new("cert", why))?;
                let problem = chain.first().and_then(|own| validity::problem(own, now));
                if let Some(problem) = problem {
                    return Err(Wrong::new("cert", pem::wrong(cert, problem)));
                }
                let key = pem::key(key).map_err(|why| Wrong::new("key", why))?;
                Some((chain, key))
            }
            (None, None) => None,
            (cert, _) => {
                let setting = if cert.is_some() { "cert" } else { "key" };
                let why = "`cert` and `key` belong together: give both";
                return Err(Wrong::new(setting, why));
            }
        };
        Ok(Self { roots, identity })
    }

    fn client(&self, tls: &UpstreamTls) -> Result<TlsClient, Wrong> {
        let error = |why: &dyn fmt::Display| {
            Wrong::new(None, format!("TLS to the servers cannot be set up: {why}"))
        };
        let (Some(own), Some(path)) = (&self.roots, &tls.roots) else {
            return TlsClient::with_native_roots().map_err(|why| error(&why));
        };
        let mut roots = RootCertStore::empty();
        for root in own {
            let added = roots.add(root.clone());
            added.map_err(|why| Wrong::new("roots", pem::wrong(path, why)))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| error(&why))?
            .with_root_certificates(roots);
        let config = match (&self.identity, &tls.cert) {
            (Some((chain, key)), Some(path)) => {
                let config = config.with_client_auth_cert(chain.clone(), key.clone_key());
                config.map_err(|why| {
                    let why = format!("{why}; is the key another one?");
                    Wrong::new("cert", pem::wrong(path, why))
                })?
            }
            _ => config.with_no_client_auth(),
        };
        Ok(TlsClient::from_config(Arc::new(config)))
    }

    /// Returns when the certificates expire. A root that has expired already is left out: files of
    /// roots often keep old ones.
    fn expiries(&self, now: SystemTime) -> Vec<(String, Expiry)> {
        let roots = self.roots.iter().flatten().enumerate();
        let roots = roots.filter_map(|(index, root)| {
            let expiry = validity::expiry(root).filter(|expiry| expiry.at >= now)?;
            Some((format!("roots[{index}]"), expiry))
        });
        let own = self.identity.iter().filter_map(|(chain, _)| chain.first());
        let own = own.filter_map(|own| Some(("cert".to_owned(), validity::expiry(own)?)));
        roots.chain(own).collect()
    }
}

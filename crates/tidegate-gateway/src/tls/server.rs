//! TLS of a listener: certificates by name, client certificates. Everything is read from files, at
//! the start and with each reload.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use tidegate::tls::{TlsServer, rustls};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoClientAuth, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;

use crate::config::types::{Certificate, ListenTls};
use crate::config::{ClientCertificate, FilePath};

use super::pem::{self, wrong};
use super::validity::{self, Expiry};
use super::wrong::Wrong;

/// The certificates of a listener, read from files.
pub(crate) struct Certificates {
    config: Arc<ServerConfig>,
    /// When each of them expires, in the order of the settings.
    pub(crate) expiries: Vec<Option<Expiry>>,
}

impl Certificates {
    /// Reads the certificates of a listener. They must be valid now.
    ///
    /// # Errors
    ///
    /// Which files are wrong, and why.
    pub(super) fn read(tls: &ListenTls, now: SystemTime) -> Result<Self, Vec<Wrong>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (mut names, mut wrong) = (Names::default(), Vec::new());
        for (index, certificate) in tls.certificates.iter().enumerate() {
            if let Err(one) = names.add(certificate, &provider, now) {
                wrong.push(one.of(&format!("certificates[{index}]")));
            }
        }
        let verifier = match clients(tls, &provider) {
            Ok(verifier) if wrong.is_empty() => verifier,
            read => {
                wrong.extend(read.err().map(|why| Wrong::new("client_roots", why)));
                return Err(wrong);
            }
        };
        let expiries = std::mem::take(&mut names.expiries);
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| vec![Wrong::new(None, why)])?;
        let mut config = config
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(names));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            expiries,
        })
    }

    /// Returns the TLS of a listener with these certificates.
    pub(crate) fn into_server(self) -> TlsServer {
        TlsServer::from_config(self.config)
    }

    /// Uses these certificates for new connections.
    pub(crate) fn apply(self, server: &TlsServer) {
        server.set_config(self.config);
    }
}

/// The certificates of a listener by the names in them, in lower case.
#[derive(Default)]
struct Names {
    first: Option<Arc<CertifiedKey>>,
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// By the name behind `*.`.
    below: HashMap<String, Arc<CertifiedKey>>,
    /// When each certificate expires.
    expiries: Vec<Option<Expiry>>,
}

impl Names {
    /// Adds a certificate. The first one of a name counts.
    fn add(
        &mut self,
        files: &Certificate,
        provider: &CryptoProvider,
        now: SystemTime,
    ) -> Result<(), Wrong> {
        let of_cert = |why: String| Wrong::new("cert", why);
        let chain = pem::certificates(&files.cert).map_err(of_cert)?;
        let problem = chain.first().and_then(|own| validity::problem(own, now));
        if let Some(problem) = problem {
            return Err(of_cert(wrong(&files.cert, problem)));
        }
        let expiry = chain.first().and_then(|own| validity::expiry(own));
        let key = pem::key(&files.key).map_err(|why| Wrong::new("key", why))?;
        let names = names_in(&files.cert, &chain).map_err(of_cert)?;
        let own = CertifiedKey::from_der(chain, key, provider);
        let own = own.map_err(|why| {
            let why = format!("{why}; is the key another one?");
            of_cert(wrong(&files.cert, why))
        })?;
        let own = Arc::new(own);
        for name in names {
            let (table, name) = match name.strip_prefix("*.") {
                Some(name) => (&mut self.below, name.to_owned()),
                None => (&mut self.exact, name),
            };
            table.entry(name).or_insert_with(|| Arc::clone(&own));
        }
        self.first.get_or_insert(own);
        self.expiries.push(expiry);
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let below = || {
            name.split_once('.')
                .and_then(|(_, rest)| self.below.get(rest))
        };
        self.exact.get(name).or_else(below)
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_ascii_lowercase);
        let found = name.as_deref().and_then(|name| self.find(name));
        found.or(self.first.as_ref()).cloned()
    }
}

tidegate_core::debug_fields!(Names, this => exact: this.exact.keys());

/// Returns what checks the certificates of clients.
fn clients(
    tls: &ListenTls,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    if tls.client == ClientCertificate::None {
        return Ok(Arc::new(NoClientAuth));
    }
    let Some(path) = &tls.client_roots else {
        return Err("clients are asked for certificates; give `client_roots`".to_owned());
    };
    let roots = Arc::new(pem::roots(path)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    let verifier = match tls.client {
        ClientCertificate::Required => verifier,
        _ => verifier.allow_unauthenticated(),
    };
    let verifier = verifier.build().map_err(|why| wrong(path, why))?;
    Ok(verifier)
}

/// Returns the names in a certificate, in lower case.
fn names_in(path: &FilePath, chain: &[CertificateDer<'_>]) -> Result<Vec<String>, String> {
    let own = chain
        .first()
        .ok_or_else(|| wrong(path, "it has no certificate"))?;
    let parsed = webpki::EndEntityCert::try_from(own).map_err(|why| wrong(path, why))?;
    Ok(parsed
        .valid_dns_names()
        .map(str::to_ascii_lowercase)
        .collect())
}

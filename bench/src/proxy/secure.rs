//! A certificate for `localhost`, its files, and a client that trusts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use tidegate_net::tls::rustls::pki_types::CertificateDer;
use tidegate_net::tls::rustls::pki_types::pem::PemObject as _;
use tidegate_net::tls::rustls::{ClientConfig, RootCertStore};

/// The certificate in `own.pem` and `own.key` of a folder.
pub(super) struct Secure {
    folder: PathBuf,
    pub(super) client: Arc<ClientConfig>,
}

impl Secure {
    pub(super) fn new(folder: &Path) -> Self {
        let key = KeyPair::generate().expect("a key");
        let names = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let own = names.self_signed(&key).expect("a certificate");
        fs::write(folder.join("own.pem"), own.pem()).expect("a file");
        fs::write(folder.join("own.key"), key.serialize_pem()).expect("a file");
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(own.pem().as_bytes()).expect("it is one");
        roots.add(root).expect("it is valid");
        let client = ClientConfig::builder().with_root_certificates(roots);
        Self {
            folder: folder.to_owned(),
            client: Arc::new(client.with_no_client_auth()),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

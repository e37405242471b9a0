//! Certificates and keys in files.

use tidegate::tls::rustls;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::{self, FilePath};

/// Reads the certificates of a file.
///
/// # Errors
///
/// The file, and what is wrong with it.
pub(super) fn certificates(path: &FilePath) -> Result<Vec<CertificateDer<'static>>, String> {
    let contents = contents(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&contents).collect();
    let all = all.map_err(|why| wrong(path, why))?;
    match all.is_empty() {
        true => Err(wrong(path, "it has no certificate")),
        false => Ok(all),
    }
}

/// Reads the key of a file.
///
/// # Errors
///
/// The file, and what is wrong with it. The message has nothing of the key.
pub(super) fn key(path: &FilePath) -> Result<PrivateKeyDer<'static>, String> {
    let key = PrivateKeyDer::from_pem_slice(&contents(path)?);
    key.map_err(|_| wrong(path, "it has no private key"))
}

/// Reads the roots of a file.
///
/// # Errors
///
/// The file, and what is wrong with it.
pub(super) fn roots(path: &FilePath) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates(path)? {
        roots.add(root).map_err(|why| wrong(path, why))?;
    }
    Ok(roots)
}

fn contents(path: &FilePath) -> Result<Vec<u8>, String> {
    config::contents(path).map_err(|why| wrong(path, why))
}

/// Returns the message about a file that cannot be used. It has the path as it is in the configuration.
pub(super) fn wrong(path: &FilePath, why: impl ToString) -> String {
    format!("`{path}` cannot be used: {}", why.to_string())
}

#[cfg(test)]
mod tests {
    //! Files that cannot be read.

    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let path = FilePath::from("/dev/null");
        let all = [
            certificates(&path).unwrap_err(),
            key(&path).unwrap_err(),
            roots(&path).unwrap_err(),
        ];
        assert_eq!(
            all,
            ["`/dev/null` cannot be used: it is not a regular file"; 3]
        );
    }
}

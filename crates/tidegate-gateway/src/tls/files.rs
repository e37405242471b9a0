//! The files of TLS that a configuration names. Each is read once: what the checks have seen is what is used.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use super::client::Trust;
use super::server::Certificates;
use super::wrong::Wrong;
use crate::config::Config;

/// What was read from the files of TLS, or what is wrong with them.
pub(crate) struct TlsFiles {
    /// By the names of the listeners that have TLS.
    pub(crate) listeners: HashMap<String, Result<Certificates, Vec<Wrong>>>,
    /// By the names of the upstreams that have TLS.
    pub(crate) upstreams: HashMap<String, Result<Arc<Trust>, Wrong>>,
}

impl TlsFiles {
    /// Reads the files. `before` has what was read for an upstream the last time, which is used again if
    /// the files contain the same.
    pub(crate) fn read(
        config: &Config,
        before: impl Fn(&str) -> Option<Arc<Trust>>,
        now: SystemTime,
    ) -> Self {
        let listeners = config.listeners.iter().filter_map(|listener| {
            let tls = listener.value.tls.as_ref()?;
            Some((listener.name.clone(), Certificates::read(tls, now)))
        });
        let upstreams = config.upstreams.iter().filter_map(|upstream| {
            let (name, tls) = (&upstream.name, upstream.value.tls.as_ref()?);
            Some((name.clone(), Trust::read(tls, before(name).as_ref(), now)))
        });
        Self {
            listeners: listeners.collect(),
            upstreams: upstreams.collect(),
        }
    }

    /// Takes the certificates of a listener; `None` if it has no TLS.
    ///
    /// # Errors
    ///
    /// What is wrong with the first file that is wrong.
    pub(crate) fn take_certificates(
        &mut self,
        listener: &str,
    ) -> Result<Option<Certificates>, String> {
        let read = self.listeners.remove(listener).transpose();
        read.map_err(|wrong| {
            wrong
                .into_iter()
                .map(|one| one.why)
                .next()
                .unwrap_or_default()
        })
    }

    /// Returns what an upstream trusts; `None` if it has no TLS.
    ///
    /// # Errors
    ///
    /// What is wrong with a file.
    pub(crate) fn trust(&self, upstream: &str) -> Result<Option<Arc<Trust>>, String> {
        match self.upstreams.get(upstream) {
            Some(Err(wrong)) => Err(wrong.why.clone()),
            Some(Ok(trust)) => Ok(Some(Arc::clone(trust))),
            None => Ok(None),
        }
    }
}

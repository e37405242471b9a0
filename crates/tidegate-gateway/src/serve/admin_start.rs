//! The start of the listener for operators, in two steps: what may take long, before anything listens, and
//! the rest.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate::metrics::Exporter;

use super::admin_address::AdminAddress;
use super::operator::{Metrics, Operator};
use crate::admin::{AdminAccess, AdminError, AdminListener, AdminParts};
use crate::config::types::Admin;
use crate::config::{Address, Config, Disk, Named};
use crate::resolver::Resolver;

/// What the listener for operators needs, before it listens.
pub(super) struct AdminStart {
    settings: Named<Admin>,
    access: AdminAccess,
    /// The addresses of its name, if it has one.
    found: Vec<SocketAddr>,
}

impl AdminStart {
    /// Reads the tokens and looks up the name. Returns `None` if there
    /// is no such listener.
    ///
    /// # Errors
    ///
    /// What cannot be used.
    pub(super) fn read(
        config: &Config,
        disk: &dyn Disk,
        resolver: &Resolver,
    ) -> Result<Option<Self>, String> {
        let Some(settings) = &config.admin else {
            return Ok(None);
        };
        let access = AdminAccess::read(&settings.value, disk)?;
        let found = resolver.wait_for_listener(&settings.value.at);
        let found = found.map_err(|why| not_listening(&settings.value.at, &why))?;
        Ok(Some(Self {
            settings: settings.clone(),
            access,
            found,
        }))
    }

    /// Starts the listener.
    ///
    /// # Errors
    ///
    /// The address cannot be used.
    pub(super) fn start(self, operator: &Arc<Operator>) -> Result<AdminListener, String> {
        let (own, reports) = (&operator.parts.own, &operator.parts.reports);
        let exporter = Exporter::new();
        exporter.add(operator.parts.isolation.clone());
        exporter.add(Metrics(Arc::clone(operator)));
        if let Some(log) = &reports.log {
            exporter.add(log.clone());
        }
        let parts = AdminParts {
            controls: Arc::clone(operator) as Arc<_>,
            exporter,
            events: Arc::clone(&reports.events),
            problems: Arc::clone(&reports.problems),
            wall: Arc::clone(&reports.wall),
        };
        let settings = &self.settings.value;
        let access = (self.access, Some(self.found));
        let started = AdminListener::start_with(settings, access, parts, own);
        let admin = started.map_err(|why| match why {
            AdminError::Listen { at, why } => not_listening(&at, &why),
            AdminError::Token(why) => why,
        })?;
        let at = AdminAddress::new(&settings.at, admin.local_addr());
        // They are empty: this is called once.
        let _ = operator.admin_at.set(at);
        let _ = operator.access.set(admin.access());
        Ok(admin)
    }
}

/// Says why the listener cannot be opened.
fn not_listening(at: &Address, why: &str) -> String {
    format!("listen.admin.at: cannot listen on {at}: {why}")
}

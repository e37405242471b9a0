//! A gateway in operation: with its file, its listener for operators, its access log and its reports.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tidegate::loops::Quiet;
use tidegate::net::NetGroup;
use tidegate::pool::WorkerPool;
use tidegate::promise::Completion;
use tidegate_core::internal::lock;

use super::admin_start::AdminStart;
use super::certificates::{add_start_mistakes, messages, start_mistakes};
use super::expiry::{self, Expiries};
use super::gateway::{Gateway, Summary, Unopened};
use super::operator::{Knobs, Operator, watch_of};
use super::parts::OperationParts;
use super::settings::Settings;
use super::stalls::Stalls;
use crate::access::AccessLog;
use crate::admin::{AdminListener, Controls as _};
use crate::config::ConfigFile;
use crate::parts::Parts;
use crate::tls::TlsFiles;

/// How long the responses to operators, the loops, and the last lines of the access log may take at the
/// end.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// The shortest time between two looks at the files.
const SHORTEST_LOOK: Duration = Duration::from_millis(200);

/// A gateway in operation.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::Clock;
/// use tidegate::isolate::{Isolation, Properties};
/// use tidegate_gateway::{Reports, Resolver};
/// use tidegate_gateway::config::{ConfigFile, RealDisk};
/// use tidegate_gateway::notify::Notifier;
/// use tidegate_gateway::serve::{Operation, OperationParts};
///
/// # let path = std::env::temp_dir().join(format!("tidegate-operation-{}", std::process::id()));
/// # std::fs::write(&path, "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n[route.a]\nrespond = 200\n")?;
/// let file = ConfigFile::new(&path, Arc::new(RealDisk), Arc::new(|_| None));
/// let (properties, reports) = (Properties::new(), Reports::new(Clock::system()));
/// let parts = OperationParts {
///     group: tidegate::net::pinned("gateway", 1)?,
///     own: tidegate::net::pinned("operate", 1)?,
///     isolation: reports
///         .events
///         .observe(Isolation::builder().properties(properties.clone()), &reports.wall)
///         .build()?,
///     properties,
///     reports,
///     resolver: Resolver::system(),
///     notifier: Arc::new(Notifier::new(None)),
/// };
/// let operation = Operation::start(file, parts)?;
/// println!("{:?}", operation.addresses());
/// operation.drain().wait()?;
/// operation.close();
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Operation {
    operator: Arc<Operator>,
    admin: Option<AdminListener>,
}

impl Operation {
    /// Reads the file and starts the gateway, with its listener for operators.
    ///
    /// # Errors
    ///
    /// The mistakes of the file, or what cannot be used or opened. Nothing listens then.
    pub fn start(file: ConfigFile, parts: OperationParts) -> Result<Self, String> {
        let started = Self::start_if(file, parts, || true)?;
        started.ok_or_else(|| "the gateway was asked to end".to_owned())
    }

    /// Starts like [`start`](Self::start). Before anything listens, asks whether it should go on, and
    /// returns `None` if not. All files are read then, and all names looked up: nothing that follows waits.
    pub(super) fn start_if(
        file: ConfigFile,
        mut parts: OperationParts,
        goes_on: impl FnOnce() -> bool,
    ) -> Result<Option<Self>, String> {
        let settings = Settings::new(file.tree()?);
        let mut loaded = settings.tree.load(&settings.set);
        let Some(config) = loaded.config.take() else {
            add_start_mistakes(&mut loaded, file.disk(), (parts.reports.wall)());
            return Err(loaded.mistakes.render(&loaded.sources));
        };
        let sources = loaded.sources;
        let watch = watch_of(&sources, &config, file.disk());
        let (loops, problems) = (parts.group.loops().len(), &parts.reports.problems);
        let tls = TlsFiles::read(&config, |_| None, (parts.reports.wall)());
        // If the start fails because of them, the operator gets their places.
        let wrong = start_mistakes(&config, &tls, file.disk());
        let placed = |why: String| messages(wrong.clone(), &sources, why);
        let admin = AdminStart::read(&config, file.disk(), &parts.resolver).map_err(placed)?;
        if parts.reports.log.is_none() {
            let log = AccessLog::start(&config.log, loops, Arc::clone(problems));
            let log = log.map_err(|why| placed(format!("log.file: it cannot be opened: {why}")))?;
            parts.reports.log = Some(log);
        }
        let stalls = Stalls::watch(&parts.group, &parts.reports);
        let started_with = (config.admin.clone(), config.log.clone());
        let own = Parts {
            group: parts.group.clone(),
            isolation: parts.isolation.clone(),
            reports: parts.reports.clone(),
            resolver: parts.resolver.clone(),
        };
        let unopened = Unopened::new(config, tls, own).map_err(|why| placed(why.to_string()))?;
        if !goes_on() {
            return Ok(None);
        }
        let gateway = unopened.open().map_err(|why| placed(why.to_string()))?;
        let operator = Arc::new(Operator {
            gateway,
            file,
            parts,
            started_with,
            access: OnceLock::new(),
            admin_at: OnceLock::new(),
            knobs: OnceLock::new(),
            stalls,
            expiries: Expiries::default(),
            settings: Mutex::new(settings),
            watch: Mutex::new(watch),
        });
        let admin = admin.map(|admin| admin.start(&operator));
        let admin = admin.transpose().inspect_err(|_| {
            // Nobody waits for it.
            drop(operator.gateway.drain(Duration::ZERO, Duration::ZERO));
        })?;
        expiry::watch(&operator);
        Ok(Some(Self { operator, admin }))
    }

    /// Reads the configuration again, because of `origin`. Returns what takes effect only after a
    /// restart.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without secrets. The old configuration stays in force.
    pub fn reload(&self, origin: &str) -> Result<Vec<String>, String> {
        let notes = self.operator.reload()?;
        self.operator.parts.reports.change(origin, "reload");
        Ok(notes)
    }

    /// Looks at the files of the configuration from time to time, and calls `changed` after a
    /// change, when they were unchanged for a while. It is called on a thread that may block.
    /// Certificates, keys and tokens in files are looked at, too.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub fn watch(&self, changed: impl Fn() + Send + Sync + 'static) -> Result<(), String> {
        let workers = WorkerPool::builder("config-watch").max(1).queue(1).build();
        let workers = workers.map_err(|why| why.to_string())?;
        look_later(Arc::downgrade(&self.operator), workers, Arc::new(changed));
        Ok(())
    }

    /// Opens the file of the access log again, because another program has moved it.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.operator.parts.reports.log {
            log.reopen();
        }
    }

    /// Announces the end and drains, within the times of the configuration. The listener for
    /// operators stays open, and says that the gateway is not ready.
    pub fn drain(&self) -> Completion<Summary> {
        self.operator.parts.notifier.stopping();
        let (announce, deadline) = self.operator.gateway.drain_times();
        self.operator.gateway.drain(announce, deadline)
    }

    /// Ends the streams and the listener for operators, the loops of requests with what is left on
    /// them, the access log, and the loop of operators. Waits a short time for each. The log ends after
    /// the loops, so that each request has its line.
    pub fn close(&self) {
        if let Some(admin) = &self.admin {
            // An operator who reads slowly does not delay the end.
            let _ = admin.close(LAST_WAIT).wait();
        }
        self.cut();
    }

    /// Ends everything at once: requests that are left are cut, and have their lines.
    pub(super) fn cut(&self) {
        let parts = &self.operator.parts;
        let end = |group: &NetGroup| group.loops().shutdown(Quiet::none(LAST_WAIT));
        self.operator.gateway.cut();
        // The connections end first: the loops still run what their requests need for their lines.
        let none = Duration::ZERO;
        let _ = self
            .operator
            .gateway
            .drain(none, none)
            .wait_timeout(LAST_WAIT);
        let own = end(&parts.own);
        // What does not end in time ends with the process.
        let _ = end(&parts.group).wait();
        if let Some(log) = &parts.reports.log {
            let _ = log.close().wait_timeout(LAST_WAIT);
        }
        let _ = own.wait();
        // A reload that waits for a disk has a handle to the listeners, and may never drop it.
        self.operator.gateway.remove_paths();
        if let Some(admin) = &self.admin {
            admin.remove_path();
        }
    }

    /// Returns the name and the address of each listener.
    pub fn addresses(&self) -> Vec<(String, String)> {
        let mut addresses = self.operator.gateway.addresses();
        let admin = self.admin.iter();
        addresses.extend(admin.map(|admin| ("admin".to_owned(), admin.address())));
        addresses
    }

    #[cfg(test)]
    pub(super) fn has_changed(&self, now: Duration, disk: &dyn crate::config::Disk) -> bool {
        let now = u64::try_from(now.as_nanos()).unwrap();
        let mut watch = lock(&self.operator.watch);
        let watch = watch.as_mut().unwrap();
        watch.has_changed(now, disk)
    }

    /// Shows what can be switched besides settings, from now on.
    pub(crate) fn show_knobs(&self, knobs: Weak<dyn Knobs>) {
        // It is set once.
        let _ = self.operator.knobs.set(knobs);
    }

    /// Returns the gateway.
    pub fn gateway(&self) -> &Gateway {
        &self.operator.gateway
    }
}

/// Looks at the files after a while, on a thread that may block, again and again. Ends with the
/// operation.
fn look_later(weak: Weak<Operator>, workers: WorkerPool, changed: Arc<dyn Fn() + Send + Sync>) {
    let Some(operator) = weak.upgrade() else {
        return;
    };
    let settle = operator.gateway.live().config.reload.settle;
    let home = operator.parts.own.loops().next().clone();
    let look = move || {
        let again = workers.clone();
        let look = move || {
            if look(&weak) {
                changed();
            }
            look_later(weak, again, changed);
        };
        // One look at a time, so there is a place in the queue.
        let _ = workers.execute(look);
    };
    // A loop that takes no timers is ending.
    drop(home.schedule_coarse(settle.max(SHORTEST_LOOK), look));
}

/// Returns `true` if the files have changed.
fn look(weak: &Weak<Operator>) -> bool {
    let Some(operator) = weak.upgrade() else {
        return false;
    };
    let now = operator.parts.own.loops().next().clock().nanos();
    let mut watch = lock(&operator.watch);
    let disk = operator.file.disk();
    watch
        .as_mut()
        .is_some_and(|watch| watch.has_changed(now, disk))
}

//! What operators see and change: the gateway, its file, its access log.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tidegate::Dump;
use tidegate::isolate::{Isolation, Properties};
use tidegate::metrics::{Collect, MetricVisitor};
use tidegate_core::internal::lock;

use super::admin_address::{AdminAddress, explained};
use super::certificates::{add_start_mistakes, messages, start_mistakes};
use super::expiry::Expiries;
use super::gateway::Gateway;
use super::parts::OperationParts;
use super::settings::{Settings, remove_orders};
use super::stalls::Stalls;
use super::turn::Turn;
use crate::admin::{
    AdminAccess, Controls, Knob, LoopReport, RouteReport, SetError, SettingReport, UpstreamReport,
};
use crate::config::types::{Admin, Log};
use crate::config::{Config, ConfigFile, Disk, FileWatch, Named, Secret, Sources, Span, is_passed};

/// How long the dump of a loop may take. A loop that is stuck is listed without its connections.
const DUMP_TIME: Duration = Duration::from_secs(1);

/// What operators see and change.
pub(super) struct Operator {
    pub(super) gateway: Gateway,
    pub(super) file: ConfigFile,
    pub(super) parts: OperationParts,
    /// The settings of the listener for operators and of the log at the start.
    pub(super) started_with: (Option<Named<Admin>>, Log),
    pub(super) access: OnceLock<AdminAccess>,
    /// Where the listener for operators is.
    pub(super) admin_at: OnceLock<AdminAddress>,
    /// The faults of the demo.
    pub(super) knobs: OnceLock<Weak<dyn Knobs>>,
    /// How often the loops of requests did not respond.
    pub(super) stalls: Stalls,
    /// Which certificates were reported because they expire.
    pub(super) expiries: Expiries,
    /// Changes only within a [`Turn`].
    pub(super) settings: Mutex<Settings>,
    /// Notices changes of the files, unless the configuration says that it should not.
    pub(super) watch: Mutex<Option<FileWatch>>,
}

/// What can be switched besides settings.
pub(crate) trait Knobs: Send + Sync {
    /// Returns all of them.
    fn list(&self) -> Vec<Knob>;

    /// Switches one. Returns what was done.
    ///
    /// # Errors
    ///
    /// There is no such knob or choice, or it could not be switched.
    fn turn(&self, knob: &str, choice: &str) -> Result<String, String>;
}

/// Puts a part of a new configuration in force.
type Apply = Box<dyn FnOnce() + Send>;

impl Operator {
    /// Reads the configuration again, and puts it in force.
    fn read_again(&self, turn: &Turn<'_>) -> Result<Vec<String>, String> {
        let tree = self.file.tree()?;
        let files = tree.sources.clone();
        let (settings, gone) = lock(&self.settings).reloaded(tree);
        let mut loaded = settings.tree.load(&settings.set);
        let Some(config) = loaded.config.take() else {
            // What is wrong may be in a file that is new.
            self.watch_files(&files, None);
            add_start_mistakes(&mut loaded, self.file.disk(), (self.parts.reports.wall)());
            let why = loaded.mistakes.render(&loaded.sources);
            return Err(match settings.blame() {
                Some(blame) => format!("{why}{blame}\n"),
                None => why,
            });
        };
        self.watch_files(&files, Some(&config));
        let mut notes = Vec::new();
        let at = |span: Option<Span>| span.map(|span| loaded.sources.place(span).to_string());
        let tls = turn.read_tls(&config);
        // If the reload fails because of them, the operator gets their places.
        let wrong = start_mistakes(&config, &tls, self.file.disk());
        let placed = |why| messages(wrong.clone(), &loaded.sources, why);
        let admin = self.prepare_admin(&config, &at, &mut notes);
        let admin = admin.map_err(placed)?;
        let log = self.prepare_log(&config, &at, &mut notes).map_err(placed)?;
        let blocked = self.admin_at.get().map(|own| own.blocked(&config));
        let more = turn.reload(config, tls).map_err(|why| {
            let why = explained(why, &blocked.unwrap_or_default());
            messages(wrong, &loaded.sources, why.to_string())
        });
        notes.extend(more?);
        notes.extend(settings.without_effect(&self.gateway.live().config));
        *lock(&self.settings) = settings;
        let orders = remove_orders(&self.parts.properties, &self.parts.isolation);
        for removed in gone.into_keys().chain(orders) {
            let what = format!("{removed} removed: its route is gone");
            self.parts.reports.change("reload", what);
        }
        for apply in [admin, log].into_iter().flatten() {
            apply();
        }
        Ok(notes)
    }

    /// Watches the files that were read, and those that the configuration names.
    fn watch_files(&self, sources: &Sources, config: Option<&Config>) {
        let mut watch = lock(&self.watch);
        let now = self.gateway.live();
        let config = config.unwrap_or(&now.config);
        *watch = watch_of(sources, config, self.file.disk());
    }

    /// Reads the tokens again. Notes what takes effect only after a restart.
    fn prepare_admin(
        &self,
        config: &Config,
        place: &dyn Fn(Option<Span>) -> Option<String>,
        notes: &mut Vec<String>,
    ) -> Result<Option<Apply>, String> {
        let at = |admin: &Option<Named<Admin>>| admin.as_ref().map(|admin| admin.value.at.clone());
        if at(&config.admin) != at(&self.started_with.0) {
            let span = config.place_of("listen.admin.at");
            let span = span.or_else(|| config.admin.as_ref().map(|admin| admin.at));
            notes.push(later(place(span), "listen.admin"));
            return Ok(None);
        }
        let (Some(access), Some(admin)) = (self.access.get(), &config.admin) else {
            return Ok(None);
        };
        let prepared = access.prepare(&admin.value, self.file.disk())?;
        Ok(Some(Box::new(prepared)))
    }

    /// Opens the access log if it has another file. Notes what takes effect only after a restart.
    fn prepare_log(
        &self,
        config: &Config,
        place: &dyn Fn(Option<Span>) -> Option<String>,
        notes: &mut Vec<String>,
    ) -> Result<Option<Apply>, String> {
        if config.log.queue != self.started_with.1.queue {
            notes.push(later(place(config.place_of("log.queue")), "log.queue"));
        }
        let old = self.gateway.live();
        let Some(log) = &self.parts.reports.log else {
            return Ok(None);
        };
        if old.config.log.file == config.log.file {
            return Ok(None);
        }
        let prepared = log.prepare(&config.log);
        let prepared = prepared.map_err(|why| format!("log.file: it cannot be opened: {why}"))?;
        Ok(Some(Box::new(prepared)))
    }
}

/// The listener and the signals change the same gateway.
impl Controls for Operator {
    fn is_ready(&self) -> bool {
        self.gateway.is_ready()
    }

    fn isolation(&self) -> &Isolation {
        &self.parts.isolation
    }

    fn properties(&self) -> &Properties {
        &self.parts.properties
    }

    fn settings(&self, route: Option<&str>) -> Vec<SettingReport> {
        let settings = lock(&self.settings);
        settings.report(&self.gateway.live().config, route)
    }

    fn set(&self, path: &str, value: Option<&str>) -> Result<(), SetError> {
        self.change_setting(path, value)
    }

    fn upstreams(&self) -> Vec<UpstreamReport> {
        self.gateway.upstreams()
    }

    fn routes(&self) -> Vec<RouteReport> {
        self.gateway.live().route_reports()
    }

    fn loops(&self) -> Vec<LoopReport> {
        let loops = self.parts.group.loops().iter();
        let reports = loops.map(|one| {
            let metrics = one.metrics();
            LoopReport {
                name: one.name().to_owned(),
                busy: metrics.busy,
                late_mean: metrics.lateness_mean,
                late_max: metrics.lateness_max,
                longest: metrics.longest,
                longest_task: metrics.longest_task.map(str::to_owned),
                stalls: self.stalls.of(one.name()),
            }
        });
        reports.collect()
    }

    fn knobs(&self) -> Vec<Knob> {
        let knobs = self.knobs.get().and_then(Weak::upgrade);
        knobs.map_or_else(Vec::new, |knobs| knobs.list())
    }

    fn turn(&self, knob: &str, choice: &str) -> Result<String, String> {
        match self.knobs.get().and_then(Weak::upgrade) {
            Some(knobs) => knobs.turn(knob, choice),
            None => Err("this gateway has nothing to switch".to_owned()),
        }
    }

    fn drain_server(&self, upstream: &str, server: &str, draining: bool) -> bool {
        self.gateway.drain_server(upstream, server, draining)
    }

    fn reload(&self) -> Result<Vec<String>, String> {
        let notifier = &self.parts.notifier;
        let turn = self.gateway.turn();
        notifier.reloading();
        let reloaded = self.read_again(&turn);
        notifier.ready();
        reloaded
    }

    fn dump(&self) -> Dump {
        let OperationParts {
            group,
            own,
            isolation,
            ..
        } = &self.parts;
        Dump::new("gateway", "")
            .fact("is_ready", self.is_ready())
            .child(group.loops().dump_within(DUMP_TIME))
            // It is not asked: nothing of it matters to requests.
            .child(own.loops().dump())
            .child(isolation.dump())
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Operator").field(&self.gateway).finish()
    }
}

/// The metrics of the gateway, for an exporter.
pub(super) struct Metrics(pub(super) Arc<Operator>);

impl Collect for Metrics {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        self.0.gateway.collect(visitor);
    }
}

/// Says that a setting takes effect only after a restart, with its place in the file. A setting that
/// was removed has none.
fn later(place: Option<String>, setting: &str) -> String {
    let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
    format!("{place}{setting}: it changes with the next start")
}

/// Watches the files of a configuration and those that it names, unless it says that they are not watched.
/// What is there now counts as known, so this comes before the named files are used.
pub(super) fn watch_of(sources: &Sources, config: &Config, disk: &dyn Disk) -> Option<FileWatch> {
    let (further, settle) = (named_files(config), config.reload.settle);
    let watch = || FileWatch::new(sources, further, settle, disk);
    config.reload.watch.then(watch)
}

/// Returns the files that a configuration names: certificates, keys, roots, tokens. What can be read once is
/// none of them: a look at it would take it.
fn named_files(config: &Config) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for listener in &config.listeners {
        let Some(tls) = &listener.value.tls else {
            continue;
        };
        for pair in &tls.certificates {
            files.extend([pair.cert.to_path_buf(), pair.key.to_path_buf()]);
        }
        files.extend(tls.client_roots.as_ref().map(|path| path.to_path_buf()));
    }
    for upstream in &config.upstreams {
        if let Some(tls) = &upstream.value.tls {
            let own = [&tls.roots, &tls.cert, &tls.key];
            files.extend(own.into_iter().flatten().map(|path| path.to_path_buf()));
        }
    }
    if let Some(admin) = &config.admin {
        for secret in [&admin.value.token, &admin.value.read_token] {
            if let Some(Secret::File(path)) = secret {
                files.push(path.clone());
            }
        }
    }
    files.retain(|file| !is_passed(file));
    files
}

#[cfg(test)]
mod tests {
    //! Which files are watched.

    use std::path::Path;

    use super::named_files;
    use crate::config::tests::config_of;

    #[test]
    fn the_files_of_listeners_upstreams_and_tokens_are_watched() {
        let config = config_of(
            "[listen]\nadmin = { at = \"127.0.0.1:1\", token = \"file:/t\" }\n\
             [listen.http]\nat = \"127.0.0.1:0\"\n\
             tls = { certificates = [{ cert = \"/c\", key = \"/k\" }] }\n\
             [upstream.back]\nservers = [\"127.0.0.1:1\"]\n\
             tls = { roots = \"/r\", cert = \"/own\", key = \"/own.key\" }\n\
             [route.a]\nupstream = \"back\"\n",
        );
        let files = named_files(&config);
        let expected = ["/c", "/k", "/r", "/own", "/own.key", "/t"];
        assert_eq!(files, expected.map(Path::new));
    }
}

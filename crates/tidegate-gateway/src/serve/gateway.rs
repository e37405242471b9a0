//! A gateway: starts, takes over a new configuration, drains.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::isolate::Isolation;
use tidegate::net::NetGroup;
use tidegate::promise::Completion;

use super::error::StartError;
use super::listener::{Listening, NewCertificates};
use crate::config::Config;
use crate::proxy::{Live, Lives};

/// A running gateway. Dropping it leaves its listeners to the loops of its group, until these end.
///
/// ```
/// use std::path::Path;
/// use std::time::Duration;
/// use tidegate::isolate::Isolation;
/// use tidegate_gateway::config::{self, Disk};
/// use tidegate_gateway::serve::Gateway;
///
/// struct OneFile(&'static str);
/// impl Disk for OneFile {
///     fn read(&self, _: &Path) -> std::io::Result<String> {
///         Ok(self.0.to_owned())
///     }
///     fn list(&self, _: &Path) -> std::io::Result<Vec<String>> {
///         Ok(Vec::new())
///     }
/// }
///
/// let file = OneFile(
///     "[listen]\n\
///      http = \"127.0.0.1:0\"\n\
///      [route.hello]\n\
///      respond = { status = 200, body = \"hello\" }\n",
/// );
/// let config = config::load(Path::new("tidegate.toml"), &file, &|_| None)?.config.unwrap();
/// let group = tidegate::net::pinned("gateway", 1)?;
/// let gateway = Gateway::start(config, &group, &Isolation::builder().build()?)?;
/// for (name, address) in gateway.addresses() {
///     println!("{name} http://{address}/");
/// }
/// println!("{}", gateway.drain(Duration::ZERO, Duration::from_secs(5)).wait()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gateway {
    lives: Arc<Lives>,
    group: NetGroup,
    isolation: Isolation,
    state: Mutex<State>,
}

struct State {
    live: Arc<Live>,
    listening: Vec<Listening>,
}

/// What a reload changes about the listeners.
#[derive(Default)]
struct Changes {
    added: Vec<Listening>,
    certificates: Vec<NewCertificates>,
    /// What takes effect only after a restart.
    notes: Vec<String>,
}

/// What a drain has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many connections were open when the drain began.
    pub open: usize,
    /// How many of them were cut at the deadline.
    pub cut: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "connections that were open: {}, cut at the deadline: {}",
            self.open, self.cut
        )
    }
}

impl Gateway {
    /// Starts a gateway on the loops of `group`: all listeners are open then.
    ///
    /// # Errors
    ///
    /// What cannot be used or opened. Nothing listens then.
    pub fn start(
        config: Config,
        group: &NetGroup,
        isolation: &Isolation,
    ) -> Result<Self, StartError> {
        let live = Live::new(config, None, group, isolation)?;
        let lives = Lives::new(group, &live);
        let mut listening = Vec::new();
        for listener in &live.config.listeners {
            match Listening::open(listener, &lives, group) {
                Ok(open) => listening.push(open),
                Err(why) => {
                    for open in &listening {
                        close(open, Duration::ZERO, Duration::ZERO);
                    }
                    return Err(why);
                }
            }
        }
        Ok(Self {
            lives,
            group: group.clone(),
            isolation: isolation.clone(),
            state: Mutex::new(State { live, listening }),
        })
    }

    /// Takes over a new configuration, loop by loop. Requests that have begun end under the old one.
    /// What has not changed stays: listeners, commands with their breakers, connections to servers.
    /// Returns what takes effect only after a restart.
    ///
    /// # Errors
    ///
    /// What cannot be used or opened. The old configuration stays in force then.
    pub fn reload(&self, config: Config) -> Result<Vec<String>, StartError> {
        let mut state = self.lock();
        let mut changes = Changes::default();
        let prepared = self.prepare(&config, &state, &mut changes);
        let live = prepared.and_then(|()| {
            let live = Live::new(config, Some(&state.live), &self.group, &self.isolation);
            live.map_err(StartError::from)
        });
        let live = match live {
            Ok(live) => live,
            Err(why) => {
                for open in &changes.added {
                    close(open, Duration::ZERO, Duration::ZERO);
                }
                return Err(why);
            }
        };
        let Changes {
            mut added,
            certificates,
            notes,
        } = changes;
        certificates.into_iter().for_each(NewCertificates::apply);
        let is_kept = |open: &Listening| {
            let mut listeners = live.config.listeners.iter();
            listeners.any(|listener| listener.name == open.name)
        };
        let (kept, removed) = std::mem::take(&mut state.listening)
            .into_iter()
            .partition(is_kept);
        state.listening = kept;
        state.listening.append(&mut added);
        let removed: Vec<Listening> = removed;
        for open in &removed {
            close(open, Duration::ZERO, live.config.drain.deadline);
        }
        self.lives.replace(&live);
        state.live = live;
        Ok(notes)
    }

    /// Opens the listeners that are new, and reads certificates again.
    fn prepare(
        &self,
        config: &Config,
        state: &State,
        changes: &mut Changes,
    ) -> Result<(), StartError> {
        for listener in &config.listeners {
            let (name, value) = (&listener.name, &listener.value);
            let Some(open) = state.listening.iter().find(|open| open.name == *name) else {
                let open = Listening::open(listener, &self.lives, &self.group)?;
                changes.added.push(open);
                continue;
            };
            if open.fits(value) {
                changes.certificates.extend(open.read_certificates(value)?);
            } else {
                let note = format!("listen.{name}: it changes with the next start");
                changes.notes.push(note);
            }
        }
        Ok(())
    }

    /// Returns the name and the address of each listener.
    pub fn addresses(&self) -> Vec<(String, String)> {
        let state = self.lock();
        let all = state.listening.iter();
        all.map(|open| (open.name.clone(), open.address()))
            .collect()
    }

    /// Returns the times of a drain: how long it is announced, and how long requests may take after
    /// that.
    pub fn drain_times(&self) -> (Duration, Duration) {
        let drain = &self.lock().live.config.drain;
        (drain.announce, drain.deadline)
    }

    /// Announces the end, and stops accepting after `announce`. Requests in flight may take until
    /// `deadline` after that; idle connections end at once. Until the announcement is over, each
    /// response ends its connection.
    pub fn drain(&self, announce: Duration, deadline: Duration) -> Completion<Summary> {
        let state = self.lock();
        let drains: Vec<_> = state
            .listening
            .iter()
            .map(|open| match announce.is_zero() {
                true => open.server.drain(deadline),
                false => open.server.drain_after(announce, deadline),
            })
            .collect();
        drop(state);
        Completion::all(drains).map(|reports| {
            let mut summary = Summary::default();
            for report in reports {
                summary.open += report.open;
                summary.cut += report.closed_at_deadline.len() + report.still_running;
            }
            summary
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a listener and drains its connections.
fn close(open: &Listening, announce: Duration, deadline: Duration) {
    // The report is for nobody.
    drop(match announce.is_zero() {
        true => open.server.drain(deadline),
        false => open.server.drain_after(announce, deadline),
    });
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("addresses", &self.addresses())
            .finish_non_exhaustive()
    }
}

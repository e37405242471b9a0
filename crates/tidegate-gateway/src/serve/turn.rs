//! A change of what is in force: a reload, or settings that operators set. One at a time, in two steps:
//!
//! ```text
//!   prepare: all that can fail, beside what is in force                   apply: cannot fail
//!   names, new sockets ─▶ routes, upstreams, ─▶ sockets that   ─────────▶ commands, listeners, certificates,
//!   (Changes)             commands (Draft)      others block              the routes of each loop (Lives),
//!                                               (drains wait)             sockets that change hands
//!          └──────── an error: undo, and nothing has changed
//! ```

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tidegate_core::internal::{lock, try_lock};

use super::changes::Changes;
use super::error::StartError;
use super::gateway::{Gateway, close_all};
use super::listener::{Listening, NewCertificates};
use super::retired::Retired;
use crate::config::Config;
use crate::proxy::Draft;
use crate::tls::TlsFiles;

/// Why a configuration without routes does not replace one with routes.
const NO_ROUTES: &str = "no route is left: the file may have been cut off; keep one, such as \
    `[route.none]` with `respond = 404`, or restart";

/// How long a reload waits for the socket of a listener that it has removed.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// The right to change what is in force, which one thread has. Drains that are asked for while a change is
/// applied begin at its end.
pub(super) struct Turn<'a> {
    gateway: &'a Gateway,
    /// `Some` until it is dropped.
    one: Option<MutexGuard<'a, ()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let state = self.gateway.lock();
        let waiting = self.gateway.held.release().into_iter();
        let begun: Vec<_> = waiting
            .map(|one| (state.drain(one.announce, one.deadline), one))
            .collect();
        // What waits for the end of a drain may use the gateway, and reload it.
        drop((state, self.one.take()));
        begun
            .into_iter()
            .for_each(|(drained, one)| one.begun(drained));
    }
}

impl Gateway {
    /// Takes over a new configuration, loop by loop. Requests that have begun end under the old one.
    /// What has not changed stays: listeners, routes, commands with their breakers, connections to servers.
    /// A socket stays with its address; connections that are open keep their settings.
    /// One that is removed closes its idle connections; the others end with their requests and
    /// tunnels, without a deadline. Returns what could not be done.
    ///
    /// # Errors
    ///
    /// What cannot be used or opened. The old configuration stays in force then. A gateway that
    /// drains takes over nothing.
    pub fn reload(&self, config: Config) -> Result<Vec<String>, StartError> {
        let turn = self.turn();
        let tls = turn.read_tls(&config);
        turn.reload(config, tls)
    }

    /// Waits for the right to change what is in force.
    pub(super) fn turn(&self) -> Turn<'_> {
        Turn {
            gateway: self,
            one: Some(lock(&self.changing)),
        }
    }

    /// Returns the right to change what is in force, unless another thread has it.
    pub(super) fn try_turn(&self) -> Option<Turn<'_>> {
        let one = try_lock(&self.changing)?;
        Some(Turn {
            gateway: self,
            one: Some(one),
        })
    }
}

impl Turn<'_> {
    /// Reads the files of TLS that a configuration names.
    pub(super) fn read_tls(&self, config: &Config) -> TlsFiles {
        let (live, now) = (self.gateway.live(), (self.gateway.parts.reports.wall)());
        TlsFiles::read(config, |upstream| live.trust(upstream), now)
    }

    /// Takes over a new configuration, with the files that were read for it; see [`Gateway::reload`].
    ///
    /// # Errors
    ///
    /// What cannot be used or opened. The old configuration stays in force then.
    pub(super) fn reload(&self, config: Config, tls: TlsFiles) -> Result<Vec<String>, StartError> {
        let (before, mut changes) = (self.gateway.listening(), Changes::default());
        match self.prepare(config, tls, &before, &mut changes) {
            Ok(draft) => Ok(self.apply(draft, before, changes)),
            Err(why) => Err(self.undo(changes, why)),
        }
    }

    /// Takes over a configuration that differs from the one in force in the settings of routes only: no file
    /// is read, and listeners and upstreams stay.
    ///
    /// # Errors
    ///
    /// What cannot be used. The old configuration stays in force then, also if a drain has begun.
    pub(super) fn adjust(&self, config: Config) -> Result<(), StartError> {
        let Gateway { lives, parts, .. } = self.gateway;
        let draft = Draft::adjusted(config, &lives.in_force(), (lives.gate(), parts))?;
        self.hold()?;
        lives.replace(&draft.apply(&parts.isolation));
        Ok(())
    }

    /// Does all that can fail. At first, that touches nothing that is in use: new listeners are opened, what
    /// routes need is made. What is left to undo is in `changes`.
    fn prepare(
        &self,
        config: Config,
        mut tls: TlsFiles,
        open: &[Arc<Listening>],
        changes: &mut Changes,
    ) -> Result<Draft, StartError> {
        let (gateway, live) = (self.gateway, self.gateway.live());
        if !gateway.is_ready() {
            return Err(StartError::Ending);
        }
        if config.routes.is_empty() && !live.config.routes.is_empty() {
            return Err(StartError::Config(NO_ROUTES.to_owned()));
        }
        changes.prepare(&config, &mut tls, open, gateway.ground())?;
        let on = (gateway.lives.gate(), &gateway.parts);
        let draft = Draft::new(config, Some(&live), &tls, on)?;
        self.hold()?;
        changes.open_blocked(open, gateway.ground())?;
        Ok(draft)
    }

    /// Makes drains wait from now on: what is in use changes, and no file is read any more.
    ///
    /// # Errors
    ///
    /// A drain has begun.
    fn hold(&self) -> Result<(), StartError> {
        // A drain begins under this lock.
        let _state = self.gateway.lock();
        if !self.gateway.is_ready() {
            return Err(StartError::Ending);
        }
        self.gateway.held.hold();
        Ok(())
    }

    /// Puts in force what is prepared. Returns which listeners have no socket any more: the loops end.
    fn apply(
        &self,
        draft: Draft,
        before: Vec<Arc<Listening>>,
        mut changes: Changes,
    ) -> Vec<String> {
        let (gateway, old) = (self.gateway, self.gateway.live());
        let live = draft.apply(&gateway.parts.isolation);
        let (open, removed): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|open| changes.keeps(open));
        let gone = removed.iter().filter(|old| !changes.moves(old));
        let gone: Vec<_> = gone.cloned().collect();
        let mut state = gateway.lock();
        state.listening = open;
        state.listening.append(&mut changes.added);
        state.retired.retain(|old| !old.is_over());
        state.retired.extend(removed.iter().map(Retired::new));
        drop(state);
        let certificates = std::mem::take(&mut changes.certificates).into_iter();
        certificates.for_each(NewCertificates::apply);
        gateway.lives.replace(&live);
        live.begin(Some(&old));
        let last = changes.accept_last(gateway.ground());
        gateway.lock().retired.extend(last.iter().map(Retired::new));
        // Their idle connections end now, the others when their requests and tunnels have ended.
        close_all(&gone, Duration::MAX);
        wait_closed(&gone);
        let changed = changes.changed.into_iter().filter_map(|(old, new)| {
            let opened = new.take_over(&old, &gateway.lives, &gateway.parts);
            self.put(&old, opened).err()
        });
        changed
            .map(|why| format!("{why}; it is closed until the next start"))
            .collect()
    }

    /// Closes what a reload has opened that has failed, and puts old listeners back whose sockets it
    /// needed. Returns why, and what could not be put back.
    fn undo(&self, mut changes: Changes, mut why: StartError) -> StartError {
        close_all(&changes.added, Duration::ZERO);
        for (old, again) in changes.give_back(self.gateway.ground()) {
            if let Err(lost) = self.put(&old, again) {
                why = why.and(&format!("{lost}; it is closed until the next start"));
            }
        }
        why
    }

    /// Puts a listener in the place of an old one, whose connections stay.
    fn put(
        &self,
        old: &Arc<Listening>,
        opened: Result<Listening, StartError>,
    ) -> Result<(), StartError> {
        let live = self.gateway.live();
        let mut state = self.gateway.lock();
        let opened = opened.map(Arc::new).inspect(|open| {
            let listeners = &live.config.listeners;
            let place = listeners.iter().position(|one| one.name == open.name);
            let place = place.unwrap_or(usize::MAX).min(state.listening.len());
            state.listening.insert(place, Arc::clone(open));
        });
        state.listening.retain(|open| !Arc::ptr_eq(open, old));
        state.retired.retain(|old| !old.is_over());
        state.retired.push(Retired::new(old));
        drop(state);
        opened.map(drop)
    }
}

/// Waits until the sockets of listeners are closed, so that their addresses are free. A loop that is busy
/// for long closes them later.
fn wait_closed(listening: &[Arc<Listening>]) {
    for open in listening {
        let _ = open.server.server().closed().wait_timeout(CLOSE_TIME);
    }
}

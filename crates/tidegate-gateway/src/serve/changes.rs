//! What a reload changes about the listeners.
//!
//! A socket belongs to its address, whatever the name of its listener is: it stays bound, and is handed
//! to the listener that has the address now.
//!
//! The address of a new listener may overlap with that of one that goes, such as `0.0.0.0:80` and
//! `127.0.0.1:80`. The system binds both sockets only if both agree (`SO_REUSEPORT`):
//!
//! ```text
//!   release the old socket ──▶ both agree ──▶ bind the new one ┬▶ accept the clients that wait at the
//!   (clients wait there)                                       │  old socket, close it
//!                                                              └▶ (the reload fails) the old listener
//!                                                                 gets its socket back
//! ```

use std::sync::Arc;

use rustix::net::sockopt::set_socket_reuseport;
use tidegate::net::Listener as Socket;

use super::error::StartError;
use super::listener::{Listening, NewCertificates, Prepared};
use crate::config::Config;
use crate::parts::Parts;
use crate::proxy::Lives;
use crate::tls::TlsFiles;

/// What a reload changes about the listeners.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) kept: Vec<Arc<Listening>>,
    pub(super) added: Vec<Arc<Listening>>,
    /// Each takes over the socket of an old one.
    pub(super) changed: Vec<(Arc<Listening>, Prepared)>,
    pub(super) certificates: Vec<NewCertificates>,
    /// New listeners that are not open yet: they overlap with old ones that go.
    blocked: Vec<Prepared>,
    /// The sockets of those.
    taken: Vec<Taken>,
}

/// Old listeners, and what has their sockets now.
pub(super) type Restored = Vec<(Arc<Listening>, Result<Listening, StartError>)>;

/// What each listener needs to be opened.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) lives: &'a Arc<Lives>,
    pub(super) parts: &'a Parts,
}

/// A socket that was taken from a listener.
struct Taken {
    from: Arc<Listening>,
    socket: Socket,
    /// The listener that needs its address, once more.
    by: Prepared,
}

impl Changes {
    /// Returns `true` if the socket of a listener stays in use.
    pub(super) fn keeps(&self, open: &Arc<Listening>) -> bool {
        let mut changed = self.changed.iter().map(|(old, _)| old);
        let mut kept = self.kept.iter();
        kept.any(|one| Arc::ptr_eq(one, open)) || changed.any(|one| Arc::ptr_eq(one, open))
    }

    /// Returns `true` if a listener has lost its socket to a new one, which serves its clients from now
    /// on.
    pub(super) fn moves(&self, open: &Arc<Listening>) -> bool {
        self.taken
            .iter()
            .any(|taken| Arc::ptr_eq(&taken.from, open))
    }

    /// Opens the listeners that are new, and takes the certificates of the others. Those that overlap with old
    /// ones are left to [`Changes::open_blocked`].
    ///
    /// # Errors
    ///
    /// What cannot be opened or read.
    pub(super) fn prepare(
        &mut self,
        config: &Config,
        tls: &mut TlsFiles,
        open: &[Arc<Listening>],
        on: Ground<'_>,
    ) -> Result<(), StartError> {
        let mut new = Vec::new();
        for listener in &config.listeners {
            let (name, value) = (&listener.name, &listener.value);
            // One with the same address may have another name, if that of its name is elsewhere.
            let stays = |open: &Listening| {
                let mut own = config.listeners.iter().filter(|one| one.name == open.name);
                own.any(|one| open.is_at(&one.value.at))
            };
            let mut same = open.iter().filter(|open| {
                open.is_at(&value.at) && (open.name == *name || !stays(open)) && !self.keeps(open)
            });
            match same.next() {
                Some(open) if open.name == *name && open.fits(value) => {
                    self.certificates.extend(open.new_certificates(tls)?);
                    self.kept.push(Arc::clone(open));
                }
                Some(open) => {
                    let prepared = Prepared::new(listener, tls, on.parts)?;
                    self.changed.push((Arc::clone(open), prepared));
                }
                None => new.push(listener),
            }
        }
        // Which ones go is known now.
        for listener in new {
            let prepared = Prepared::new(listener, tls, on.parts)?;
            match prepared.clone().open(on.lives, on.parts, false) {
                Ok(open) => self.added.push(Arc::new(open)),
                Err(why) if why.is_in_use() && self.is_blocked(&prepared, open) => {
                    self.blocked.push(prepared);
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Opens the new listeners that overlap with old ones, which then have no socket any more: one of
    /// [`Changes::accept_last`] and [`Changes::give_back`] follows.
    ///
    /// # Errors
    ///
    /// What cannot be opened.
    pub(super) fn open_blocked(
        &mut self,
        open: &[Arc<Listening>],
        on: Ground<'_>,
    ) -> Result<(), StartError> {
        for prepared in std::mem::take(&mut self.blocked) {
            let old = self.overlapping(&prepared, open);
            let old: Vec<_> = old.filter(|open| !self.moves(open)).cloned().collect();
            let released = old.into_iter().filter_map(|old| {
                let by = prepared.clone();
                let (from, socket) = (Arc::clone(&old), old.release().ok()?);
                share(&socket, true);
                Some(Taken { from, socket, by })
            });
            self.taken.extend(released);
            let open = prepared.open(on.lives, on.parts, true)?;
            self.added.push(Arc::new(open));
        }
        Ok(())
    }

    /// Opens listeners on the sockets of old ones that accept the clients that wait there, and nothing
    /// more.
    pub(super) fn accept_last(&mut self, on: Ground<'_>) -> Vec<Arc<Listening>> {
        let taken = std::mem::take(&mut self.taken).into_iter();
        taken.filter_map(|taken| taken.accept_last(on)).collect()
    }

    /// Opens the old listeners again that have lost their sockets: the reload has failed. Returns each
    /// with what has its socket now.
    pub(super) fn give_back(&mut self, on: Ground<'_>) -> Restored {
        let taken = std::mem::take(&mut self.taken).into_iter();
        taken.map(|taken| taken.give_back(on)).collect()
    }

    /// Returns `true` if an old listener that goes overlaps with a new one.
    fn is_blocked(&self, new: &Prepared, open: &[Arc<Listening>]) -> bool {
        self.overlapping(new, open).next().is_some()
    }

    /// Returns the old listeners that go and overlap with a new one.
    fn overlapping<'a>(
        &'a self,
        new: &'a Prepared,
        open: &'a [Arc<Listening>],
    ) -> impl Iterator<Item = &'a Arc<Listening>> {
        let goes = |open: &&Arc<Listening>| !self.keeps(open);
        let open = open.iter().filter(goes);
        open.filter(|open| open.overlaps(new.at()))
    }
}

impl Taken {
    /// Accepts the clients that wait, under the new settings, and closes the socket.
    fn accept_last(self, on: Ground<'_>) -> Option<Arc<Listening>> {
        match self.by.open_on(self.socket, None, on.lives, on.parts) {
            Ok(last) => {
                // Until no client waits any more. It fails only if the gateway ends.
                let _ = last.server.server().stop_accepting().wait();
                Some(Arc::new(last))
            }
            Err(why) => {
                let what = format!("clients that waited are lost: {why}");
                on.parts.reports.problems.report("listen", what);
                None
            }
        }
    }

    /// Opens the old listener again, on its socket.
    fn give_back(self, on: Ground<'_>) -> (Arc<Listening>, Result<Listening, StartError>) {
        share(&self.socket, false);
        let old = Prepared::again(&self.from);
        let opened = old.open_on(self.socket, self.from.path(), on.lives, on.parts);
        (self.from, opened)
    }
}

/// Sets whether another socket may have an address that overlaps with that of this one.
fn share(socket: &Socket, yes: bool) {
    if let Socket::Tcp(socket) = socket {
        // Without it, binding fails, and says so.
        let _ = set_socket_reuseport(socket, yes);
    }
}

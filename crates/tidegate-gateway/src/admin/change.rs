//! What an operator changes. Each change is an event.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::isolate::{Properties, PropertySource as _};

use super::controls::Controls;
use super::event::{Events, WallTime};
use super::place::{BreakerOrder, Place};
use super::unused::{self, Unused};
use crate::command::{why_refused, why_without_effect, why_wrong};
use crate::json::{Object, array, quoted};

/// The status and the JSON of a response.
pub(super) type Answer = (u16, String);

/// Makes changes.
#[derive(Clone)]
pub(super) struct Changes {
    pub(super) controls: Arc<dyn Controls>,
    pub(super) events: Arc<Events>,
    pub(super) wall: WallTime,
    pub(super) unused: Arc<Unused>,
    /// One change of properties at a time: one that is refused is taken back.
    pub(super) one: Arc<Mutex<()>>,
}

impl Changes {
    /// Makes the change of an endpoint. `value` is the body of the request; `None` for `DELETE`.
    pub(super) fn make(
        &self,
        place: &Place,
        value: Option<&str>,
        peer: Option<SocketAddr>,
    ) -> Answer {
        let one = match place {
            Place::Property(_) | Place::Breaker(..) => Some(&self.one),
            _ => None,
        };
        let one = one.map(|one| one.lock().unwrap_or_else(PoisonError::into_inner));
        let made = match place {
            Place::Property(name) => self.property(name, value),
            Place::Breaker(key, order) => self.breaker(key, *order),
            Place::Server {
                upstream,
                server,
                draining,
            } => self.server(upstream, server, *draining),
            Place::Knob(name, choice) => {
                let turned = self.controls.turn(name, choice);
                turned.map_err(|why| (404, why))
            }
            Place::Reload => return self.reload(peer),
            _ => Err((404, "there is no such change".to_owned())),
        };
        drop(one);
        match made {
            Ok(what) => {
                self.note(peer, &what);
                (200, Object::new().text("done", &what).end())
            }
            Err((status, why)) => (status, error(&why)),
        }
    }

    fn note(&self, peer: Option<SocketAddr>, what: &str) {
        let origin = match peer {
            Some(peer) => format!("admin {peer}"),
            None => "admin".to_owned(),
        };
        self.events.add((self.wall)(), origin, what);
    }

    fn property(&self, name: &str, value: Option<&str>) -> Result<String, (u16, String)> {
        let properties = self.controls.properties();
        let Some(value) = value.map(str::trim) else {
            if properties.get(name).is_none() {
                return Err((404, format!("`{name}` is not set")));
            }
            let removed = properties.remove(name);
            removed.map_err(|why| (422, why.to_string()))?;
            return Ok(format!("{name} removed"));
        };
        let refuse = |why: &str| (422, format!("`{name}` cannot be set: {why}"));
        if let Some(why) = why_refused(name, value) {
            return Err(refuse(why));
        }
        if let Some(why) = why_wrong(name, value, self.controls.isolation()) {
            return Err((422, why));
        }
        let Some(_place) = self.unused.reserve(name, &*self.controls) else {
            let most = unused::MOST;
            let what =
                format!("`{name}` is not set: its route does not exist, and {most} others of");
            return Err((
                409,
                format!("{what} this kind are set already; remove some"),
            ));
        };
        let before = properties.get(name);
        let set = properties.set(name, value);
        set.map_err(|why| (422, why.to_string()))?;
        if let Some(why) = why_without_effect(name, value, self.controls.isolation()) {
            // It was not in force, so this changes nothing either.
            restore(properties, name, before).map_err(|why| (422, why))?;
            return Err(refuse(why));
        }
        Ok(format!("{name} = {value}"))
    }

    fn breaker(&self, key: &str, order: BreakerOrder) -> Result<String, (u16, String)> {
        let isolation = self.controls.isolation();
        let mut known = isolation.snapshots().into_iter();
        if !known.any(|command| command.key.as_str() == key) {
            return Err((404, format!("there is no command `{key}`")));
        }
        let properties = self.controls.properties();
        let [open, closed] = ["forceOpen", "forceClosed"].map(|name| forcing(key, name));
        let before = [&open, &closed].map(|name| properties.get(name));
        let forced = match order {
            BreakerOrder::Open => force(properties, key, true, false),
            BreakerOrder::Close => force(properties, key, false, true),
            BreakerOrder::Auto => force(properties, key, false, false),
            BreakerOrder::Reset => {
                isolation.reset_breaker(key);
                Ok(())
            }
        };
        forced.map_err(|why| (422, why))?;
        if matches!(order, BreakerOrder::Close)
            && let Some(why) = why_without_effect(&closed, "true", isolation)
        {
            for (name, before) in [closed, open].iter().zip(before.into_iter().rev()) {
                restore(properties, name, before).map_err(|why| (422, why))?;
            }
            return Err((
                422,
                format!("the breaker of `{key}` cannot be closed: {why}"),
            ));
        }
        Ok(format!("breaker of {key}: {}", word(order)))
    }

    fn server(
        &self,
        upstream: &str,
        server: &str,
        draining: bool,
    ) -> Result<String, (u16, String)> {
        match self.controls.drain_server(upstream, server, draining) {
            true if draining => Ok(format!("upstream.{upstream} {server}: drains")),
            true => Ok(format!(
                "upstream.{upstream} {server}: takes requests again"
            )),
            false => Err((
                404,
                format!("upstream `{upstream}` has no server `{server}`"),
            )),
        }
    }

    fn reload(&self, peer: Option<SocketAddr>) -> Answer {
        match self.controls.reload() {
            Ok(notes) => {
                self.note(peer, "reload");
                let notes = array(notes.iter().map(|note| quoted(note)));
                (
                    200,
                    Object::new()
                        .text("done", "reload")
                        .raw("notes", notes)
                        .end(),
                )
            }
            Err(why) => (422, error(&why)),
        }
    }
}

/// Returns an error as JSON.
pub(super) fn error(why: &str) -> String {
    Object::new().text("error", why).end()
}

/// Forces a breaker open or closed. The opposite order is removed first: while both are there, one
/// of them has no effect, which would be reported.
fn force(properties: &Properties, key: &str, open: bool, closed: bool) -> Result<(), String> {
    let mut orders = [("forceOpen", open), ("forceClosed", closed)];
    orders.sort_by_key(|(_, on)| *on);
    for (name, on) in orders {
        let name = forcing(key, name);
        let changed = match on {
            true => properties.set(&name, "true"),
            false => properties.remove(&name),
        };
        changed.map_err(|why| why.to_string())?;
    }
    Ok(())
}

/// Returns the property of a command that forces its breaker.
fn forcing(key: &str, name: &str) -> String {
    format!("hystrix.command.{key}.circuitBreaker.{name}")
}

/// Gives a property the value that it had before.
fn restore(properties: &Properties, name: &str, before: Option<String>) -> Result<(), String> {
    let restored = match before {
        Some(before) => properties.set(name, &before),
        None => properties.remove(name),
    };
    restored.map_err(|why| why.to_string())
}

fn word(order: BreakerOrder) -> &'static str {
    match order {
        BreakerOrder::Open => "forced open",
        BreakerOrder::Close => "forced closed",
        BreakerOrder::Auto => "decides itself",
        BreakerOrder::Reset => "reset",
    }
}

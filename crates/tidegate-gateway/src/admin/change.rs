//! What an operator changes. Each change is an event.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tidegate::isolate::{Isolation, Properties, PropertySource as _};
use tidegate_core::internal::lock;

use super::controls::Controls;
use super::event::{Events, WallTime};
use super::place::{BreakerOrder, Place};
use crate::json::{Object, array, quoted};

/// The status and the JSON of a response.
pub(super) type Answer = (u16, String);

/// Makes changes.
#[derive(Clone)]
pub(super) struct Changes {
    pub(super) controls: Arc<dyn Controls>,
    pub(super) events: Arc<Events>,
    pub(super) wall: WallTime,
    /// One change of a setting or a breaker at a time.
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
            Place::Setting(_) | Place::Breaker(..) => Some(&self.one),
            _ => None,
        };
        let one = one.map(|one| lock(one));
        let made = match place {
            Place::Setting(path) => self.setting(path, value),
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

    fn setting(&self, path: &str, value: Option<&str>) -> Result<String, (u16, String)> {
        let value = value.map(str::trim);
        let set = self.controls.set(path, value);
        set.map_err(|why| (why.status(), why.to_string()))?;
        Ok(match value {
            Some(value) => format!("{path} = {value}"),
            None => format!("{path} removed"),
        })
    }

    fn breaker(&self, key: &str, order: BreakerOrder) -> Result<String, (u16, String)> {
        let isolation = self.controls.isolation();
        let mut known = isolation.snapshots().into_iter();
        if !known.any(|command| command.key.as_str() == key) {
            return Err((404, format!("there is no command `{key}`")));
        }
        let properties = self.controls.properties();
        if matches!(order, BreakerOrder::Close) {
            check_closed(properties, isolation, key).map_err(|why| (422, why))?;
        }
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

/// Checks that a breaker can be forced closed. An order to be open hides whether there is a breaker, so it is
/// removed before; it stays if there is none.
fn check_closed(properties: &Properties, isolation: &Isolation, key: &str) -> Result<(), String> {
    let open = forcing(key, "forceOpen");
    let before = properties.get(&open);
    properties.remove(&open).map_err(|why| why.to_string())?;
    let all = isolation.settings();
    let mut own = all.iter().filter(|one| one.command.as_str() == key);
    let enabled = own.next().and_then(|one| one.get("circuitBreaker.enabled"));
    if enabled.is_none_or(|enabled| enabled.value != "false") {
        return Ok(());
    }
    if let Some(before) = before {
        let restored = properties.set(&open, &before);
        restored.map_err(|why| why.to_string())?;
    }
    let why = "the route has no breaker, so it is closed unless it is forced open";
    Err(format!("the breaker of `{key}` cannot be closed: {why}"))
}

fn word(order: BreakerOrder) -> &'static str {
    match order {
        BreakerOrder::Open => "forced open",
        BreakerOrder::Close => "forced closed",
        BreakerOrder::Auto => "decides itself",
        BreakerOrder::Reset => "reset",
    }
}

//! Which endpoint a path is, which methods it has, and what it needs.

use std::borrow::Cow;

/// What a request needs to use an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing.
    Open,
    /// Our own host: the page itself, which contains no data.
    Page,
    /// To read, where that is not free.
    Read,
    /// To change the state.
    Change,
}

/// What happens to a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerOrder {
    /// It is open until another order.
    Open,
    /// It is closed until another order.
    Close,
    /// It decides itself again.
    Auto,
    /// It is closed and forgets what it has counted.
    Reset,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Live,
    Ready,
    Metrics,
    /// `hystrix.stream`.
    Stream,
    /// The page.
    Page,
    /// Its frames.
    PageEvents,
    /// The history of a route.
    PageRoute,
    /// Everything, for a file.
    PageSave,
    Snapshot,
    Settings,
    Events,
    Dump,
    Setting(String),
    Breaker(String, BreakerOrder),
    Server {
        upstream: String,
        server: String,
        draining: bool,
    },
    Reload,
    Knob(String, String),
}

impl Place {
    /// Returns the endpoint of a path.
    pub(super) fn find(path: &str) -> Option<Self> {
        let parts: Option<Vec<_>> = path.strip_prefix('/')?.split('/').map(decoded).collect();
        let parts = parts?;
        let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
        Some(match parts.as_slice() {
            [""] => Self::Page,
            ["page", "events"] => Self::PageEvents,
            ["page", "route"] => Self::PageRoute,
            ["page", "save"] => Self::PageSave,
            ["live"] => Self::Live,
            ["ready"] => Self::Ready,
            ["metrics"] => Self::Metrics,
            ["hystrix.stream"] => Self::Stream,
            ["api", "snapshot"] => Self::Snapshot,
            ["api", "settings"] => Self::Settings,
            ["api", "events"] => Self::Events,
            ["api", "dump"] => Self::Dump,
            ["api", "reload"] => Self::Reload,
            ["api", "knobs", name, choice] => Self::Knob((*name).to_owned(), (*choice).to_owned()),
            ["api", "settings", path] => Self::Setting((*path).to_owned()),
            ["api", "breakers", key, order] => {
                let order = match *order {
                    "open" => BreakerOrder::Open,
                    "close" => BreakerOrder::Close,
                    "auto" => BreakerOrder::Auto,
                    "reset" => BreakerOrder::Reset,
                    _ => return None,
                };
                Self::Breaker((*key).to_owned(), order)
            }
            [
                "api",
                "servers",
                upstream,
                server,
                order @ ("drain" | "resume"),
            ] => Self::Server {
                upstream: (*upstream).to_owned(),
                server: (*server).to_owned(),
                draining: *order == "drain",
            },
            _ => return None,
        })
    }

    /// Returns the methods of the endpoint, as in the field `Allow`.
    pub(super) fn methods(&self) -> &'static str {
        match self {
            Self::Stream | Self::PageEvents => "GET",
            Self::Setting(_) => "PUT, DELETE",
            Self::Breaker(..) | Self::Server { .. } | Self::Reload | Self::Knob(..) => "POST",
            _ => "GET, HEAD",
        }
    }

    /// Returns `true` if the endpoint has a method.
    pub(super) fn allows(&self, method: &str) -> bool {
        self.methods().split(", ").any(|allowed| allowed == method)
    }

    /// Returns `true` if a page of another origin must not ask for it: a change, or a stream, of which
    /// only so many can be open.
    pub(super) fn is_for_own_origin(&self) -> bool {
        self.need() == Need::Change || matches!(self, Self::PageEvents | Self::Stream)
    }

    /// Returns what a request needs.
    pub(super) fn need(&self) -> Need {
        match self {
            Self::Live | Self::Ready => Need::Open,
            Self::Page => Need::Page,
            Self::Setting(_)
            | Self::Breaker(..)
            | Self::Server { .. }
            | Self::Reload
            | Self::Knob(..) => Need::Change,
            _ => Need::Read,
        }
    }
}

/// Decodes percent signs. Returns `None` if that is no text.
pub(super) fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once('%') {
        let digits = behind
            .get(..2)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        decoded.extend_from_slice(before.as_bytes());
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &behind[2..];
    }
    decoded.extend_from_slice(rest.as_bytes());
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    //! One row for each endpoint.

    use super::{BreakerOrder, Need, Place};

    #[test]
    fn each_path_has_its_endpoint_methods_and_needs() {
        let breaker = |order| Place::Breaker("a".into(), order);
        let server = |server: &str, draining| Place::Server {
            upstream: "u".into(),
            server: server.into(),
            draining,
        };
        let rows = [
            ("/live", Place::Live, "GET", Need::Open),
            ("/ready", Place::Ready, "HEAD", Need::Open),
            ("/", Place::Page, "GET", Need::Page),
            ("/page/events", Place::PageEvents, "GET", Need::Read),
            ("/page/route", Place::PageRoute, "GET", Need::Read),
            ("/page/save", Place::PageSave, "GET", Need::Read),
            (
                "/api/knobs/flaky/dead",
                Place::Knob("flaky".into(), "dead".into()),
                "POST",
                Need::Change,
            ),
            ("/metrics", Place::Metrics, "GET", Need::Read),
            ("/hystrix.stream", Place::Stream, "GET", Need::Read),
            ("/api/snapshot", Place::Snapshot, "GET", Need::Read),
            ("/api/settings", Place::Settings, "GET", Need::Read),
            ("/api/events", Place::Events, "GET", Need::Read),
            ("/api/dump", Place::Dump, "GET", Need::Read),
            ("/api/reload", Place::Reload, "POST", Need::Change),
            (
                "/api/settings/a.b",
                Place::Setting("a.b".into()),
                "PUT",
                Need::Change,
            ),
            (
                "/api/breakers/a/open",
                breaker(BreakerOrder::Open),
                "POST",
                Need::Change,
            ),
            (
                "/api/breakers/a/reset",
                breaker(BreakerOrder::Reset),
                "POST",
                Need::Change,
            ),
            (
                "/api/servers/u/10.0.0.1:80/drain",
                server("10.0.0.1:80", true),
                "POST",
                Need::Change,
            ),
            (
                "/api/servers/u/unix:%2Frun%2Fa/resume",
                server("unix:/run/a", false),
                "POST",
                Need::Change,
            ),
        ];
        for (path, place, method, need) in rows {
            assert_eq!(Place::find(path).as_ref(), Some(&place), "{path}");
            assert!(place.allows(method) && !place.allows("OPTIONS"), "{path}");
            assert_eq!(place.allows("GET"), need != Need::Change, "{path}");
            assert_eq!(place.need(), need, "{path}");
        }
        for path in [
            "//",
            "/live/",
            "/api",
            "/api/breakers/a/melt",
            "/api/settings/%zz",
            "live",
        ] {
            assert_eq!(Place::find(path), None, "{path}");
        }
    }
}

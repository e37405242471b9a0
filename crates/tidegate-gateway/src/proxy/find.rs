//! The route of a request.

use std::borrow::Cow;

use tidegate::http::Method;
use tidegate::http::codec::{RequestHead, TargetForm};

use super::live::{Live, RouteState};
use crate::route::{RouteRequest, normal_bytes};

/// Why a request has no route.
pub(super) struct NoRoute {
    pub(super) status: u16,
    /// The word in the log.
    pub(super) word: &'static str,
    pub(super) text: &'static str,
}

/// Returns the route of a request for this host, and its path in normal form.
pub(super) fn find<'a, 'l>(
    live: &'l Live,
    head: &RequestHead<'a>,
    host: &str,
) -> Result<(&'l RouteState, Cow<'a, [u8]>), NoRoute> {
    let refused = |status, word, text| NoRoute { status, word, text };
    let is_connect = head.method() == Method::Connect;
    let path = match head.form() {
        _ if is_connect => b"/",
        // It is about the whole server, which is what a route of all paths stands for.
        TargetForm::Asterisk => b"/",
        _ => head.path_bytes(),
    };
    let path = normal_bytes(path);
    let path = path.ok_or(refused(400, "path", "the path is not valid\n"))?;
    let has_header = |name: &str, value: &str| {
        let mut values = head.get_all(name);
        values.any(|own| value.is_empty() || own == value.as_bytes())
    };
    let asked = RouteRequest {
        host,
        path: &path,
        method: head.method().as_str(),
        has_header: &has_header,
    };
    let found = live.config.table.find(&asked);
    if found.is_none() && is_connect {
        return Err(refused(405, "method", "CONNECT is not allowed\n"));
    }
    let text = "there is no route for this request\n";
    let found = found.ok_or(refused(404, "no_route", text))?;
    Ok((&*live.routes[found], path))
}

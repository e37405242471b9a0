//! `tidegate explain`: the route of a request, and each of its settings with its origin.

use std::fmt::Write as _;

use tidegate::http::codec::{BodyLimits, HeadLimits, HeadTable, RequestDecoder};

use super::load::{Config, Named};
use super::notation::show_duration;
use super::setting::{Origin, Source};
use super::source::Sources;
use super::types::Route;
use crate::route::{RouteRequest, normal, without_port};

/// A request to explain.
#[derive(Clone, PartialEq, Eq)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// The host in lower case, without a port.
    pub host: String,
    /// The path in normal form.
    pub path: String,
    /// The fields, with their names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Asked {
    /// Creates a request from a method, a URL or a path, and fields such as `accept: text/html`.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn new(method: &str, url: &str, headers: &[String]) -> Result<Self, String> {
        let (host, target) = match url.split_once("://") {
            // `CONNECT` has a host and a port in place of a URL.
            _ if method == "CONNECT" && !url.contains('/') => (url, ""),
            // The query may have a URL.
            _ if url.starts_with('/') => ("", url),
            Some((_, rest)) => {
                // Clients keep the fragment for themselves.
                let rest = rest.split('#').next().unwrap_or_default();
                rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()))
            }
            None => return Err("the URL is neither `http://host/path` nor `/path`".to_owned()),
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        would_be_read(method, host, target)?;
        let path = target.split('?').next().unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path };
        let path = normal(path).ok_or("the gateway refuses the path with status 400")?;
        let headers = headers
            .iter()
            .map(|header| -> Result<(String, String), String> {
                let (name, value) = header.split_once(':').ok_or("a header is `name: value`")?;
                Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
            });
        Ok(Self {
            method: method.to_owned(),
            host: without_port(host).to_ascii_lowercase(),
            path: path.into_owned(),
            headers: headers.collect::<Result<_, String>>()?,
        })
    }

    /// Returns the position of the route that takes the request.
    pub fn route(&self, config: &Config) -> Option<usize> {
        let has_header = |name: &str, value: &str| {
            let found = self.headers.iter();
            let mut found = found.filter(|(own, _)| own.eq_ignore_ascii_case(name));
            found.any(|(_, v)| value.is_empty() || v == value)
        };
        config.table.find(&RouteRequest {
            host: &self.host,
            path: self.path.as_bytes(),
            method: &self.method,
            has_header: &has_header,
        })
    }
}

/// Checks that a listener reads such a request.
///
/// # Errors
///
/// With which status it is refused, and why.
fn would_be_read(method: &str, host: &str, target: &str) -> Result<(), String> {
    let target = match target {
        "" if method == "CONNECT" => host.to_owned(),
        target if target.starts_with('/') => target.to_owned(),
        target => format!("/{target}"),
    };
    let host = if host.is_empty() { "localhost" } else { host };
    let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    match decoder.head(head.as_bytes(), &mut HeadTable::new()) {
        Ok(Some(read)) if read.len() == head.len() => Ok(()),
        Ok(_) => Err("the gateway refuses the request with status 400".to_owned()),
        Err(why) => {
            let (status, word) = (why.status(), why.word());
            Err(format!(
                "the gateway refuses the request with status {status}: {word}"
            ))
        }
    }
}

// Prints no fields: they may contain secrets.
tidegate_core::debug_fields!(Asked, this => method: this.method, host: this.host, path: this.path);

/// Explains what the gateway does with a request. Secrets are not shown.
pub fn explain(config: &Config, sources: &Sources, asked: &Asked) -> String {
    let mut text = String::new();
    let Some(route) = asked.route(config).map(|index| &config.routes[index]) else {
        let (method, path) = (&asked.method, &asked.path);
        let status = if method == "CONNECT" { 405 } else { 404 };
        let _ = writeln!(text, "no route takes {method} {path}: status {status}");
        return text;
    };
    let _ = writeln!(
        text,
        "route    {}  ({})",
        route.name,
        sources.place(route.at)
    );
    let _ = writeln!(text, "command  {}", route.name);
    write_times(&mut text, route);
    list(&mut text, config, sources, &format!("route.{}", route.name));
    let fallback = route
        .value
        .fallback
        .as_ref()
        .and_then(|f| f.upstream.as_ref());
    for name in route.value.upstream.iter().chain(fallback) {
        if let Some(upstream) = config.upstream(name) {
            let place = sources.place(upstream.at);
            let _ = writeln!(text, "\nupstream {}  ({place})", upstream.name);
            list(
                &mut text,
                config,
                sources,
                &format!("upstream.{}", upstream.name),
            );
        }
    }
    text
}

/// Writes how the time of a route is divided between its attempts and the upstream of its fallback.
fn write_times(text: &mut String, route: &Named<Route>) {
    let value = &route.value;
    let (Some(whole), Some(attempts), Some(fallback)) =
        (value.timeout, value.attempts_time(), value.fallback_time())
    else {
        return;
    };
    let [whole, attempts, fallback] = [whole, attempts, fallback].map(show_duration);
    let _ = writeln!(
        text,
        "times    at most {whole}: {attempts} with all attempts, then the fallback with what is left, \
         at least {fallback}"
    );
}

/// Writes the settings of a section: key, value, origin.
fn list(text: &mut String, config: &Config, sources: &Sources, section: &str) {
    let prefix = format!("{section}.");
    let settings: Vec<(&str, &Origin)> = config
        .origins
        .iter()
        .filter_map(|origin| Some((origin.path.strip_prefix(&prefix)?, origin)))
        .collect();
    let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let keys = widest(&mut settings.iter().map(|(key, _)| key.chars().count()));
    let values = widest(&mut settings.iter().map(|(_, o)| o.shown.chars().count())).min(40);
    for (key, origin) in settings {
        let from = match origin.source {
            Source::Own(at) => sources.place(at).to_string(),
            Source::Inherited(at) => format!("{} (inherited)", sources.place(at)),
            Source::Default => "default".to_owned(),
        };
        let shown = &origin.shown;
        let _ = writeln!(text, "  {key:<keys$}  {shown:<values$}  {from}");
    }
}

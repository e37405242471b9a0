//! The address of a request: `http://host:port/path?query`.

use std::net::IpAddr;

use crate::codec::{Method, chars};

/// The parts of a URL that a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) secure: bool,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of the field `Host`: without the port if it is that of the scheme.
    pub(super) authority: String,
    /// Path and query, as they are sent.
    pub(super) target: String,
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to do.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err("it has no scheme; write `http://host/path`");
        };
        let secure = match scheme {
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ => return Err("its scheme is neither `http` nor `https`"),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (host, port) = split_authority(authority, secure)?;
        let target = rest.split('#').next().unwrap_or_default();
        if !chars::is_target(target.as_bytes()) {
            return Err("its path has a space or another byte that must be percent-encoded");
        }
        let target = match target.starts_with('/') {
            true => target.to_owned(),
            false => format!("/{target}"),
        };
        let name = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.clone(),
        };
        let authority = match port == default_port(secure) {
            true => name,
            false => format!("{name}:{port}"),
        };
        Ok(Self {
            secure,
            host,
            port,
            authority,
            target,
        })
    }

    /// Returns the address of a request for a tunnel to `to`, a host and a port, through a proxy. Of
    /// the URL of the proxy, only scheme, host and port count.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to do.
    pub(super) fn tunnel(proxy: &str, to: &str) -> Result<Self, &'static str> {
        const NO_PORT: &str = "the end of the tunnel has no port; write `host:port`";
        let mut url = Self::parse(proxy)?;
        let end = to.rfind(']').map_or(0, |end| end + 1);
        if !to[end..].contains(':') {
            return Err(NO_PORT);
        }
        let (host, port) = split_authority(to, false)?;
        url.target = match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        url.authority = url.target.clone();
        Ok(url)
    }

    /// Returns the name of the proxy of a tunnel in errors.
    pub(super) fn proxy(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let name = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        format!("CONNECT {scheme}://{name}:{}", self.port)
    }

    /// Returns the URL to which `location` leads from this one.
    pub(super) fn join(&self, location: &str) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        if let Some(rest) = location.strip_prefix("//") {
            return format!("{scheme}://{rest}");
        }
        let end = location.find(['/', '?', '#']).unwrap_or(location.len());
        if location[..end].contains(':') {
            return location.to_owned();
        }
        let path = self.target.split('?').next().unwrap_or_default();
        let directory = path.rfind('/').map_or("/", |end| &path[..=end]);
        let start = match location.bytes().next() {
            Some(b'/') => "",
            Some(b'?') => path,
            None | Some(b'#') => self.target.as_str(),
            Some(_) => directory,
        };
        format!("{scheme}://{}{start}{location}", self.authority)
    }

    /// Returns the name of a request in errors, without its query, which may contain secrets.
    pub(super) fn label(&self, method: Method<'_>) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let path = self.target.split('?').next().unwrap_or_default();
        format!("{method} {scheme}://{}{path}", self.authority)
    }
}

fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

fn split_authority(authority: &str, secure: bool) -> Result<(String, u16), &'static str> {
    const NO_HOST: &str = "it has no host; write `http://host/path`";
    if authority.contains('@') {
        return Err("it has a user name or a password; send them as a field `Authorization`");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("its `[` has no `]`")?;
            match host.parse::<IpAddr>() {
                Ok(IpAddr::V6(_)) => (host, port),
                _ => return Err("what is in its brackets is no IPv6 address"),
            }
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, port) = authority.split_at(end);
            let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            if host.is_empty() {
                return Err(NO_HOST);
            }
            if !host.bytes().all(valid) {
                return Err("its host has a byte that no host name has; use the ASCII form");
            }
            (host, port)
        }
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => default_port(secure),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err("its port is not a number from 1 to 65535"),
        },
        _ => return Err("its port is not a number from 1 to 65535"),
    };
    Ok((host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    //! URLs that are accepted, and those that are not.

    use super::*;

    #[test]
    fn a_url_has_a_host_a_port_and_a_target() {
        let table = [
            ("http://a", (false, "a", 80, "a", "/")),
            ("HTTPS://A.b/", (true, "a.b", 443, "a.b", "/")),
            (
                "http://a:8080/x/y?z=1#f",
                (false, "a", 8080, "a:8080", "/x/y?z=1"),
            ),
            ("http://a?q", (false, "a", 80, "a", "/?q")),
            ("http://a#f", (false, "a", 80, "a", "/")),
            ("http://a:80/", (false, "a", 80, "a", "/")),
            ("https://a:80", (true, "a", 80, "a:80", "/")),
            ("http://[::1]:7/", (false, "::1", 7, "[::1]:7", "/")),
            ("http://[::1]", (false, "::1", 80, "[::1]", "/")),
            (
                "http://127.0.0.1/a%20b",
                (false, "127.0.0.1", 80, "127.0.0.1", "/a%20b"),
            ),
            (
                "http://a/b|c?d={e}\\",
                (false, "a", 80, "a", "/b|c?d={e}\\"),
            ),
        ];
        for (text, (secure, host, port, authority, target)) in table {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (url.secure, url.host.as_str(), url.port),
                (secure, host, port),
                "{text}"
            );
            assert_eq!(
                (url.authority.as_str(), url.target.as_str()),
                (authority, target),
                "{text}"
            );
        }
    }

    #[test]
    fn a_location_is_relative_to_the_url() {
        let from = Url::parse("https://a:8443/x/y?z").unwrap();
        let table = [
            ("http://b/c", "http://b/c"),
            ("//b/c", "https://b/c"),
            ("/c?d", "https://a:8443/c?d"),
            ("c:d/e", "c:d/e"),
            ("c/d:e", "https://a:8443/x/c/d:e"),
            ("?d", "https://a:8443/x/y?d"),
            ("#f", "https://a:8443/x/y?z#f"),
            ("", "https://a:8443/x/y?z"),
        ];
        for (location, url) in table {
            assert_eq!(from.join(location), url, "{location}");
        }
    }

    #[test]
    fn everything_else_is_an_error_that_says_what_to_do() {
        let table = [
            ("", "scheme"),
            ("a/b", "scheme"),
            ("ftp://a", "scheme"),
            ("http://", "no host"),
            ("http:///x", "no host"),
            ("http://:80", "no host"),
            ("http://u:p@a/", "user name"),
            ("http://a:0", "port"),
            ("http://a:65536", "port"),
            ("http://a:+1", "port"),
            ("http://a:", "port"),
            ("http://a b/", "host"),
            ("http://\u{e9}/", "ASCII"),
            ("http://[::1", "`]`"),
            ("http://[a]/", "IPv6"),
            ("http://[::1]x/", "port"),
            ("http://a/b c", "percent-encoded"),
            ("http://a/b\r\nHost: c", "percent-encoded"),
            ("http://a/\u{e9}", "percent-encoded"),
            ("http://a/b\\c", "percent-encoded"),
            ("http://a/?b=\"c\"", "percent-encoded"),
        ];
        for (text, what) in table {
            let why = Url::parse(text).unwrap_err();
            assert!(why.contains(what), "{text:?}: {why}");
        }
    }
}

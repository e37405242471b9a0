//! What is called: the URL, and the bytes of a request.

use tidegate::http::codec::encode;
use tidegate::http::{Method, codec::BodyFraming};
use tidegate::net::Bytes;

/// The server and the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The host without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The request as it is sent.
    pub(crate) request: Bytes,
    /// The request is a `HEAD`, so that its response has no body.
    pub(crate) is_head: bool,
}

impl Target {
    /// Makes a request to a URL.
    ///
    /// # Errors
    ///
    /// What is wrong, as a sentence.
    pub fn new(url: &str, method: &str, fields: &[String], body: &[u8]) -> Result<Self, String> {
        let (authority, path) = split(url).map_err(|why| format!("`{url}`: {why}"))?;
        let (host, port) = host_and_port(authority).map_err(|why| format!("`{url}`: {why}"))?;
        let mut out = Vec::new();
        encode::request_line(&mut out, Method::from(method), &path)
            .map_err(|why| format!("`{method} {path}` is not a request: {why}"))?;
        let mut has_host = false;
        for line in fields {
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| format!("`{line}`: a field is `name: value`"))?;
            has_host |= name.trim().eq_ignore_ascii_case("host");
            encode::field(&mut out, name.trim(), value.trim().as_bytes())
                .map_err(|why| format!("`{line}`: {why}"))?;
        }
        if !has_host {
            encode::field(&mut out, "Host", authority.as_bytes())
                .map_err(|why| format!("`{url}`: {why}"))?;
        }
        let framing = BodyFraming::Length(body.len() as u64);
        if !body.is_empty() {
            encode::framing(&mut out, framing);
        }
        encode::head_end(&mut out);
        out.extend_from_slice(body);
        Ok(Self {
            host,
            port,
            request: out.into(),
            is_head: method == "HEAD",
        })
    }
}

/// Splits a URL into its authority and its path with query.
fn split(url: &str) -> Result<(&str, String), &'static str> {
    let rest = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
            return Err("TLS is not measured; use the address of a listener without TLS");
        }
        Some(_) => return Err("its scheme is not `http`"),
        None => return Err("it has no scheme; write `http://host:port/path`"),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let path = rest.split('#').next().unwrap_or_default();
    match path.starts_with('/') {
        true => Ok((authority, path.to_owned())),
        false => Ok((authority, format!("/{path}"))),
    }
}

/// Splits an authority into its host and its port.
fn host_and_port(authority: &str) -> Result<(String, u16), &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => return Err("its address has no closing bracket"),
        },
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() || host.contains('@') {
        return Err("it has no host");
    }
    let port = match port {
        None => 80,
        Some(port) => port.parse().map_err(|_| "its port is not a number")?,
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    //! Requests and mistakes.

    use super::Target;

    #[test]
    fn a_request_has_its_fields_and_its_body() {
        let fields = ["accept: text/html".to_owned()];
        let target = Target::new("http://127.0.0.1:8080/a?b#c", "POST", &fields, b"hi").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("127.0.0.1", 8080));
        let text = String::from_utf8_lossy(&target.request);
        let expected = "POST /a?b HTTP/1.1\r\naccept: text/html\r\nHost: 127.0.0.1:8080\r\n\
                        Content-Length: 2\r\n\r\nhi";
        assert_eq!(text.to_lowercase(), expected.to_lowercase());
        let six = Target::new("http://[::1]", "GET", &["host: x".into()], b"").unwrap();
        assert_eq!((six.host.as_str(), six.port), ("::1", 80));
        let text = String::from_utf8_lossy(&six.request).into_owned();
        assert_eq!(text, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    }

    #[test]
    fn a_mistake_is_a_sentence() {
        for (url, method, field, says) in [
            ("localhost", "GET", "a: b", "it has no scheme"),
            ("https://a/", "GET", "a: b", "TLS is not measured"),
            ("ftp://a/", "GET", "a: b", "scheme is not `http`"),
            ("http://:80/", "GET", "a: b", "it has no host"),
            ("http://a:x/", "GET", "a: b", "port is not a number"),
            ("http://[::1/", "GET", "a: b", "closing bracket"),
            ("http://a/ b", "GET", "a: b", "is not a request"),
            ("http://a/", "G T", "a: b", "is not a request"),
            ("http://a/", "GET", "nothing", "a field is `name: value`"),
            ("http://a/", "GET", "a: b\nc", "`a: b\nc`"),
        ] {
            let why = Target::new(url, method, &[field.to_owned()], b"").unwrap_err();
            assert!(why.contains(says), "{url}: {why}");
        }
    }
}

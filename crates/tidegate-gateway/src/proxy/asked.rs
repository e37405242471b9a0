//! What the requests of a connection ask for: their host, as it was received and as routes see it, and
//! their route.
//!
//! The requests of a connection are usually for the same host, which is then looked at once. If a
//! request has the path of the one before, too, and routes are found by host and path alone, its route
//! is known.

use std::borrow::Cow;

use tidegate::http::Method;
use tidegate::http::codec::{KnownField, RequestHead, TargetForm};

use crate::route::{RouteRequest, Table, normal, without_port};

/// The longest path that is kept for the next request.
const LONGEST: usize = 256;

/// The last request of a connection.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// What the request said about its host, if it said so in its field only.
    field: Option<Vec<u8>>,
    /// With its port. Empty if the request names none.
    host: String,
    /// In lower case, without a port.
    name: String,
    /// The number of the configuration whose route is known for this host and path; 0 if there is
    /// none.
    live: u64,
    /// In normal form, as it was received.
    path: String,
    route: usize,
}

/// Why a request has no route.
#[derive(Debug)]
pub(super) struct NoRoute {
    pub(super) status: u16,
    /// The word in the log.
    pub(super) word: &'static str,
    pub(super) text: &'static str,
}

/// The position of a route, and the path of the request in normal form.
type Found<'p> = Result<(usize, Cow<'p, str>), NoRoute>;

impl Asked {
    /// Returns the host of a request, with its port, and its route in the table of a configuration.
    #[inline]
    pub(super) fn find<'s, 'a: 's>(
        &'s mut self,
        (live, table): (u64, &Table),
        head: &RequestHead<'a>,
    ) -> (&'s str, Found<'s>) {
        self.take_host(head);
        let is_known = self.live == live && self.path.as_bytes() == head.path_bytes();
        let found = match is_known {
            true => Ok((self.route, Cow::Borrowed(self.path.as_str()))),
            false => {
                let found = find(table, head, &self.name);
                self.live = 0;
                if self.field.is_some() && table.needs_path_only() {
                    self.keep(live, &found);
                }
                found
            }
        };
        (&self.host, found)
    }

    /// Takes the host of a request. If it is another one, the route is not known.
    #[inline]
    fn take_host(&mut self, head: &RequestHead<'_>) {
        let field = match head.form() {
            TargetForm::Origin => head.known(KnownField::Host),
            _ => None,
        };
        if field.is_none() || field != self.field.as_deref() {
            self.change_host(head, field);
        }
    }

    #[cold]
    fn change_host(&mut self, head: &RequestHead<'_>, field: Option<&[u8]>) {
        self.live = 0;
        self.field = field.map(<[u8]>::to_vec);
        self.host.clear();
        self.host.push_str(head.authority().unwrap_or_default());
        self.name.clear();
        self.name.push_str(without_port(&self.host));
        self.name.make_ascii_lowercase();
    }

    /// Keeps the route of a path that was received in its normal form.
    fn keep(&mut self, live: u64, found: &Found<'_>) {
        if let Ok((route, Cow::Borrowed(path))) = found
            && path.len() <= LONGEST
        {
            self.path.clear();
            self.path.push_str(path);
            (self.live, self.route) = (live, *route);
        }
    }
}

/// Returns the route of a request for this host, and its path in normal form.
fn find<'a>(table: &Table, head: &RequestHead<'a>, host: &str) -> Found<'a> {
    let refused = |status, word, text| NoRoute { status, word, text };
    let is_connect = head.method() == Method::Connect;
    // It has no path.
    let path = if is_connect { "/" } else { head.path() };
    let path = normal(path);
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
    let found = table.find(&asked);
    if found.is_none() && is_connect {
        return Err(refused(405, "method", "CONNECT is not allowed\n"));
    }
    let text = "there is no route for this request\n";
    let found = found.ok_or(refused(404, "no_route", text))?;
    Ok((found, path))
}

#[cfg(test)]
mod tests {
    //! One row for each request of a connection.

    use tidegate::http::codec::{BodyLimits, HeadLimits, HeadTable, RequestDecoder};

    use super::*;
    use crate::route::{HostPattern, PathPattern, Rule};

    /// Asks with the text of a head. Returns the host, the position of the route, and the path.
    fn ask(
        asked: &mut Asked,
        text: &str,
        (live, table): (u64, &Table),
    ) -> (String, Option<usize>, String) {
        let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
        let mut heads = HeadTable::new();
        let text = format!("{text}\r\n\r\n");
        let head = decoder.head(text.as_bytes(), &mut heads).unwrap().unwrap();
        let (host, found) = asked.find((live, table), &head);
        let (route, path) = match found {
            Ok((route, path)) => (Some(route), path.into_owned()),
            Err(refused) => (None, refused.word.to_owned()),
        };
        (host.to_owned(), route, path)
    }

    fn rule(host: &str, path: &str, methods: &[&str]) -> Rule {
        Rule {
            hosts: vec![HostPattern::parse(host).unwrap()],
            path: PathPattern::parse(path).unwrap(),
            methods: methods.iter().map(ToString::to_string).collect(),
            headers: Default::default(),
        }
    }

    #[test]
    fn each_request_has_its_own_host_and_route() {
        let rules = [("a.example", "/*"), ("a.example", "/x"), ("b", "/*")];
        let rules = rules.map(|(host, path)| rule(host, path, &[]));
        let one = Table::build(rules.to_vec()).0;
        let other = Table::build(rules[1..].to_vec()).0;
        let a = "Host: A.example:80";
        let rows = [
            ("GET /x HTTP/1.0", 1, ("", None, "no_route")),
            (
                &format!("GET /x HTTP/1.1\r\n{a}"),
                1,
                ("A.example:80", Some(1), "/x"),
            ),
            (
                &format!("PUT /x HTTP/1.1\r\n{a}"),
                1,
                ("A.example:80", Some(1), "/x"),
            ),
            (
                &format!("GET /x?q HTTP/1.1\r\n{a}"),
                1,
                ("A.example:80", Some(1), "/x"),
            ),
            (
                &format!("GET /y HTTP/1.1\r\n{a}"),
                1,
                ("A.example:80", Some(0), "/y"),
            ),
            (
                &format!("GET /%79 HTTP/1.1\r\n{a}"),
                1,
                ("A.example:80", Some(0), "/y"),
            ),
            (
                &format!("GET /%79 HTTP/1.1\r\n{a}"),
                1,
                ("A.example:80", Some(0), "/y"),
            ),
            (
                &format!("GET /y HTTP/1.1\r\n{a}"),
                1,
                ("A.example:80", Some(0), "/y"),
            ),
            (
                &format!("GET /y HTTP/1.1\r\n{a}"),
                2,
                ("A.example:80", None, "no_route"),
            ),
            (
                &format!("GET /x HTTP/1.1\r\n{a}"),
                2,
                ("A.example:80", Some(0), "/x"),
            ),
            (
                &format!("GET /x HTTP/1.1\r\n{a}"),
                1,
                ("A.example:80", Some(1), "/x"),
            ),
            ("GET /x HTTP/1.1\r\nHost: b", 1, ("b", Some(2), "/x")),
            (
                "GET http://B:8/x HTTP/1.1\r\nHost: B:8",
                1,
                ("B:8", Some(2), "/x"),
            ),
            ("GET /x HTTP/1.1\r\nHost: B:8", 1, ("B:8", Some(2), "/x")),
            (
                "CONNECT b:443 HTTP/1.1\r\nHost: b:443",
                1,
                ("b:443", None, "method"),
            ),
            ("GET /x HTTP/1.1\r\nHost: b.", 1, ("b.", Some(2), "/x")),
            ("GET /x HTTP/1.0", 1, ("", None, "no_route")),
        ];
        let mut asked = Asked::default();
        for (at, (text, live, (host, route, path))) in rows.into_iter().enumerate() {
            let table = if live == 1 { &one } else { &other };
            let got = ask(&mut asked, text, (live, table));
            assert_eq!(
                got,
                (host.to_owned(), route, path.to_owned()),
                "{at} {text}"
            );
        }
    }

    #[test]
    fn a_route_that_needs_more_than_the_path_is_found_each_time() {
        let rules = vec![rule("a", "/*", &[]), rule("a", "/*", &["PUT"])];
        let table = Table::build(rules).0;
        let mut asked = Asked::default();
        for (method, route) in [("GET", 0), ("PUT", 1), ("GET", 0)] {
            let text = format!("{method} /x HTTP/1.1\r\nHost: a");
            let (_, found, _) = ask(&mut asked, &text, (1, &table));
            assert_eq!(found, Some(route), "{method}");
        }
    }

    #[test]
    fn a_long_path_is_not_kept() {
        let table = Table::build(vec![rule("a", "/*", &[])]).0;
        let mut asked = Asked::default();
        for length in [LONGEST, LONGEST + 1] {
            let path = format!("/{}", "x".repeat(length - 1));
            let text = format!("GET {path} HTTP/1.1\r\nHost: a");
            assert_eq!(ask(&mut asked, &text, (1, &table)).2, path);
            assert_eq!(asked.live == 1, length == LONGEST);
            assert!(asked.path.len() <= LONGEST);
        }
    }
}

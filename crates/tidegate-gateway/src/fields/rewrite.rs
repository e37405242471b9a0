//! What a route changes: the path, the host and fields; and the targets of redirects.

use std::borrow::Cow;

use tidegate::http::codec::{EncodeError, FieldLines, OwnedRequestHead, TargetForm};

use crate::config::types::Rewrite;
use crate::route::PathPattern;

/// The changes of a route, prepared once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rewriting {
    path: Option<String>,
    host: Option<String>,
    request: Vec<(String, String)>,
    response: Vec<(String, String)>,
}

impl Rewriting {
    /// Prepares the changes.
    ///
    /// # Errors
    ///
    /// The field that cannot be sent.
    pub(crate) fn new(rewrite: Option<&Rewrite>) -> Result<Self, String> {
        let Some(rewrite) = rewrite else {
            return Ok(Self::default());
        };
        let fields = rewrite.request.iter().chain(&rewrite.response);
        for (name, value) in fields {
            let checked = FieldLines::new(name, value.as_bytes());
            checked.map_err(|why| format!("the field `{name}` cannot be set: {why}"))?;
        }
        let all = |fields: &std::collections::BTreeMap<String, String>| {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        Ok(Self {
            path: rewrite.path.clone(),
            host: rewrite.host.clone(),
            request: all(&rewrite.request),
            response: all(&rewrite.response),
        })
    }

    /// Returns `true` if the host or the path of requests changes.
    pub(crate) fn changes_target(&self) -> bool {
        self.host.is_some() || self.path.is_some()
    }

    /// Returns `true` if requests are not changed, except that their paths are in normal form.
    pub(crate) fn is_empty(&self) -> bool {
        !self.changes_target() && self.request.is_empty()
    }

    /// Changes the head of a request. `path` is its path in normal form.
    ///
    /// # Errors
    ///
    /// A target, a host or a field that cannot be sent.
    pub(crate) fn request(
        &self,
        head: &mut OwnedRequestHead,
        pattern: &PathPattern,
        path: &str,
    ) -> Result<(), EncodeError> {
        if self.is_empty() && is_path_of(path, head) {
            return Ok(());
        }
        let new = self
            .path
            .as_ref()
            .map(|template| fill_path(template, pattern, path));
        let path = new.as_deref().unwrap_or(path);
        let query = head.as_head().query();
        let target = query.map(|query| format!("{path}?{query}"));
        let target = target.as_deref().unwrap_or(path);
        let is_about_all = head.as_head().form() == TargetForm::Asterisk && new.is_none();
        if !is_about_all && head.as_head().target() != target {
            head.set_target(target)?;
        }
        if let Some(host) = &self.host {
            head.replace("Host", host.as_bytes())?;
        }
        for (name, value) in &self.request {
            match value.as_str() {
                "" => drop(head.remove(name)),
                value => head.replace(name, value.as_bytes())?,
            }
        }
        Ok(())
    }

    /// Returns `true` if the route replaces or removes this field of a request.
    pub(super) fn replaces_in_request(&self, name: &[u8]) -> bool {
        let mut fields = self.request.iter();
        fields.any(|(own, _)| own.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Returns `true` if the route replaces or removes this field of a response.
    pub(crate) fn replaces(&self, name: &[u8]) -> bool {
        let mut fields = self.response.iter();
        fields.any(|(own, _)| own.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Returns the fields that the route sets in a response.
    pub(crate) fn response(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.response.iter().filter(|(_, value)| !value.is_empty());
        fields.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Returns `true` if the target of a request is this path, and a query if it has one.
fn is_path_of(path: &str, head: &OwnedRequestHead) -> bool {
    let head = head.as_head();
    head.form() == TargetForm::Origin && head.path_bytes() == path.as_bytes()
}

/// Fills the names of a template with the segments of a path.
fn fill_path(template: &str, pattern: &PathPattern, path: &str) -> String {
    fill(template, |name| pattern.capture(name, path))
}

/// Returns the target of a redirect. `{host}`, `{path}` and `{query}` stand for those of the request. The
/// request never names the host of the target, except with `{host}`.
pub(crate) fn location(template: &str, host: &str, path: &str, query: Option<&str>) -> String {
    let used = match query {
        Some(_) => Cow::Borrowed(template),
        None => without_query(template),
    };
    let mut target = fill(&used, |name| match name {
        "host" => Some(host),
        "path" => Some(path),
        "query" => Some(query.unwrap_or_default()),
        _ => None,
    });
    if !names_host(template) {
        // A client reads `//a` and `/\a` as the host `a`.
        let rest = target.trim_start_matches(['/', '\\']).len();
        let marks = target.len() - rest;
        if marks > 1 {
            target.replace_range(..marks, "/");
        }
    }
    // A target without a query keeps that of the request, in front of its fragment.
    if let Some(query) = query.filter(|_| !says_query(template)) {
        let end = target.find('#').unwrap_or(target.len());
        target.insert_str(end, query);
        target.insert(end, '?');
    }
    target
}

/// Returns `true` if a target says itself which query it has. A `?` in its fragment is no query.
fn says_query(template: &str) -> bool {
    let before = template.split('#').next().unwrap_or_default();
    before.contains('?') || template.contains("{query}")
}

/// Returns a target for a request without a query: it does not end with a mark before nothing.
fn without_query(template: &str) -> Cow<'_, str> {
    for mark in ["?{query}", "&{query}"] {
        if let Some((before, after)) = template.split_once(mark)
            && (after.is_empty() || after.starts_with('#'))
        {
            return Cow::Owned([before, after].concat());
        }
    }
    Cow::Borrowed(template)
}

/// Returns `true` if a target says itself which host follows its `//`.
fn names_host(template: &str) -> bool {
    let host = template.strip_prefix("//");
    host.is_some_and(|host| {
        host.starts_with("{host}") || host.starts_with(|c: char| c == '[' || c.is_alphanumeric())
    })
}

/// Replaces each `{name}` that `value` knows.
fn fill<'a>(template: &str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut text = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let closed = after.split_once('}');
        let found = closed.and_then(|(name, behind)| Some((value(name)?, behind)));
        match found {
            Some((found, behind)) => {
                text.push_str(found);
                rest = behind;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    //! Requests before and after.

    use std::collections::BTreeMap;

    use super::*;
    use crate::fields::forward::tests::head_of;

    fn rewrite(path: Option<&str>) -> Rewrite {
        Rewrite {
            path: path.map(str::to_owned),
            host: None,
            request: BTreeMap::new(),
            response: BTreeMap::new(),
        }
    }

    #[test]
    fn a_path_is_filled_from_the_pattern() {
        let rows = [
            (
                "/users/{id}/orders",
                "/v2/orders/{id}",
                "/users/7/orders",
                "/v2/orders/7",
            ),
            ("/shop/*", "/{rest}", "/shop/a/b", "/a/b"),
            ("/shop/*", "/x/{rest}", "/shop", "/x/"),
            ("/{a}/{b}/*", "/{b}/{a}/{rest}", "/1/2/3", "/2/1/3"),
            ("/a", "/{unknown}", "/a", "/{unknown}"),
            ("/a", "/b", "/a", "/b"),
        ];
        for (pattern, template, path, expected) in rows {
            let pattern = PathPattern::parse(pattern).unwrap();
            assert_eq!(fill_path(template, &pattern, path), expected, "{template}");
        }
    }

    #[test]
    fn a_request_gets_the_new_target_host_and_fields() {
        let mut rewrite = rewrite(Some("/b/{rest}"));
        rewrite.host = Some("back.example".to_owned());
        rewrite.request = BTreeMap::from([
            ("x-source".to_owned(), "gateway".to_owned()),
            ("cookie".to_owned(), String::new()),
        ]);
        let rewriting = Rewriting::new(Some(&rewrite)).unwrap();
        let mut head = head_of("Cookie: a=b\r\nX-Source: client\r\n");
        head.set_target("/a/c?d=e").unwrap();
        let pattern = PathPattern::parse("/a/*").unwrap();
        rewriting.request(&mut head, &pattern, "/a/c").unwrap();
        let view = head.as_head();
        assert_eq!(view.target(), "/b/c?d=e");
        assert_eq!(view.get("host"), Some(&b"back.example"[..]));
        assert_eq!(view.get("x-source"), Some(&b"gateway"[..]));
        assert_eq!(view.get("cookie"), None);
    }

    #[test]
    fn a_request_is_sent_in_normal_form_without_a_rewrite() {
        let mut head = head_of("");
        head.set_target("http://shop.example/x/../%61?q").unwrap();
        let rewriting = Rewriting::new(None).unwrap();
        rewriting
            .request(&mut head, &PathPattern::all(), "/a")
            .unwrap();
        assert_eq!(head.as_head().target(), "/a?q");
    }

    #[test]
    fn a_field_that_cannot_be_sent_is_an_error() {
        let mut bad = rewrite(None);
        bad.request = BTreeMap::from([("x".to_owned(), "a\r\nb: c".to_owned())]);
        assert!(Rewriting::new(Some(&bad)).unwrap_err().contains("`x`"));
        bad.request = BTreeMap::from([("content-length".to_owned(), "5".to_owned())]);
        assert!(Rewriting::new(Some(&bad)).is_err());
    }

    #[test]
    fn a_redirect_keeps_what_its_target_names() {
        let rows = [
            (
                "https://shop.example{path}",
                Some("a=b"),
                "https://shop.example/c?a=b",
            ),
            (
                "https://{host}{path}?{query}",
                Some("a=b"),
                "https://old/c?a=b",
            ),
            ("https://new/", None, "https://new/"),
            ("/x?y=z", Some("a=b"), "/x?y=z"),
            ("/x#part", Some("a=b"), "/x?a=b#part"),
            ("/x#part", None, "/x#part"),
            ("{path}#a?b", Some("a=b"), "/c?a=b#a?b"),
            ("/x?y=z#part", Some("a=b"), "/x?y=z#part"),
            ("/x#{query}", Some("a=b"), "/x#a=b"),
        ];
        for (template, query, expected) in rows {
            assert_eq!(
                location(template, "old", "/c", query),
                expected,
                "{template}"
            );
        }
    }

    #[test]
    fn a_path_never_names_the_host_of_a_redirect() {
        let rows = [
            ("{path}/", "//evil.example", "/evil.example/"),
            ("{path}", "///evil.example", "/evil.example"),
            ("{path}", "/\\evil.example", "/evil.example"),
            ("/{path}", "/\\/evil.example", "/evil.example"),
            ("//{path}", "/evil.example", "/evil.example"),
            ("{query}{path}", "//evil.example", "/evil.example"),
            ("{path}", "/", "/"),
            ("{path}", "/a//b", "/a//b"),
            ("/new{path}", "//a", "/new//a"),
            ("//cdn.example{path}", "//a", "//cdn.example//a"),
            ("//[::1]{path}", "/a", "//[::1]/a"),
            ("//{host}{path}", "/a", "//old/a"),
            ("https://a{path}", "//b", "https://a//b"),
        ];
        for (template, path, expected) in rows {
            let got = location(template, "old", path, None);
            assert_eq!(got, expected, "{template} {path}");
        }
        let from_query = location("/{query}", "old", "/", Some("/evil.example"));
        assert_eq!(from_query, "/evil.example");
    }

    #[test]
    fn a_redirect_has_no_mark_for_a_query_that_is_missing() {
        let rows = [
            ("https://a{path}?{query}", None, "https://a/c"),
            ("https://a{path}?{query}", Some(""), "https://a/c?"),
            ("https://a{path}?{query}#top", None, "https://a/c#top"),
            ("/x?y=z&{query}", None, "/x?y=z"),
            ("/x?{query}&y=z", None, "/x?&y=z"),
            ("/x?y=z&{query}", Some("a=b"), "/x?y=z&a=b"),
        ];
        for (template, query, expected) in rows {
            assert_eq!(
                location(template, "old", "/c", query),
                expected,
                "{template}"
            );
        }
    }
}

//! The target of a redirect: a URL or an absolute path, whatever the request is.

/// What a target looks like.
pub(super) const EXPECTED: &str =
    "a URL or a path, such as `https://{host}{path}`, `//a.example{path}` or `/new{path}`";

/// Returns `true` if each request gets a URL or an absolute path from this target.
pub(super) fn is_target(to: &str) -> bool {
    if let Some((scheme, rest)) = to.split_once("://")
        && !scheme.contains(['/', '?', '#', '{'])
    {
        return is_scheme(scheme) && begins_with_host(rest);
    }
    match to.strip_prefix("//") {
        // Several marks become one if no host follows them.
        Some(rest) => begins_with_host(rest) || rest.is_empty() || begins_path(rest),
        None => begins_path(to),
    }
}

fn is_scheme(scheme: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_part)
}

/// Returns `true` if a path begins here: the path of a request begins with `/`.
fn begins_path(text: &str) -> bool {
    text.starts_with('/') || text.starts_with("{path}")
}

/// Returns `true` if a host begins here, with a port if it has one, and nothing of the request but
/// `{host}` is a part of it.
fn begins_with_host(text: &str) -> bool {
    let after_name = text.strip_prefix("{host}").or_else(|| {
        let is_first = |c: char| c == '[' || c.is_ascii_alphanumeric();
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_:[]%".contains(c);
        let is_host = text.starts_with(is_first);
        is_host.then(|| text.trim_start_matches(is_part))
    });
    let Some(after_name) = after_name else {
        return false;
    };
    let rest = match after_name.strip_prefix(':') {
        Some(port) => port.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => after_name,
    };
    rest.is_empty() || rest.starts_with(['?', '#']) || begins_path(rest)
}

#[cfg(test)]
mod tests {
    //! Targets that can be used and targets that cannot.

    use super::is_target;

    #[test]
    fn a_target_is_a_url_or_an_absolute_path() {
        for to in [
            "https://{host}{path}",
            "https://{host}:8443{path}",
            "https://shop.example",
            "https://shop.example:8443/{path}?{query}#part",
            "https://[::1]:80/",
            "http://a?{query}",
            "app+x://open/{query}",
            "//cdn.example{path}",
            "//{host}",
            "//{path}",
            "///x",
            "{path}",
            "{path}?{query}",
            "/",
            "/new{path}",
            "/{query}",
            "/back?to=https://{host}{path}",
            "{path}?to=https://{host}",
        ] {
            assert!(is_target(to), "{to}");
        }
    }

    #[test]
    fn anything_else_is_no_target() {
        for to in [
            "",
            "https:{path}",
            "https:/{host}{path}",
            "https://",
            "https://{path}",
            "https://{query}",
            "https:///a",
            "https://?a",
            "https://shop.example{query}",
            "https://{host}{query}",
            "https://{host}.example/",
            "{host}",
            "{host}{path}",
            "{query}",
            "{query}{path}",
            "?{query}",
            "#part",
            "new/{path}",
            "shop.example",
            "//{query}",
            "//?a",
            "javascript:alert(1)",
            "1http://a/",
            "ht tp://a",
        ] {
            assert!(!is_target(to), "{to}");
        }
    }
}

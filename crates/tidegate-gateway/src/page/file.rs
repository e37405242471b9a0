//! The page: one file with style and script inside, and the policy that allows only these.

use std::sync::OnceLock;

use super::sha256::{base64, sha256};

/// The page.
pub(crate) const PAGE: &str = include_str!("page.html");

/// Returns the content security policy of the page: its own style and script, by hash, and
/// connections to its own origin.
pub(crate) fn policy() -> &'static str {
    static POLICY: OnceLock<String> = OnceLock::new();
    POLICY.get_or_init(|| {
        let hash = |tag| base64(&sha256(inside(PAGE, tag).as_bytes()));
        let (style, script) = (hash("style"), hash("script"));
        format!(
            "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; \
             connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        )
    })
}

/// Returns what is inside of the only element `tag` of a page.
fn inside<'a>(page: &'a str, tag: &str) -> &'a str {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let start = page.find(&open).map_or(0, |at| at + open.len());
    let end = page.rfind(&close).unwrap_or(start);
    page.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! The file keeps what the policy promises.

    use super::*;

    #[test]
    fn the_page_is_small_and_has_everything_inside() {
        assert!(PAGE.len() < 150 * 1024, "{} bytes", PAGE.len());
        for tag in ["style", "script"] {
            assert_eq!(PAGE.matches(&format!("<{tag}")).count(), 1, "{tag}");
            assert_eq!(PAGE.matches(&format!("</{tag}>")).count(), 1, "{tag}");
            assert!(inside(PAGE, tag).len() > 1000, "{tag}");
        }
        // Nothing that another host could answer, and no style that the policy would not allow.
        let script = inside(PAGE, "script");
        let markup = PAGE.replace(script, "");
        for foreign in [
            "src=",
            "href=\"http",
            "@import",
            "url(",
            " style=",
            " onclick=",
        ] {
            assert!(!markup.contains(foreign), "{foreign}");
        }
        // Data never becomes markup.
        for sink in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
        ] {
            assert!(!script.contains(sink), "{sink}");
        }
    }

    #[test]
    fn the_policy_has_the_hashes_of_the_file() {
        for tag in ["style", "script"] {
            let hash = base64(&sha256(inside(PAGE, tag).as_bytes()));
            assert!(
                policy().contains(&format!("{tag}-src 'sha256-{hash}'")),
                "{tag}"
            );
        }
        assert!(policy().contains("default-src 'none'") && policy().contains("connect-src 'self'"));
        assert!(!policy().contains("unsafe"));
    }
}

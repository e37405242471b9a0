//! The page: one file with style and script inside, and the policy that allows only these.

/// The page.
pub(crate) const PAGE: &str = include_str!("page.html");

/// The content security policy of the page: its own style and script, by hash, and connections to its
/// own origin. A test compares the hashes with the page, and says what they should be.
pub(crate) const POLICY: &str = "default-src 'none'; \
     style-src 'sha256-MLi3yatpYA1pXH3h3TdRjUR5cI81v3Wz9m6YXRtcTL0='; \
     script-src 'sha256-amlcaRvaHrh+ijwHEd1VczkXgMBKQgodCZsS6PZXzXU='; \
     connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    //! The file keeps what the policy promises.

    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use ring::digest::{SHA256, digest};

    use super::{PAGE, POLICY};

    /// Returns what is inside of the only element `tag` of the page.
    fn inside(tag: &str) -> &'static str {
        let (_, rest) = PAGE.split_once(&format!("<{tag}>")).unwrap();
        rest.rsplit_once(&format!("</{tag}>")).unwrap().0
    }

    #[test]
    fn the_page_is_small_and_has_everything_inside() {
        assert!(PAGE.len() < 150 * 1024, "{} bytes", PAGE.len());
        for tag in ["style", "script"] {
            assert_eq!(PAGE.matches(&format!("<{tag}")).count(), 1, "{tag}");
            assert_eq!(PAGE.matches(&format!("</{tag}>")).count(), 1, "{tag}");
            assert!(inside(tag).len() > 1000, "{tag}");
        }
        // Nothing that another host could answer, and no style that the policy would not allow.
        let script = inside("script");
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
            let hash = BASE64_STANDARD.encode(digest(&SHA256, inside(tag).as_bytes()));
            let source = format!("{tag}-src 'sha256-{hash}'");
            assert!(POLICY.contains(&source), "the page needs {source}");
        }
        assert!(POLICY.contains("default-src 'none'") && POLICY.contains("connect-src 'self'"));
        assert!(!POLICY.contains("unsafe"));
    }
}

//! The reference and the example belong to the types.

use std::path::{Path, PathBuf};

use tidegate_gateway::config::{RealDisk, load, reference};

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Writes the page instead, if `TIDEGATE_BLESS` is set.
#[test]
fn the_reference_page_is_made_from_the_types() {
    let page = at("../../docs/guide/gateway-reference.md");
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(&page, reference()).unwrap();
    }
    let found = std::fs::read_to_string(&page).unwrap();
    let hint = "run `TIDEGATE_BLESS=1 cargo test -p tidegate-gateway reference`";
    assert!(
        found == reference(),
        "docs/guide/gateway-reference.md is old: {hint}"
    );
}

#[test]
fn the_reference_has_each_key_of_a_route() {
    let text = reference();
    for key in [
        "timeout",
        "breaker.error_rate",
        "retry.budget",
        "limit.max",
        "fallback.status",
    ] {
        assert!(text.contains(&format!("| `{key}` |")), "{key}");
    }
    assert!(text.contains("| `servers.at` |"));
}

#[test]
fn the_example_has_no_mistake() {
    let variables = |name: &str| (name == "TIDEGATE_TOKEN").then(|| "secret".to_owned());
    let loaded = load(&at("tidegate.toml"), &RealDisk, &variables).unwrap();
    assert!(
        loaded.mistakes.in_order().is_empty(),
        "{}",
        loaded.mistakes.render(&loaded.sources)
    );
}

/// The example has each key of each section, so that a reader finds all of them.
#[test]
fn the_example_names_each_section() {
    let text = std::fs::read_to_string(at("tidegate.toml")).unwrap();
    let pages = reference();
    let keys = pages
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for key in keys {
        let last = key.rsplit('.').next().unwrap_or(key);
        assert!(text.contains(last), "{key}");
    }
}

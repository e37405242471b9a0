//! Checks the certificates that a configuration names: they exist, are valid and fit their keys.

use std::time::SystemTime;

use crate::config::{Config, Mistake, Source, Span};
use crate::tls::{Certificates, Trust};

/// Returns the mistakes of all certificates, each at its place in the configuration.
pub(crate) fn certificate_mistakes(config: &Config, now: SystemTime) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut add = |(path, section): (String, Span), why: String, expected: &str| {
        let at = place_of(config, &path).unwrap_or(section);
        mistakes.push(Mistake::new(at, path, why).expected(expected));
    };
    for listener in &config.listeners {
        let pairs = listener.value.tls.iter().flat_map(|tls| &tls.certificates);
        for (index, pair) in pairs.enumerate() {
            if let Err(why) = Certificates::check(pair, now) {
                let path = format!("listen.{}.tls.certificates[{index}].cert", listener.name);
                let expected = "a certificate that is valid now, and its key";
                add((path, listener.at), why, expected);
            }
        }
    }
    for upstream in &config.upstreams {
        let Some(tls) = &upstream.value.tls else {
            continue;
        };
        if let Err(wrong) = Trust::read(tls, None, now) {
            let setting = wrong.setting.map(|setting| format!(".{setting}"));
            let path = format!(
                "upstream.{}.tls{}",
                upstream.name,
                setting.unwrap_or_default()
            );
            let expected = match wrong.setting {
                Some("roots") => "roots that can be read",
                _ => "a certificate that is valid now, and its key",
            };
            add((path, upstream.at), wrong.why, expected);
        }
    }
    mistakes
}

/// Returns where a setting is in the configuration.
pub(super) fn place_of(config: &Config, path: &str) -> Option<Span> {
    let origin = config.origins.iter().find(|origin| origin.path == path)?;
    match origin.source {
        Source::Own(at) | Source::Inherited(at) => Some(at),
        _ => None,
    }
}

//! Checks the certificates that a configuration names: they exist, are valid and fit their keys.

use std::time::SystemTime;

use crate::config::{Config, Mistake, Source};
use crate::tls::Certificates;

/// Returns the mistakes of all certificates, each at its place in the configuration.
pub(crate) fn certificate_mistakes(config: &Config, now: SystemTime) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for listener in &config.listeners {
        let pairs = listener.value.tls.iter().flat_map(|tls| &tls.certificates);
        for (index, pair) in pairs.enumerate() {
            let Err(why) = Certificates::check(pair, now) else {
                continue;
            };
            let path = format!("listen.{}.tls.certificates[{index}].cert", listener.name);
            let origin = config.origins.iter().find(|origin| origin.path == path);
            let at = match origin.map(|origin| origin.source) {
                Some(Source::Own(at) | Source::Inherited(at)) => at,
                _ => listener.at,
            };
            let expected = "a certificate that is valid now, and its key";
            mistakes.push(Mistake::new(at, path, why).expected(expected));
        }
    }
    mistakes
}

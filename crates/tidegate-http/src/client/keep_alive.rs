//! How long a server keeps an idle connection.

use std::time::Duration;

/// Returns the `timeout` of a `Keep-Alive` field, a little shorter: the server counts from an
/// earlier moment.
pub(super) fn keep_alive_timeout(value: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?;
    let parts = text.split(',').map(str::trim);
    let timeout = parts
        .filter_map(|part| part.split_once('='))
        .find_map(|(name, value)| {
            let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
            is_timeout.then(|| value.trim().trim_matches('"'))
        })?;
    let seconds = Duration::from_secs(timeout.parse().ok()?);
    Some(seconds.saturating_sub((seconds / 2).min(Duration::from_secs(1))))
}

//! Properties of commands that do not exist: an operator may set one before a reload brings its route.
//! Their number is bounded. When a reload removes a route, its properties are removed, too.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tidegate::isolate::{Properties, PropertySource as _};

use super::controls::Controls;

/// How many properties of commands that do not exist can be set.
pub(super) const MOST: usize = 1024;

/// Counts the properties of commands that do not exist.
#[derive(Debug, Default)]
pub(super) struct Unused {
    /// Those that are being set. Each of them counts until it is set or refused.
    pending: Mutex<usize>,
}

/// A property that is being set.
#[derive(Debug)]
pub(super) struct Place<'a>(Option<&'a Unused>);

impl Unused {
    /// Reserves a place for a property, if its command does not exist. Returns `None` if there are
    /// too many already.
    pub(super) fn reserve(&self, name: &str, controls: &dyn Controls) -> Option<Place<'_>> {
        let properties = controls.properties();
        let snapshots = controls.isolation().snapshots().into_iter();
        let keys: BTreeSet<String> = snapshots
            .map(|command| command.key.as_str().to_owned())
            .collect();
        if !is_unused(name, &keys) || properties.get(name).is_some() {
            return Some(Place(None));
        }
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted under the lock, so that two changes do not take the same place.
        if count(properties, &keys) + *pending >= MOST {
            return None;
        }
        *pending += 1;
        Some(Place(Some(self)))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(unused) = self.0 {
            *unused
                .pending
                .lock()
                .unwrap_or_else(PoisonError::into_inner) -= 1;
        }
    }
}

fn count(properties: &Properties, keys: &BTreeSet<String>) -> usize {
    let names = properties.names();
    names.iter().filter(|name| is_unused(name, keys)).count()
}

/// Returns `true` if a property belongs to a command that does not exist.
pub(crate) fn is_unused(name: &str, keys: &BTreeSet<String>) -> bool {
    let Some(rest) = name.strip_prefix("hystrix.command.") else {
        return false;
    };
    let mut starts = rest.match_indices('.').map(|(dot, _)| &rest[..dot]);
    !starts.any(|key| key == "default" || keys.contains(key))
}

#[cfg(test)]
mod tests {
    //! Which properties have a command.

    use std::collections::BTreeSet;

    use super::is_unused;

    #[test]
    fn a_property_is_used_by_its_command_or_by_all() {
        let keys = BTreeSet::from(["cart".to_owned(), "a.b".to_owned()]);
        let rows = [
            ("hystrix.command.cart.circuitBreaker.enabled", false),
            ("hystrix.command.a.b.circuitBreaker.enabled", false),
            ("hystrix.command.default.circuitBreaker.enabled", false),
            ("hystrix.stream.delay", false),
            ("hystrix.command.carts.circuitBreaker.enabled", true),
            ("hystrix.command.a.circuitBreaker.enabled", true),
        ];
        for (name, expected) in rows {
            assert_eq!(is_unused(name, &keys), expected, "{name}");
        }
    }
}

//! The names of groups and pools that the known keys use.
//!
//! Each name is stored once, however many keys use it. A name is forgotten with the last key that
//! uses it, without a look at the other keys.

use std::collections::HashMap;

use crate::key::Key;

/// The names in use.
#[derive(Default)]
pub(super) struct Names(HashMap<Key, Uses>);

/// The number of keys that use a name.
#[derive(Default)]
struct Uses {
    as_group: usize,
    as_pool: usize,
}

impl Names {
    /// Returns the stored names of a group and a pool. A name that is not in use is returned as it
    /// is.
    pub(super) fn intern(&self, group: &Key, pool: &Key) -> (Key, Key) {
        let stored = |name: &Key| {
            let known = self.0.get_key_value(name);
            known.map_or_else(|| name.clone(), |(known, _)| known.clone())
        };
        (stored(group), stored(pool))
    }

    /// Counts a key of this group and pool.
    pub(super) fn add(&mut self, group: &Key, pool: &Key) {
        self.0.entry(group.clone()).or_default().as_group += 1;
        self.0.entry(pool.clone()).or_default().as_pool += 1;
    }

    /// Removes such a key from the count. Returns `true` if no other key uses the pool.
    pub(super) fn remove(&mut self, group: &Key, pool: &Key) -> bool {
        self.change(group, |uses| uses.as_group -= 1);
        self.change(pool, |uses| uses.as_pool -= 1);
        self.0.get(pool).is_none_or(|uses| uses.as_pool == 0)
    }

    /// Returns the number of pools that keys use.
    pub(super) fn pools(&self) -> usize {
        self.0.values().filter(|uses| uses.as_pool > 0).count()
    }

    fn change(&mut self, name: &Key, change: impl FnOnce(&mut Uses)) {
        let Some(uses) = self.0.get_mut(name) else {
            return;
        };
        change(uses);
        if uses.as_group + uses.as_pool == 0 {
            self.0.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lives_as_long_as_a_key_uses_it() {
        let (a, b) = (Key::from("a".to_owned()), Key::from("b".to_owned()));
        let mut names = Names::default();
        names.add(&a, &a);
        names.add(&b, &a);
        names.add(&a, &b);
        assert_eq!((names.0.len(), names.pools()), (2, 2));
        assert!(!names.remove(&a, &a), "another key uses the pool");
        assert!(names.remove(&b, &a), "its name is that of a group now");
        assert_eq!((names.0.len(), names.pools()), (2, 1));
        assert!(names.remove(&a, &b));
        assert_eq!((names.0.len(), names.pools()), (0, 0));
    }

    #[test]
    fn equal_names_share_one_text() {
        let mut names = Names::default();
        let first = Key::from("pool".to_owned());
        names.add(&first, &first);
        let other = Key::from("other".to_owned());
        let (interned, unused) = names.intern(&Key::from("pool".to_owned()), &other);
        assert!(std::ptr::eq(&*interned, &*first));
        assert!(std::ptr::eq(&*unused, &*other));
        assert_eq!(names.0.len(), 1, "a look at a name does not store it");
    }
}

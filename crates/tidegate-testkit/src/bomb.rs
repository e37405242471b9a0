//! A value that panics when it is dropped, and a panic with such a payload.

use std::panic::panic_any;

/// Panics when it is dropped, with another bomb as payload. The last one panics with a message.
///
/// Put it into a task, a queue or a closure to check that the thread which drops it survives. It
/// does not panic while its thread is already unwinding, where a second panic would abort the
/// process.
///
/// # Examples
///
/// ```
/// use tidegate_testkit::Bomb;
///
/// let caught = std::panic::catch_unwind(|| drop(Bomb::new())).unwrap_err();
/// let inner = caught.downcast::<Bomb>().expect("it panics with another one");
/// inner.defuse();
/// ```
#[derive(Debug)]
#[must_use = "it panics when it is dropped, which is at once"]
pub struct Bomb {
    /// The number of nested bombs.
    inside: u8,
}

impl Bomb {
    /// Creates a value whose drop panics, with a payload whose drop panics.
    pub fn new() -> Self {
        Self { inside: 2 }
    }

    /// Consumes the bomb without a panic.
    pub fn defuse(self) {
        std::mem::forget(self);
    }
}

impl Default for Bomb {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        match self.inside.checked_sub(1) {
            Some(inside) => panic_any(Self { inside }),
            None => panic!("on purpose, in the drop of a payload"),
        }
    }
}

/// Panics with a [`Bomb`] as payload, so that dropping the caught payload panics again.
///
/// # Panics
///
/// Always.
pub fn explode() -> ! {
    panic_any(Bomb::new())
}

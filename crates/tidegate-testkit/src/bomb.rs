//! A value whose drop panics, and a panic that carries one.

use std::panic::panic_any;

/// Panics when it is dropped, with another bomb, until the last one panics with a message.
///
/// Put one into a task, a queue or a closure to see that the thread which drops it survives.
/// It stays quiet while its thread unwinds already, where a second panic would end the process.
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
    /// Bombs still inside.
    inside: u8,
}

impl Bomb {
    /// Makes a value whose drop panics with a payload whose drop panics.
    pub fn new() -> Self {
        Self { inside: 2 }
    }

    /// Drops it quietly.
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

/// Panics with a [`Bomb`]: whoever catches it and drops the payload panics in turn.
///
/// # Panics
///
/// Always.
pub fn explode() -> ! {
    panic_any(Bomb::new())
}

//! Boxes of messages, which the channels of a thread use in turn: a message that a thread writes to a
//! channel of its own loop allocates nothing.
//!
//! A box can be kept after its message was taken out. It also knows how to tell its message that it was
//! refused, whatever way the message has taken: see [`refuse`].

use std::any::Any;
use std::cell::RefCell;
use std::fmt;

use tidegate_core::internal::contain;
use tidegate_promise::Failure;

/// How many boxes a thread keeps.
const KEPT: usize = 8;
/// The largest box that is kept, in bytes.
const LARGEST: usize = 256;

thread_local! {
    /// Empty boxes, the last used on top.
    static SPARE: RefCell<Vec<MessageBox>> = const { RefCell::new(Vec::new()) };
}

/// A box with a message of some type.
pub(crate) type MessageBox = Box<dyn Boxed>;

/// The content of a box. [`Any`] is its only supertrait, so that the type is looked up without a
/// detour.
pub(crate) trait Boxed: Any + Send {
    /// Tells the message that it was refused.
    fn refuse(&mut self, why: Failure);
}

impl fmt::Debug for dyn Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boxed").finish_non_exhaustive()
    }
}

/// A place for a message of the type `T`.
struct Slot<T> {
    /// `None` in a box that is not in use.
    message: Option<T>,
    on_refused: OnRefused<T>,
}

/// What is called with a message that no handler gets.
pub(crate) type OnRefused<T> = fn(T, Failure);

impl<T: Send + 'static> Boxed for Slot<T> {
    fn refuse(&mut self, why: Failure) {
        if let Some(message) = self.message.take() {
            (self.on_refused)(message, why);
        }
    }
}

/// Puts a message into a box, with the function to call if no handler gets it.
#[inline]
pub(crate) fn put<T: Send + 'static>(message: T, on_refused: OnRefused<T>) -> MessageBox {
    let message = Some(message);
    match spare::<T>() {
        Some(mut empty) => {
            *empty = Slot {
                message,
                on_refused,
            };
            empty
        }
        None => Box::new(Slot {
            message,
            on_refused,
        }),
    }
}

/// Tells the message in the box that it was refused. Its panic is contained: it is the user's.
#[cold]
pub(crate) fn refuse(mut full: MessageBox, why: Failure) {
    drop(contain(move || full.refuse(why)));
}

/// Takes the message out of its box.
///
/// # Errors
///
/// The box, if its message has another type.
#[inline]
pub(crate) fn take<T: Send + 'static>(full: MessageBox) -> Result<T, MessageBox> {
    let mut full = downcast::<T>(full)?;
    let message = full.message.take().expect("a box in use is full");
    keep(full);
    Ok(message)
}

/// Returns `true` if the message in the box is a `T`.
#[inline]
pub(crate) fn is<T: Send + 'static>(full: &MessageBox) -> bool {
    let content: &dyn Any = &**full;
    content.is::<Slot<T>>()
}

/// Returns the box as one of a `T`, or the box itself.
#[inline]
fn downcast<T: Send + 'static>(other: MessageBox) -> Result<Box<Slot<T>>, MessageBox> {
    if !is::<T>(&other) {
        return Err(other);
    }
    let content: Box<dyn Any> = other;
    Ok(content.downcast().expect("the type was looked at"))
}

/// Returns an empty box, if the last one that was kept has the right type.
#[inline]
fn spare<T: Send + 'static>() -> Option<Box<Slot<T>>> {
    // Also on a thread that is ending.
    let last = SPARE.try_with(|spare| {
        let mut spare = spare.try_borrow_mut().ok()?;
        match is::<T>(spare.last()?) {
            true => spare.pop(),
            false => None,
        }
    });
    downcast(last.ok().flatten()?).ok()
}

/// Keeps a box that is empty.
#[inline]
fn keep<T: Send + 'static>(empty: Box<Slot<T>>) {
    if size_of::<Slot<T>>() > LARGEST {
        return;
    }
    let _ = SPARE.try_with(|spare| {
        if let Ok(mut spare) = spare.try_borrow_mut()
            && spare.len() < KEPT
        {
            spare.push(empty);
        }
    });
}

#[cfg(test)]
mod tests {
    //! Which boxes are used again.

    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// How many messages were refused.
        static REFUSED: Cell<u32> = const { Cell::new(0) };
    }

    fn place(full: &MessageBox) -> usize {
        std::ptr::from_ref(&**full).addr()
    }

    fn put<T: Send + 'static>(message: T) -> MessageBox {
        super::put(message, |_, _| ())
    }

    #[test]
    fn a_box_is_used_again_for_a_message_of_its_type() {
        let first = put(7_u64);
        let at = place(&first);
        assert!(is::<u64>(&first) && !is::<u32>(&first));
        let first = take::<u32>(first).unwrap_err();
        assert_eq!(take::<u64>(first).unwrap(), 7);
        let other = put(8_u32);
        assert_ne!(place(&other), at);
        let second = put(9_u64);
        assert_eq!(place(&second), at);
        assert_eq!(take::<u64>(second).unwrap(), 9);
        assert_eq!(take::<u32>(other).unwrap(), 8);
    }

    #[test]
    fn a_refused_message_is_told_so_also_in_a_box_that_is_used_again() {
        let kept = |_: [u8; 3], _| panic!("it was taken out");
        let first = super::put([7; 3], kept);
        let at = place(&first);
        assert_eq!(take::<[u8; 3]>(first).unwrap(), [7; 3]);
        let second = super::put([8_u8; 3], |message, why| {
            assert_eq!((message, why.to_string().as_str()), ([8; 3], "no room"));
            REFUSED.set(REFUSED.get() + 1);
            panic!("it goes no further");
        });
        assert_eq!(place(&second), at);
        refuse(second, Failure::new("no room"));
        assert_eq!(REFUSED.get(), 1);
    }

    #[test]
    fn few_boxes_are_kept_and_no_large_one() {
        drop(take::<[u8; 2 * LARGEST]>(put([0_u8; 2 * LARGEST])));
        let all: Vec<_> = (0..2 * KEPT).map(|n| put(n as u16)).collect();
        for one in all {
            take::<u16>(one).unwrap();
        }
        assert_eq!(SPARE.with_borrow(Vec::len), KEPT);
    }
}

//! Boxes of messages, which the channels of a thread use in turn: a message that a thread writes to a
//! channel of its own loop allocates nothing.
//!
//! A box holds an option, so that it can be kept after its message was taken out.

use std::any::Any;
use std::cell::RefCell;

/// How many boxes a thread keeps.
const KEPT: usize = 8;
/// The largest box that is kept, in bytes.
const LARGEST: usize = 256;

thread_local! {
    /// Empty boxes, the last used on top.
    static SPARE: RefCell<Vec<MessageBox>> = const { RefCell::new(Vec::new()) };
}

/// A box with an `Option<T>` for some type of message.
pub(crate) type MessageBox = Box<dyn Any + Send>;

/// Puts a message into a box.
#[inline]
pub(crate) fn put<T: Send + 'static>(message: T) -> MessageBox {
    match spare::<T>() {
        Some(mut empty) => {
            *empty = Some(message);
            empty
        }
        None => Box::new(Some(message)),
    }
}

/// Takes the message out of its box.
///
/// # Errors
///
/// The box, if its message has another type.
#[inline]
pub(crate) fn take<T: Send + 'static>(full: MessageBox) -> Result<T, MessageBox> {
    let mut full = full.downcast::<Option<T>>()?;
    let message = full.take().expect("a box in use is full");
    keep(full);
    Ok(message)
}

/// Returns `true` if the message in the box is a `T`.
#[inline]
pub(crate) fn is<T: Send + 'static>(full: &MessageBox) -> bool {
    full.is::<Option<T>>()
}

/// Returns an empty box, if the last one that was kept has the right type.
#[inline]
fn spare<T: Send + 'static>() -> Option<Box<Option<T>>> {
    // Also on a thread that is ending.
    let last = SPARE.try_with(|spare| {
        let mut spare = spare.try_borrow_mut().ok()?;
        match spare.last()?.is::<Option<T>>() {
            true => spare.pop(),
            false => None,
        }
    });
    last.ok().flatten()?.downcast().ok()
}

/// Keeps a box that is empty.
#[inline]
fn keep<T: Send + 'static>(empty: Box<Option<T>>) {
    if !(1..=LARGEST).contains(&size_of::<Option<T>>()) {
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

    use super::*;

    fn place(full: &MessageBox) -> usize {
        std::ptr::from_ref(&**full).addr()
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
    fn few_boxes_are_kept_and_no_large_one() {
        drop(take::<[u8; 2 * LARGEST]>(put([0_u8; 2 * LARGEST])));
        let all: Vec<_> = (0..2 * KEPT).map(|n| put(n as u16)).collect();
        for one in all {
            take::<u16>(one).unwrap();
        }
        assert_eq!(SPARE.with_borrow(Vec::len), KEPT);
    }
}

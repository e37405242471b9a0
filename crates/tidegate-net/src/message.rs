//! What travels through a pipeline. Bytes travel as they are; everything else in a box.

use std::any::{Any, TypeId, type_name};

use bytes::Bytes;

/// A message type that has no values: a handler that passes on, or writes, nothing says so
/// with it.
///
/// ```
/// use tidegate_net::Nothing;
///
/// fn never(nothing: Nothing) -> u32 {
///     match nothing {}
/// }
/// # let _ = never;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {}

/// A message that its handler hands on without looking at it: for handlers that fit anywhere.
///
/// A handler whose `In` and `Out` are both `Passing` leaves the type of what flows unchanged;
/// the same holds for `Take` and `Write` of the outbound side.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::{EmbeddedChannel, Inbound, InboundContext, Nothing, Passing};
///
/// struct Count(u32);
/// impl Inbound for Count {
///     type In = Passing;
///     type Out = Passing;
///     type Write = Nothing;
///     fn read(&mut self, message: Passing, ctx: &mut InboundContext<'_, Self>) {
///         self.0 += 1;
///         ctx.fire_read(message);
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(|p| p.add("count", Count(0)))?;
/// channel.write_inbound(Bytes::from("hello"));
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Passing(pub(crate) Msg);

/// A message of any type.
#[derive(Debug)]
pub(crate) enum Msg {
    Bytes(Bytes),
    Other(Box<dyn Any + Send>),
}

impl Msg {
    /// A message of `value`. For `Bytes` this is a move and no more: the compiler knows the
    /// types and leaves the questions out.
    #[inline(always)]
    pub(crate) fn of<T: Send + 'static>(value: T) -> Self {
        let mut value = Some(value);
        let any: &mut dyn Any = &mut value;
        if let Some(bytes) = any.downcast_mut::<Option<Bytes>>() {
            return Self::Bytes(bytes.take().expect("it was put there above"));
        }
        if let Some(passing) = any.downcast_mut::<Option<Passing>>() {
            return passing.take().expect("it was put there above").0;
        }
        Self::Other(Box::new(value.take().expect("it was put there above")))
    }

    /// The message as a `T`, or itself.
    #[inline(always)]
    pub(crate) fn cast<T: Send + 'static>(self) -> Result<T, Self> {
        if TypeId::of::<T>() == TypeId::of::<Passing>() {
            let mut passing = Some(Passing(self));
            let any: &mut dyn Any = &mut passing;
            let own = any.downcast_mut::<Option<T>>().and_then(Option::take);
            return Ok(own.expect("the types are the same"));
        }
        match self {
            Self::Bytes(bytes) => {
                let mut bytes = Some(bytes);
                let any: &mut dyn Any = &mut bytes;
                match any.downcast_mut::<Option<T>>().and_then(Option::take) {
                    Some(own) => Ok(own),
                    None => Err(Self::Bytes(bytes.take().expect("nobody took it"))),
                }
            }
            Self::Other(other) => match other.downcast::<T>() {
                Ok(own) => Ok(*own),
                Err(other) => Err(Self::Other(other)),
            },
        }
    }

    /// What the message counts for while it waits: its bytes, or 8 for what is not bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Other(_) => 8,
        }
    }
}

/// A type, to be compared and shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) id: TypeId,
    name: fn() -> &'static str,
}

impl Kind {
    pub(crate) const fn of<T: 'static>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            name: type_name::<T>,
        }
    }

    pub(crate) fn is<T: 'static>(self) -> bool {
        self.id == TypeId::of::<T>()
    }

    pub(crate) fn name(self) -> &'static str {
        (self.name)()
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

#[cfg(test)]
mod tests {
    //! What goes in comes out.

    use super::*;

    #[test]
    fn bytes_travel_without_a_box_and_others_in_one() {
        let bytes = Bytes::from_static(b"as they are");
        let at = bytes.as_ptr();
        let Msg::Bytes(same) = Msg::of(bytes) else {
            panic!("bytes were boxed");
        };
        assert_eq!(same.as_ptr(), at);
        assert!(matches!(Msg::of(7_u32), Msg::Other(_)));
        assert_eq!(Msg::of(7_u32).cast::<u32>().unwrap(), 7);
        assert_eq!(Msg::Bytes(same).cast::<Bytes>().unwrap().as_ptr(), at);
    }

    #[test]
    fn a_wrong_type_gives_the_message_back() {
        let back = Msg::of(7_u32).cast::<u64>().unwrap_err();
        assert_eq!(back.cast::<u32>().unwrap(), 7);
        let back = Msg::of(Bytes::from("b")).cast::<u64>().unwrap_err();
        assert_eq!(back.cast::<Bytes>().unwrap(), "b");
    }

    #[test]
    fn passing_wraps_and_unwraps_whatever_it_is() {
        let passing = Msg::of(7_u32).cast::<Passing>().unwrap();
        assert_eq!(Msg::of(passing).cast::<u32>().unwrap(), 7);
        let passing = Msg::of(Bytes::from("b")).cast::<Passing>().unwrap();
        assert!(matches!(Msg::of(passing), Msg::Bytes(_)));
    }
}

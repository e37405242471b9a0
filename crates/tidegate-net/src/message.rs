//! Messages in a pipeline. Bytes are passed as they are; every other type is boxed.

use std::any::{Any, TypeId, type_name};
use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use tidegate_core::internal::discard;
use tidegate_promise::Failure;

use crate::message_box::{self, MessageBox, OnRefused};

/// A message that can be written. It states the size that it counts for while it waits to be sent,
/// so that the [water marks](crate::WaterMarks) also hold for messages that are not bytes.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::{EmbeddedChannel, Message, Outbound, OutboundContext};
///
/// struct Answer { id: u32, body: Bytes }
/// impl Message for Answer {
///     fn size(&self) -> usize {
///         size_of::<u32>() + self.body.len()
///     }
/// }
///
/// struct Encode;
/// impl Outbound for Encode {
///     type Take = Answer;
///     type Write = Bytes;
///     fn write(&mut self, answer: Answer, ctx: &mut OutboundContext<'_, Self>) {
///         ctx.write(answer.id.to_be_bytes().to_vec());
///         ctx.write(answer.body);
///     }
/// }
///
/// let mut embedded = EmbeddedChannel::new(|p| p.add_outbound("encode", Encode))?;
/// let channel = embedded.channel();
/// channel.write(Answer { id: 7, body: vec![0; 100_000].into() });
/// assert!(channel.pending_bytes() > 100_000 && !channel.is_writable());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Message: Send + 'static {
    /// Returns the number of bytes that this message keeps in memory, or that it will become; an
    /// estimate is enough. Called once, on the thread that writes the message.
    fn size(&self) -> usize;

    /// Called in place of the handlers if no handler gets the message: its
    /// [`Channel`](crate::Channel) or the sending half is closed, the message would exceed the cap, or
    /// the next handler, or the socket, does not take its type. Drops the message unless implemented.
    /// A message with a promise inside fails the promise here, so that its reader learns the reason.
    ///
    /// A message of a handle or of a handler is either taken by a handler or refused, once. A handler
    /// that takes an [`AnyMessage`] and does not pass it on can refuse it itself.
    ///
    /// # Threads
    ///
    /// Runs on the thread that writes, or on the channel's loop, so it must not block. A panic is
    /// contained. The channel may be used here.
    ///
    /// ```
    /// use tidegate_net::{EmbeddedChannel, Message};
    /// use tidegate_promise::{Failure, Promise, promise};
    ///
    /// struct Ask(Promise<u32>);
    /// impl Message for Ask {
    ///     fn size(&self) -> usize {
    ///         8
    ///     }
    ///     fn refused(self, why: Failure) {
    ///         let _ = self.0.fail(why);
    ///     }
    /// }
    ///
    /// let mut embedded = EmbeddedChannel::new(|p| p)?;
    /// embedded.close();
    /// let (promise, answer) = promise();
    /// embedded.channel().write(Ask(promise));
    /// assert_eq!(answer.wait().unwrap_err().to_string(), "the channel is closed");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn refused(self, why: Failure)
    where
        Self: Sized,
    {
        drop((self, why));
    }
}

/// A message type without values, for a handler that passes on, or writes, nothing.
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

/// A message that its handler passes on without inspecting it: for handlers that fit anywhere.
///
/// A handler whose `In` and `Out` are both `AnyMessage` leaves the type of the messages unchanged;
/// the same holds for `Take` and `Write` of the outbound side.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::{EmbeddedChannel, Inbound, InboundContext, Nothing, AnyMessage};
///
/// struct Count(u32);
/// impl Inbound for Count {
///     type In = AnyMessage;
///     type Out = AnyMessage;
///     type Write = Nothing;
///     fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
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
pub struct AnyMessage(pub(crate) Msg);

/// A message of any type.
#[derive(Debug)]
pub(crate) enum Msg {
    Bytes(Bytes),
    /// With its counted size.
    Other(MessageBox, u32),
}

impl Msg {
    /// Creates an inbound message from `value`.
    #[inline(always)]
    pub(crate) fn of<T: Send + 'static>(value: T) -> Self {
        Self::sized(value, |_| size_of::<T>(), |value, _| drop(value))
    }

    /// Creates an outbound message from `value`.
    #[inline(always)]
    pub(crate) fn to_write<T: Message>(value: T) -> Self {
        Self::sized(value, Message::size, Message::refused)
    }

    /// Creates an outbound message from a value that a handle writes. A handle does not know which
    /// type the last handler takes, so text and binary data get a type that
    /// [`Msg::cast_written`] can convert: text becomes [`Text`], and binary data becomes `Bytes`,
    /// which travel without a box.
    pub(crate) fn from_handle<T: Message>(value: T) -> Self {
        if is::<T, Vec<u8>>() {
            Self::Bytes(retype::<T, Vec<u8>>(value).into())
        } else if is::<T, Box<[u8]>>() {
            Self::Bytes(retype::<T, Box<[u8]>>(value).into())
        } else if is::<T, BytesMut>() {
            Self::Bytes(retype::<T, BytesMut>(value).freeze())
        } else if is::<T, &'static [u8]>() {
            Self::Bytes(Bytes::from_static(retype(value)))
        } else if is::<T, &'static str>() {
            Self::to_write(Text(Cow::Borrowed(retype(value))))
        } else if is::<T, String>() {
            Self::to_write(Text(Cow::Owned(retype(value))))
        } else if is::<T, Box<str>>() {
            Self::to_write(Text(Cow::Owned(retype::<T, Box<str>>(value).into())))
        } else {
            Self::to_write(value)
        }
    }

    /// Creates a message from `value` that counts for `size`. For `Bytes` this is only a move: the
    /// compiler knows the types and removes the checks.
    #[inline(always)]
    fn sized<T: Send + 'static>(
        value: T,
        size: impl FnOnce(&T) -> usize,
        on_refused: OnRefused<T>,
    ) -> Self {
        let mut value = Some(value);
        let any: &mut dyn Any = &mut value;
        if let Some(bytes) = any.downcast_mut::<Option<Bytes>>() {
            return Self::Bytes(bytes.take().expect("it was put there above"));
        }
        if let Some(passing) = any.downcast_mut::<Option<AnyMessage>>() {
            return passing.take().expect("it was put there above").0;
        }
        let value = value.take().expect("it was put there above");
        let size = u32::try_from(size(&value)).unwrap_or(u32::MAX);
        Self::Other(message_box::put(value, on_refused), size)
    }

    /// Tells the message that no handler gets it: calls its [`Message::refused`]. Bytes and inbound
    /// messages are only dropped. User code runs here, so no lock may be held; its panic is contained.
    #[cold]
    pub(crate) fn refuse(self, why: Failure) {
        match self {
            Self::Other(other, _) => message_box::refuse(other, why),
            // Their memory may belong to the user.
            bytes @ Self::Bytes(_) => discard(bytes),
        }
    }

    /// Returns the message as a `T`, or the message itself.
    #[inline(always)]
    pub(crate) fn cast<T: Send + 'static>(self) -> Result<T, Self> {
        if TypeId::of::<T>() == TypeId::of::<AnyMessage>() {
            let mut passing = Some(AnyMessage(self));
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
                    None => Err(Self::Bytes(bytes.take().expect("it was not taken"))),
                }
            }
            Self::Other(other, size) => {
                message_box::take(other).map_err(|other| Self::Other(other, size))
            }
        }
    }

    /// Returns a message that is being written as a `T`, or the message itself. Unlike
    /// [`Msg::cast`] it converts text and binary data of a handle to the type that is taken.
    #[inline]
    pub(crate) fn cast_written<T: Send + 'static>(self) -> Result<T, Self> {
        self.cast().or_else(Self::convert)
    }

    #[cold]
    fn convert<T: Send + 'static>(self) -> Result<T, Self> {
        match self {
            Self::Bytes(bytes) if is::<T, Vec<u8>>() => Ok(retype(Vec::from(bytes))),
            Self::Bytes(bytes) if is::<T, BytesMut>() => Ok(retype(BytesMut::from(bytes))),
            Self::Bytes(bytes) if is::<T, Box<[u8]>>() => {
                Ok(retype(Vec::from(bytes).into_boxed_slice()))
            }
            Self::Bytes(bytes) => Err(Self::Bytes(bytes)),
            Self::Other(other, size) => match message_box::take::<Text>(other) {
                Ok(text) => text.convert().map_err(Self::to_write),
                Err(other) => Err(Self::Other(other, size)),
            },
        }
    }

    /// Turns text of a handle into bytes, because it has passed all handlers.
    pub(crate) fn text_to_bytes(self) -> Self {
        match self {
            Self::Other(other, _) if message_box::is::<Text>(&other) => {
                match Self::Other(other, 0).convert() {
                    Ok(bytes) => Self::Bytes(bytes),
                    Err(other) => other,
                }
            }
            other => other,
        }
    }

    /// Returns what the message is, for an error.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "bytes",
            other if other.is_text() => "text",
            Self::Other(..) => "a message of another type",
        }
    }

    /// Returns `true` if the message is text of a handle.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Self::Other(other, _) if message_box::is::<Text>(other))
    }

    /// Returns the counted size of the message: its bytes, or the size that its type states.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Other(_, size) => *size as usize,
        }
    }
}

/// Text that a handle writes. A handler that takes a `String` gets one, others get bytes.
#[derive(Debug)]
struct Text(Cow<'static, str>);

impl Text {
    /// Returns the text as a `T`, or the text itself.
    fn convert<T: 'static>(self) -> Result<T, Self> {
        match self.0 {
            Cow::Borrowed(text) if is::<T, &'static str>() => Ok(retype(text)),
            Cow::Borrowed(text) if is::<T, Bytes>() => Ok(retype(Bytes::from(text))),
            text if is::<T, Bytes>() => Ok(retype(Bytes::from(text.into_owned()))),
            text if is::<T, String>() => Ok(retype(text.into_owned())),
            text if is::<T, Box<str>>() => Ok(retype(text.into_owned().into_boxed_str())),
            text => Err(Self(text)),
        }
    }
}

impl Message for Text {
    fn size(&self) -> usize {
        self.0.len()
    }
}

/// Returns `true` if both types are the same.
fn is<T: 'static, U: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<U>()
}

/// Returns `value`, whose type is `U`.
fn retype<T: 'static, U: 'static>(value: T) -> U {
    let mut value = Some(value);
    let any: &mut dyn Any = &mut value;
    let own = any.downcast_mut::<Option<U>>().and_then(Option::take);
    own.expect("the types are the same")
}

impl Message for Nothing {
    fn size(&self) -> usize {
        match *self {}
    }
}

impl Message for AnyMessage {
    fn size(&self) -> usize {
        self.0.size()
    }

    fn refused(self, why: Failure) {
        self.0.refuse(why);
    }
}

/// Implements `Message` for types that are a sequence of bytes.
macro_rules! stretches {
    ($($type:ty),*) => {$(
        impl Message for $type {
            fn size(&self) -> usize {
                self.len()
            }
        }
    )*};
}
stretches!(
    Bytes,
    BytesMut,
    String,
    &'static str,
    Box<str>,
    &'static [u8],
    Vec<u8>,
    Box<[u8]>
);

/// Implements `Message` for types that keep nothing beyond their own bytes.
macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Message for $type {
            fn size(&self) -> usize {
                size_of::<Self>()
            }
        }
    )*};
}
plain!(
    (),
    bool,
    char,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    f32,
    f64
);

impl<M: Message> Message for Box<M> {
    fn size(&self) -> usize {
        (**self).size()
    }

    fn refused(self, why: Failure) {
        (*self).refused(why);
    }
}

impl<M: Message> Message for Option<M> {
    fn size(&self) -> usize {
        self.as_ref().map_or(0, Message::size)
    }

    fn refused(self, why: Failure) {
        if let Some(message) = self {
            message.refused(why);
        }
    }
}

impl<M: Message, N: Message> Message for (M, N) {
    fn size(&self) -> usize {
        self.0.size().saturating_add(self.1.size())
    }

    fn refused(self, why: Failure) {
        self.0.refused(why.clone());
        self.1.refused(why);
    }
}

/// A type, to be compared and shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// A function, since `TypeId::of` can be called in a constant only from Rust 1.91 on.
    id: fn() -> TypeId,
    name: fn() -> &'static str,
}

impl Kind {
    pub(crate) const fn of<T: 'static>() -> Self {
        Self {
            id: TypeId::of::<T>,
            name: type_name::<T>,
        }
    }

    pub(crate) fn is<T: 'static>(self) -> bool {
        (self.id)() == TypeId::of::<T>()
    }

    pub(crate) fn name(self) -> &'static str {
        (self.name)()
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        (self.id)() == (other.id)()
    }
}

#[cfg(test)]
mod tests {
    //! Messages come out as they went in.

    use super::*;

    #[test]
    fn bytes_travel_without_a_box_and_others_in_one() {
        let bytes = Bytes::from_static(b"as they are");
        let at = bytes.as_ptr();
        let Msg::Bytes(same) = Msg::of(bytes) else {
            panic!("bytes were boxed");
        };
        assert_eq!(same.as_ptr(), at);
        assert!(matches!(Msg::of(7_u32), Msg::Other(_, 4)));
        assert_eq!(Msg::of(7_u32).cast::<u32>().unwrap(), 7);
        assert_eq!(Msg::Bytes(same).cast::<Bytes>().unwrap().as_ptr(), at);
    }

    #[test]
    fn a_message_counts_for_what_its_type_states_and_stays_small() {
        struct Huge;
        impl Message for Huge {
            fn size(&self) -> usize {
                usize::MAX
            }
        }
        assert_eq!(Msg::to_write(Bytes::from("four")).size(), 4);
        assert_eq!(Msg::to_write("seven".to_owned()).size(), 5);
        assert_eq!(Msg::to_write((7_u64, Some(Box::new(7_u8)))).size(), 9);
        assert_eq!(Msg::to_write(Huge).size(), u32::MAX as usize);
        let passing = Msg::to_write(Huge).cast::<AnyMessage>().unwrap();
        assert_eq!(Msg::to_write(passing).size(), u32::MAX as usize);
        assert_eq!(size_of::<Msg>(), size_of::<Bytes>());
    }

    #[test]
    fn a_wrong_type_gives_the_message_back() {
        let back = Msg::of(7_u32).cast::<u64>().unwrap_err();
        assert_eq!(back.cast::<u32>().unwrap(), 7);
        let back = Msg::of(Bytes::from("b")).cast::<u64>().unwrap_err();
        assert_eq!(back.cast::<Bytes>().unwrap(), "b");
    }

    #[test]
    fn passing_wraps_and_unwraps_any_type() {
        let passing = Msg::of(7_u32).cast::<AnyMessage>().unwrap();
        assert_eq!(Msg::of(passing).cast::<u32>().unwrap(), 7);
        let passing = Msg::of(Bytes::from("b")).cast::<AnyMessage>().unwrap();
        assert!(matches!(Msg::of(passing), Msg::Bytes(_)));
    }
}

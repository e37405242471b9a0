//! Memory for deferred responses, which the connections of a thread use in turn.
//!
//! A response that is made on the thread of its connection, as by a proxy, allocates nothing: its
//! memory comes from here. It is as large as the outputs of a loop, so the connection sends it in
//! place of an empty output, which comes here for the next response. If there is something in the
//! output, the response is copied behind it. Responses of other threads only bring memory.

use bytes::{Bytes, BytesMut};
use tidegate_core::internal::Spares;

use super::wire::Wire;

/// The largest response whose memory is kept.
const LARGEST: usize = 8 * 1024;
/// The capacity of new memory: that of an output.
const FRESH: usize = 8 * 1024 - 64;
/// The least capacity that is kept.
const LEAST: usize = 2 * 1024;
/// How many responses of a thread wait to be sent at once, usually: those that one batch of events
/// brings. Not more are kept, because other threads may bring as many as they make.
const KEPT: usize = 16;

thread_local! {
    static SPARE: Spares<BytesMut> = const { Spares::new(KEPT) };
}

/// Takes memory for a response.
#[inline]
pub(crate) fn take() -> BytesMut {
    Spares::take(&SPARE).unwrap_or_else(fresh)
}

/// Creates memory with reference counting from the start, as outputs have it.
#[cold]
fn fresh() -> BytesMut {
    let mut memory = BytesMut::with_capacity(FRESH);
    drop(memory.split_off(memory.capacity()));
    memory
}

/// Sends a response, and keeps memory for the next one.
#[inline]
pub(crate) fn send<'a>(response: BytesMut, wire: &mut impl Wire<'a>) {
    if response.len() > LARGEST {
        wire.send(response.freeze());
    } else if wire.has_unsent() {
        // A response that has to wait for the client takes only the memory that it needs.
        wire.send(Bytes::copy_from_slice(&response));
        put_back(response);
    } else {
        add(response, wire.output());
    }
}

/// Adds a response to an output, and keeps memory for the next one.
#[inline]
fn add(mut response: BytesMut, output: &mut BytesMut) {
    if output.is_empty() && output.capacity() == response.capacity() {
        std::mem::swap(output, &mut response);
    } else {
        output.extend_from_slice(&response);
    }
    put_back(response);
}

/// Keeps the memory of a response that was sent or copied, for the next one.
#[inline]
pub(crate) fn put_back(mut memory: BytesMut) {
    memory.clear();
    // Neither memory that was split off nor much of it.
    if (LEAST..=LARGEST).contains(&memory.capacity()) {
        Spares::put_back(&SPARE, memory);
    }
}

#[cfg(test)]
mod tests {
    //! What is kept, and what is sent.

    use bytes::Bytes;
    use tidegate_net::{EmbeddedChannel, Inbound, InboundContext, Nothing};

    use super::*;

    /// Writes the capacity of an output.
    struct Capacity;

    impl Inbound for Capacity {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;

        fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
            let capacity = ctx.output().capacity();
            ctx.write(capacity.to_string());
            ctx.flush();
        }
    }

    #[test]
    fn new_memory_is_as_large_as_an_output() {
        let mut channel = EmbeddedChannel::new(|p| p.add("capacity", Capacity)).unwrap();
        channel.receive("?");
        assert_eq!(channel.sent(), take().capacity().to_string());
    }

    #[test]
    fn memory_is_used_again_unless_it_is_small_or_large() {
        let mut first = take();
        first.extend_from_slice(b"some");
        let place = first.as_ptr();
        put_back(first);
        let again = take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        for other in [0, 10, LARGEST + 1] {
            put_back(BytesMut::with_capacity(other));
        }
        assert!(Spares::take(&SPARE).is_none());
    }

    #[test]
    fn a_response_takes_the_place_of_an_empty_output_and_follows_what_is_in_one() {
        let (mut response, mut output) = (take(), fresh());
        let places = (response.as_ptr(), output.as_ptr());
        response.extend_from_slice(b"first ");
        add(response, &mut output);
        assert_eq!((output.as_ptr(), &output[..]), (places.0, &b"first "[..]));
        let mut second = take();
        assert_eq!((second.as_ptr(), second.len()), (places.1, 0));
        second.extend_from_slice(b"second");
        add(second, &mut output);
        assert_eq!(
            (output.as_ptr(), &output[..]),
            (places.0, &b"first second"[..])
        );
        // Memory of another size is not sent, because the loop would not know it again.
        let (mut other, mut empty) = (BytesMut::with_capacity(3000), fresh());
        let place = empty.as_ptr();
        other.extend_from_slice(b"other");
        add(other, &mut empty);
        assert_eq!((empty.as_ptr(), &empty[..]), (place, &b"other"[..]));
    }
}

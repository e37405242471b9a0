//! Memory for the requests of channels, which the channels of a thread use in turn: a thread that queues
//! requests for its own loop allocates nothing, and a channel without requests holds no memory.

use tidegate_core::internal::Spares;

use super::channel_request::ChannelRequest;

/// How many channels of a loop have requests of its own thread at once, usually.
const KEPT: usize = 16;
/// The most requests whose memory is kept.
const LARGEST: usize = 16;

thread_local! {
    static SPARE: Spares<Vec<ChannelRequest>> = const { Spares::new(KEPT) };
}

/// Takes memory for requests, which may have no capacity.
#[inline]
pub(super) fn take() -> Vec<ChannelRequest> {
    Spares::take(&SPARE).unwrap_or_default()
}

/// Keeps the memory of requests that were handled.
#[inline]
pub(super) fn put_back(handled: Vec<ChannelRequest>) {
    if handled.is_empty() && (1..=LARGEST).contains(&handled.capacity()) {
        Spares::put_back(&SPARE, handled);
    }
}

#[cfg(test)]
mod tests {
    //! What is kept.

    use super::*;

    #[test]
    fn only_a_little_empty_memory_is_kept() {
        put_back(Vec::new());
        put_back(Vec::with_capacity(LARGEST + 1));
        put_back(vec![ChannelRequest::Read]);
        assert_eq!(take().capacity(), 0);
        for _ in 0..2 * KEPT {
            put_back(Vec::with_capacity(4));
        }
        let kept = (0..2 * KEPT).filter(|_| take().capacity() > 0);
        assert_eq!(kept.count(), KEPT);
    }
}

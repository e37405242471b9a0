//! How much of a stream a channel could take, for a crate of the workspace that limits by itself how
//! much of a stream is on its way to the channel's loop.

use super::handle::Channel;

/// How much of a stream a channel could take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRoom {
    /// Everything was sent when the channel's loop was last done with it.
    pub all_sent: bool,
    /// How many more bytes may be pending before the channel refuses a write, or its server closes
    /// connections because of its limit of memory.
    pub spare: usize,
}

impl StreamRoom {
    /// Returns the room of a channel at the moment.
    pub fn of(channel: &Channel) -> Self {
        let (all_sent, spare) = channel.shared().stream_room();
        Self { all_sent, spare }
    }

    /// Returns `true` if a channel is writable, apart from writes that its loop has not taken yet.
    pub fn is_writable(channel: &Channel) -> bool {
        channel.shared().has_room_on_loop()
    }

    /// Returns `true` if writes of handles wait for the channel's loop, or for their turn on it.
    #[inline]
    pub fn has_writes_coming(channel: &Channel) -> bool {
        channel.shared().has_writes_coming()
    }
}

#[cfg(test)]
mod tests {
    use super::StreamRoom;
    use crate::{ChannelOptions, EmbeddedChannel, WaterMarks};

    #[test]
    fn writes_on_their_way_need_room_but_are_not_what_the_peer_left() {
        let options = ChannelOptions {
            marks: WaterMarks::new(10, 20, 10_000).unwrap(),
            ..ChannelOptions::default()
        };
        let mut embedded = EmbeddedChannel::with_options(options, |p| p).unwrap();
        let channel = embedded.channel();
        let empty = StreamRoom::of(&channel);
        assert_eq!((empty.all_sent, empty.spare), (true, 10_000));
        embedded.set_room(Some(0));
        channel.write_and_flush(vec![0; 1000]);
        let room = StreamRoom::of(&channel);
        assert!(room.all_sent && room.spare < 9_000);
        assert!(StreamRoom::is_writable(&channel));
        assert!(StreamRoom::has_writes_coming(&channel));
        embedded.run();
        assert!(!StreamRoom::has_writes_coming(&channel));
        let room = StreamRoom::of(&channel);
        assert!(!room.all_sent && room.spare < 9_000);
        assert!(!StreamRoom::is_writable(&channel));
        embedded.set_room(None);
        embedded.run();
        assert_eq!(StreamRoom::of(&channel), empty);
    }
}

//! Ready-made handlers for common tasks.

mod flow;
mod frames;
mod idle;
mod log;
mod proxy;
mod shape;
pub(crate) mod stream;
mod strings;

pub use self::flow::FlowControl;
pub use self::frames::{
    DelimiterFrames, FixedFrames, FramesError, LengthField, LengthFrames, LengthPrefix, LineFrames,
};
pub use self::idle::{Idle, IdleEvent, IdleKind, WriteTimeout};
pub use self::log::Logging;
pub use self::proxy::{ProxiedPeer, ProxyProtocol};
pub use self::shape::{FlushConsolidation, Rate, TrafficShaping};
pub use self::strings::Strings;

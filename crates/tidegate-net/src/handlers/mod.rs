//! Ready-made handlers for common tasks.

mod flow;
mod frames;
mod idle;
mod log;
mod message_limit;
mod proxy;
mod strings;
mod traffic;

pub use self::flow::FlowControl;
pub use self::frames::{
    DelimiterFrames, FixedFrames, FramesError, LengthField, LengthFrames, LengthPrefix, LineFrames,
};
pub use self::idle::{Idle, IdleEvent, IdleKind, WriteTimeout};
pub use self::log::Logging;
pub use self::message_limit::MessageLimit;
pub use self::proxy::{ProxiedPeer, ProxyProtocol};
pub use self::strings::Strings;
pub use self::traffic::{FlushConsolidation, Rate, TrafficShaping};

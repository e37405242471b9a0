//! The methods that a command gets for tower.

use tidegate_isolate::internal::UntypedCommand;
use tidegate_isolate::{Command, Retry};

use crate::classify::{ByResult, ByStatus};
use crate::http_service::{CommandLayer, Until};
use crate::plain_service::{Plain, PlainLayer};
use crate::retry::RetryLayer;

/// Turns a command into layers of tower.
///
/// The result and error types of the command do not matter: the layers take those of the service.
/// `Command` without types is the shortest.
///
/// ```
/// use tidegate_isolate::{Command, Isolation, Retry};
/// use tidegate_tower::CommandExt;
/// use tower::ServiceBuilder;
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command = Command::builder("prices").group("catalog").build(&isolation)?;
/// let stack = ServiceBuilder::new()
///     .layer(prices.retry_layer::<std::io::Error>(Retry::attempts(2)))
///     .layer(prices.layer());
/// # drop(stack);
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
pub trait CommandExt {
    /// Returns a layer for HTTP services. The permit of a call is held until the body of its
    /// response ends.
    ///
    /// A command with threads of its own rejects all calls with
    /// [`Rejection::InPlace`](tidegate_isolate::Rejection::InPlace), because a future would run outside of
    /// them. This is reported once for each command, when its first layer is created: see
    /// [`IsolationBuilder::on_unhandled`](tidegate_isolate::IsolationBuilder::on_unhandled).
    fn layer(&self) -> CommandLayer;

    /// Returns a layer for services that do not speak HTTP. A call ends with its response.
    fn plain_layer(&self) -> PlainLayer;

    /// Returns a layer that retries the calls of a service behind this command. It goes around the
    /// layer of the command, so that each attempt is a call of its own, with its own permit.
    ///
    /// `retry` decides about errors: how often, after which pause, and within which budget. It also
    /// decides how often and when a call is tried again after a response that is a failure. Only requests
    /// whose method is idempotent are retried; see [`RetryLayer`].
    fn retry_layer<E: Send + 'static>(&self, retry: Retry<E>) -> RetryLayer<E>;
}

impl<T: Send + 'static, X: Send + 'static> CommandExt for Command<T, X> {
    fn layer(&self) -> CommandLayer {
        CommandLayer::new(UntypedCommand::of(self), ByStatus, Until::Body)
    }

    fn plain_layer(&self) -> PlainLayer {
        PlainLayer::new(UntypedCommand::of(self), ByResult, Plain)
    }

    fn retry_layer<E: Send + 'static>(&self, retry: Retry<E>) -> RetryLayer<E> {
        RetryLayer::new(&UntypedCommand::of(self), retry)
    }
}

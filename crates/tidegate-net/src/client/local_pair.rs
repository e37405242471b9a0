//! Pairs of channels within this process.

use std::sync::Arc;

use tidegate_promise::{Completion, promise};

use super::{Client, Subject};
use crate::awaited::result;
use crate::channel::{Channel, Peer, Transport, local_ends};
use crate::group::{ChannelPlacement, NetGroup};
use crate::pipeline::{Initialiser, PipelineBuilder};

impl<P: ChannelPlacement> NetGroup<P> {
    /// Creates two connected channels within this process, like a socket pair, each on the next
    /// event loop of this group. Each reads what the other writes.
    ///
    /// ```
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let (one, other) = group.local_pair(|p| p, |p| p).wait()?;
    /// one.close().wait()?;
    /// other.closed().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn local_pair(
        &self,
        first: impl Fn(PipelineBuilder<P>) -> PipelineBuilder<P> + Send + Sync + 'static,
        second: impl Fn(PipelineBuilder<P>) -> PipelineBuilder<P> + Send + Sync + 'static,
    ) -> Completion<(Channel, Channel)> {
        let (one, other) = local_ends(None, None);
        let open = |end, assemble: Initialiser<P>| {
            let mut client = Client::builder(self).build();
            client.initialise = assemble;
            let subject = Subject::Other("make a pair of channels");
            client.open(None, subject, move || {
                Ok((Transport::Local(end), None, Peer::Unknown))
            })
        };
        let (one, other) = (open(one, Arc::new(first)), open(other, Arc::new(second)));
        let (promise, pair) = promise();
        let both = tidegate_promise::Completion::all([one, other]);
        both.finally(move |outcome| {
            let made = match result(outcome).map(Vec::as_slice) {
                Ok([one, other]) => Ok((one.clone(), other.clone())),
                Ok(_) => return,
                Err(why) => Err(why),
            };
            if let Err(late) = promise.complete(made)
                && let Ok((one, other)) = late.into_inner()
            {
                // The caller has cancelled.
                drop((one.close(), other.close()));
            }
        });
        pair
    }
}

//! The section of a route.

use std::collections::BTreeMap;
use std::time::Duration;

use super::command::{Breaker, Fallback, Limit, Queue, Retry};
use crate::config::notation::Size;
use crate::config::protocol::Protocol;
use crate::config::setting::settings;
use crate::config::values::{Count, FilePath, Method, Status};
use crate::route::{HostPattern, PathPattern};

settings! {
    /// A route: which requests it takes, what it does with them, and within which limits. The most
    /// specific route wins: by host, then path, then method, then fields. It has exactly one of
    /// `upstream`, `redirect`, `respond` and `files`.
    pub struct Route {
        /// The hosts; without one, all.
        host: Vec<HostPattern> = Vec::new(),
        /// The path: exact, with `{name}` for any one segment, with `/*` at the end for all below.
        path: PathPattern = PathPattern::all(),
        /// The methods; without one, all but `CONNECT`.
        method: Vec<Method> = Vec::new(),
        /// Fields that the request must have, with their values; `""` stands for any value.
        header: BTreeMap<String, String> = BTreeMap::new(),
        /// Sends the request to this upstream.
        upstream: Option<String> = None,
        /// Redirects the client.
        redirect: Option<Redirect> = None,
        /// Sends a fixed response.
        respond: Option<Respond> = None,
        /// Sends files of a directory. The name of a file is what `/*` of the path stands for; without
        /// it, what follows the part of the path before the first `{name}`; without both, what follows the
        /// last `/`. A path that ends with `/` stands for the index.
        files: Option<Files> = None,
        /// Changes the request and the response on their way.
        rewrite: Option<Rewrite> = None,
        /// The largest number of requests in flight.
        limit: Limit,
        /// Where requests wait while the limit is reached.
        queue: Option<Queue> = None,
        /// The time from the head of the request to the last byte of the response, with waiting,
        /// all attempts and the fallback. `false` switches it off.
        timeout: Option<Duration> = Some(Duration::from_secs(30)),
        /// Refuses requests at once while the upstream fails.
        breaker: Option<Breaker> = None,
        /// Further attempts, only where they are safe.
        retry: Option<Retry> = None,
        /// The response in place of a refusal or a failure.
        fallback: Option<Fallback> = None,
        /// Allows WebSockets, and upgrades to other protocols that it names.
        tunnel: Option<Tunnel> = None,
        /// The largest body of a request, larger or smaller than `limits.body` of the listener; off means
        /// that one.
        body: Option<Size> = None,
        /// Adds `Server-Timing` to responses.
        server_timing: bool = false,
    }
}

impl Route {
    /// Returns the part of the timeout that is kept for the upstream of the fallback, if there is one.
    pub(crate) fn fallback_time(&self) -> Option<Duration> {
        let fallback = self.fallback.as_ref()?;
        let timeout = self.timeout.filter(|_| fallback.upstream.is_some())?;
        Some(fallback.timeout.unwrap_or(timeout / 4).min(timeout))
    }

    /// Returns the time for waiting and all attempts: the timeout without the part of the fallback.
    pub(crate) fn attempts_time(&self) -> Option<Duration> {
        let timeout = self.timeout?;
        Some(timeout.saturating_sub(self.fallback_time().unwrap_or_default()))
    }
}

settings! {
    /// A redirect. A text in place of the table is its target.
    pub struct Redirect short "to", whole {
        /// The target, a URL or an absolute path. `{host}`, `{path}` and `{query}` stand for those of the request.
        /// A target without a query keeps that of the request.
        /// Several `/` at its beginning become one, unless a host follows them in this setting.
        to: String,
        /// The status.
        status: Status = Status(308),
    }
}

settings! {
    /// A fixed response. A number in place of the table is its status.
    pub struct Respond short "status", whole {
        /// The status.
        status: Status = Status(200),
        /// The body.
        body: String = String::new(),
        /// The `Content-Type`.
        content_type: String = "text/plain; charset=utf-8".to_owned(),
    }
}

settings! {
    /// Files of a directory. A text in place of the table is the directory.
    pub struct Files short "root", whole {
        /// The directory. It is looked up for each file, so it can be replaced without a reload. A relative path begins at the working directory of the
        /// process.
        root: FilePath,
        /// The file of a directory.
        index: String = "index.html".to_owned(),
    }
}

settings! {
    /// Changes to the request and the response.
    pub struct Rewrite {
        /// The new path. `{name}` stands for a segment of `path`, `{rest}` for what `/*` contains.
        path: Option<String> = None,
        /// The new `Host`; off keeps that of the request.
        host: Option<String> = None,
        /// Fields of the request to set; `""` removes the field. The table is inherited as a whole.
        request: BTreeMap<String, String> = BTreeMap::new(),
        /// Fields of the response to set; `""` removes the field. The table is inherited as a whole.
        response: BTreeMap<String, String> = BTreeMap::new(),
    }
}

settings! {
    /// Upgraded connections, which count apart from requests.
    pub struct Tunnel {
        /// The largest number of tunnels.
        max: Count = Count(1000),
        /// How long a tunnel may carry no byte.
        idle: Duration = Duration::from_secs(300),
        /// The protocols to which a client may upgrade, without regard to case. `h2c`, `HTTP/…` and
        /// `TLS/…` cannot be listed: their requests would pass by routes, limits and the log.
        protocols: Vec<Protocol> = vec![Protocol("websocket".to_owned())],
        /// Allows `CONNECT` to the upstream.
        connect: bool = false,
    }
}

//! What only the doc tests compile: the programs of the guide, and code that must not compile.

/// The programs of the README and of the guide, run as doc tests. In a test of the workspace, the
/// examples turn all features on.
#[cfg(all(feature = "isolate", feature = "tls"))]
mod guide {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/promises.md")]
    struct Promises;
    #[doc = include_str!("../../../docs/guide/loops.md")]
    struct Loops;
    #[doc = include_str!("../../../docs/guide/timers.md")]
    struct Timers;
    #[doc = include_str!("../../../docs/guide/channels.md")]
    struct Channels;
    #[doc = include_str!("../../../docs/guide/pools.md")]
    struct Pools;
    #[doc = include_str!("../../../docs/guide/isolation.md")]
    struct Isolation;
    #[doc = include_str!("../../../docs/guide/properties.md")]
    struct Properties;
    #[cfg(feature = "metrics")]
    #[doc = include_str!("../../../docs/guide/metrics.md")]
    struct Metrics;
    #[doc = include_str!("../../../docs/guide/shutdown.md")]
    struct Shutdown;
    #[cfg(all(feature = "hyper", feature = "http-async"))]
    #[doc = include_str!("../../../docs/guide/http.md")]
    struct Http;
    #[cfg(feature = "tower")]
    #[doc = include_str!("../../../docs/guide/tower.md")]
    struct Tower;
    #[doc = include_str!("../README.md")]
    struct Package;
}

/// What `#[tidegate::main]` and `#[tidegate::test]` refuse.
///
/// ```compile_fail
/// #[tidegate::main]
/// fn main() {} // is not `async`
/// ```
///
/// ```compile_fail
/// #[tidegate::main]
/// async fn main(arguments: Vec<String>) {} // takes arguments
/// ```
///
/// ```compile_fail
/// #[tidegate::main]
/// async fn other() {} // is not called `main`
/// fn main() {}
/// ```
///
/// ```compile_fail
/// #[tidegate::main(threads = 2)] // has options
/// async fn main() {}
/// ```
///
/// ```compile_fail
/// #[tidegate::main]
/// struct Main; // is not a function
/// fn main() {}
/// ```
mod attributes {}

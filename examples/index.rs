//! The examples as a list for programs; `README.md` beside this file is the same list for readers.
#![forbid(unsafe_code)]

/// Each example's name and what it shows.
pub const EXAMPLES: [(&str, &str); 19] = [
    ("promise", "a promise, its listener and a blocking wait"),
    (
        "schedule",
        "once, at a fixed rate, cancelled, and on a manual clock",
    ),
    ("group", "several loops, and one that is full"),
    ("graceful_shutdown", "quiet period, hooks, the report"),
    ("async_on_a_loop", "futures on loops, awaiting each other"),
    (
        "strategies",
        "who consumes what was produced, when one task in a hundred blocks",
    ),
    (
        "idle_timeouts",
        "a million idle timeouts, and what they cost",
    ),
    ("echo", "a TCP server that sends everything back"),
    (
        "async_echo",
        "the same as a future over a channel that was taken over",
    ),
    (
        "lines",
        "a line protocol with text, an idle limit and errors as answers",
    ),
    (
        "chat",
        "a room: channels written to from other channels' handlers",
    ),
    (
        "json_lines",
        "a codec of one's own: Rust types as lines of JSON",
    ),
    ("resp", "a small server of the Redis protocol"),
    (
        "tls_echo",
        "the echo server with TLS, and a client that checks its certificate",
    ),
    ("tcp_proxy", "two channels that hold each other back"),
    ("udp", "datagrams"),
    (
        "bulkheads",
        "one slow dependency and nine healthy ones, with and without bulkheads",
    ),
    ("collapser", "many small requests become one call"),
    ("live_resize", "a bulkhead grows and shrinks while it works"),
];

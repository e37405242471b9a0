//! The examples, as an index; `README.md` beside this file is the same list for people.
#![forbid(unsafe_code)]

/// Each example's name and what it shows.
pub const EXAMPLES: [(&str, &str); 8] = [
    ("promise", "a promise, its listener and a blocking wait"),
    (
        "schedule",
        "once, at a fixed rate, cancelled, and on a manual clock",
    ),
    ("group", "several loops, and one that is full"),
    ("graceful_shutdown", "quiet period, hooks, the report"),
    ("async_on_a_loop", "futures on loops, awaiting each other"),
    (
        "bulkheads",
        "one slow dependency and nine healthy ones, with and without bulkheads",
    ),
    ("collapser", "many small requests become one call"),
    ("live_resize", "a bulkhead grows and shrinks while it works"),
];

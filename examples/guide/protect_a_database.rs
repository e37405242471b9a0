//! A database behind a command: a query that hangs holds its caller for half a second, and a database that
//! is down gets no more queries.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use tidegate::isolate::BreakerWindow;
use tidegate::prelude::*;

/// Stands for the client of a database. A query blocks the thread that makes it.
#[derive(Default)]
struct Database {
    hangs: AtomicBool,
    queries: AtomicU32,
}

impl Database {
    fn name_of(&self, user: u32, cancel: &CancelToken) -> io::Result<String> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        if !self.hangs.load(Ordering::Relaxed) {
            return Ok(format!("user {user}"));
        }
        // A query without an end, but with a way to cancel it.
        let me = thread::current();
        let _hook = cancel.on_cancel(move || me.unpark());
        while !cancel.is_cancelled() {
            thread::park();
        }
        Err(io::Error::other("the query was cancelled"))
    }
}

fn main() -> tidegate::Result<()> {
    let database = Arc::new(Database::default());
    let isolation = Isolation::builder().build()?; // one for the program
    let users: Command<String, io::Error> = Command::builder("users")
        .group("database")
        .threads(PoolConfig {
            core: 4,  // as many as the database has connections for us
            queue: 8, // short: a call that waits long is of no use
            ..PoolConfig::default()
        })
        .timeout(Duration::from_millis(500))
        .breaker(BreakerConfig {
            window: BreakerWindow::Count(20), // the last 20 calls
            min_calls: 4,
            ..BreakerConfig::default()
        })
        .fallback(|why| match why.is_timed_out() {
            true => Ok("from the cache: the query took too long".to_owned()),
            false => Ok("from the cache: no query was made".to_owned()),
        })
        .build(&isolation)?;
    let find = |user: u32| {
        let database = Arc::clone(&database);
        users.run(move |cancel| database.name_of(user, cancel))
    };

    println!("healthy: {}", find(1)?);
    database.hangs.store(true, Ordering::Relaxed);
    for _ in 0..4 {
        println!("hanging: {}", find(1)?);
    }
    let before = database.queries.load(Ordering::Relaxed);
    for _ in 0..1000 {
        find(1)?; // at once
    }
    let after = database.queries.load(Ordering::Relaxed);
    let state = users.snapshot().breaker;
    println!(
        "breaker {state:?}: {} queries for 1000 calls",
        after - before
    );

    // The breaker sends a probe every five seconds. An operator need not wait for it.
    database.hangs.store(false, Ordering::Relaxed);
    users.reset_breaker();
    println!("repaired: {}", find(2)?);
    Ok(())
}

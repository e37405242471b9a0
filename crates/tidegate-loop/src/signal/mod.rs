//! Signals of the operating system as completions.
//!
//! Each function returns a completion that succeeds when the process receives the signal. It can be
//! awaited in a future, waited for on a thread, or given a listener.
//!
//! ```no_run
//! use tidegate_loop::signal;
//!
//! let received = signal::terminate().wait()?;
//! println!("{received}"); // "SIGTERM received"
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The first call for a signal registers it for the process. A signal that arrives after the call
//! completes it, even if no code waits yet and no event loop runs. The default action, which ends
//! the process, does not happen any more, so a program that registers `SIGINT` has to end itself.
//! The registration stays until the process ends. A handler that other code had installed before is
//! still called, after this one. A handler that other code installs later gets the signal in place
//! of this one, unless it passes it on, as those of tokio and `signal-hook` do. A signal that the process ignored before, as a program that
//! `nohup` starts ignores `SIGHUP`, is received from then on.
//!
//! All completions for a signal that are pending when it arrives succeed.
//! [`Received::next`] waits for the one after, and also finds a signal that has arrived meanwhile.
//! The system may combine signals of one kind that arrive in quick succession into one.
//!
//! Listeners of these completions run on a thread of their own, so a listener that blocks delays no
//! other signal. On Windows, [`interrupt`] is Ctrl-C and Ctrl-Break, and [`terminate`] is the end
//! of the console, the session or the system; the system ends the process a few seconds later.
//!
//! `received.rs` is the value of the completions; `dispatcher.rs` completes them, on a thread that
//! starts with the first call; `sys/signal.rs` has the handlers.

pub(crate) mod dispatcher;
pub(crate) mod received;

use tidegate_promise::Completion;

pub use self::received::Received;
use crate::sys::signal::Kind;

/// Returns a completion that succeeds when the process is asked to end: `SIGTERM`, which service
/// managers and container runtimes send.
///
/// It fails if the system refuses the registration.
pub fn terminate() -> Completion<Received> {
    dispatcher::next(Kind::Terminate)
}

/// Returns a completion that succeeds when the user interrupts the program: `SIGINT`, Ctrl-C in a
/// terminal.
///
/// It fails if the system refuses the registration.
pub fn interrupt() -> Completion<Received> {
    dispatcher::next(Kind::Interrupt)
}

/// Returns a completion that succeeds with `SIGHUP`: the terminal has gone, or a service is asked
/// to read its configuration again. On Unix only.
///
/// It fails if the system refuses the registration.
#[cfg(unix)]
pub fn hangup() -> Completion<Received> {
    dispatcher::next(Kind::Hangup)
}

/// Returns a completion that succeeds with `SIGUSR1`, whose meaning the program defines. On Unix
/// only.
///
/// It fails if the system refuses the registration.
#[cfg(unix)]
pub fn user1() -> Completion<Received> {
    dispatcher::next(Kind::User1)
}

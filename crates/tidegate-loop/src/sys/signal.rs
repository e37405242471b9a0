//! Signals of the operating system: a handler that counts them, and a pipe that wakes the one
//! thread that waits.
//!
//! The handler does three things, all of which a handler may do: it adds one to the counter of its
//! signal, writes a byte to the pipe, and calls the handler that was installed before. The write
//! never waits. If the pipe is full, its unread bytes wake the waiting thread, which then reads the
//! counters; so no signal is missed.
//!
//! A handler is installed at the first registration of its signal and stays until the process ends.
//! The default action of the signal does not happen any more. Registrations are serialised by the
//! caller.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(unix)]
use self::unix as system;
#[cfg(windows)]
use self::windows as system;

/// The signals that can be awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Terminate,
    Interrupt,
    #[cfg(unix)]
    Hangup,
    #[cfg(unix)]
    User1,
}

/// The number of kinds.
pub(crate) const KINDS: usize = 4;

/// How often each signal has arrived since it was registered.
static COUNTS: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];

impl Kind {
    /// Returns the place of the signal in a table of [`KINDS`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Returns how often the signal has arrived since it was registered.
    pub(crate) fn count(self) -> u64 {
        // ORDERING: Acquire pairs with the addition in `arrived`. The byte that announces it is
        // written after it, and read before this.
        COUNTS[self.index()].load(Ordering::Acquire)
    }

    /// Makes the process count this signal from now on.
    pub(crate) fn register(self) -> io::Result<()> {
        system::register(self)
    }
}

/// The end of the pipe at which one thread waits for signals.
#[derive(Debug)]
pub(crate) struct Arrivals {
    reader: system::Reader,
}

impl Arrivals {
    /// Creates the pipe. Called once, before the first registration.
    pub(crate) fn open() -> io::Result<Self> {
        let reader = system::open_pipe()?;
        Ok(Self { reader })
    }

    /// Waits until a signal has arrived since the last call. May return early.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.reader.read(&mut [0; 64]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
    }
}

/// Counts a signal. Called by the handler, before it writes a byte.
fn arrived(kind: Kind) {
    // ORDERING: Release pairs with the load in `Kind::count`.
    COUNTS[kind.index()].fetch_add(1, Ordering::Release);
}

#[cfg(unix)]
mod unix {
    use std::ffi::c_int;
    use std::io::{self, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::OnceLock;

    use super::{Kind, arrived};

    /// The end to which the handler writes; stays open until the process ends.
    static PIPE: OnceLock<UnixStream> = OnceLock::new();

    /// A pair of sockets is a pipe whose writing end can be made non-blocking by safe code.
    pub(super) type Reader = UnixStream;

    pub(super) fn open_pipe() -> io::Result<Reader> {
        let (reader, writer) = UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        // It is empty: the pipe is created once.
        let _ = PIPE.set(writer);
        Ok(reader)
    }

    pub(super) fn register(kind: Kind) -> io::Result<()> {
        let action = move || {
            arrived(kind);
            // A full pipe already wakes the thread that waits.
            let _ = PIPE.get().map(|mut pipe| pipe.write(&[0]));
        };
        // SAFETY: the action only adds to an atomic and makes one call to write, both of which a
        // signal handler may do; the registry keeps errno and calls an earlier handler.
        unsafe { signal_hook_registry::register(number(kind), action) }.map(drop)
    }

    fn number(kind: Kind) -> c_int {
        match kind {
            Kind::Terminate => libc::SIGTERM,
            Kind::Interrupt => libc::SIGINT,
            Kind::Hangup => libc::SIGHUP,
            Kind::User1 => libc::SIGUSR1,
        }
    }
}

#[cfg(windows)]
mod windows {
    use std::io::{self, PipeReader, PipeWriter, Write};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::{KINDS, Kind, arrived};

    const CTRL_C_EVENT: u32 = 0;
    const CTRL_BREAK_EVENT: u32 = 1;

    static PIPE: OnceLock<PipeWriter> = OnceLock::new();
    /// The kinds that were registered. Events of the others keep their default action.
    static REGISTERED: [AtomicBool; KINDS] = [const { AtomicBool::new(false) }; KINDS];

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn SetConsoleCtrlHandler(handler: extern "system" fn(u32) -> i32, add: i32) -> i32;
    }

    pub(super) type Reader = PipeReader;

    pub(super) fn open_pipe() -> io::Result<Reader> {
        let (reader, writer) = io::pipe()?;
        let _ = PIPE.set(writer);
        Ok(reader)
    }

    /// Installs the handler at the first registration.
    pub(super) fn register(kind: Kind) -> io::Result<()> {
        let first = !REGISTERED.iter().any(|one| one.load(Ordering::Relaxed));
        // SAFETY: `on_event` has the required signature, and lives as long as the process.
        if first && unsafe { SetConsoleCtrlHandler(on_event, 1) } == 0 {
            return Err(io::Error::last_os_error());
        }
        REGISTERED[kind.index()].store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The handler of console events. The system calls it on a thread of its own. Returns 0 for an
    /// event that was not registered, so that the next handler gets it.
    extern "system" fn on_event(event: u32) -> i32 {
        let kind = match event {
            CTRL_C_EVENT | CTRL_BREAK_EVENT => Kind::Interrupt,
            // The console is closed, the user logs off, or the system shuts down.
            _ => Kind::Terminate,
        };
        if !REGISTERED[kind.index()].load(Ordering::Relaxed) {
            return 0;
        }
        arrived(kind);
        let _ = PIPE.get().map(|mut pipe| pipe.write(&[0]));
        if kind == Kind::Terminate {
            // The system ends the process when this handler returns, or after a few seconds.
            loop {
                thread::park();
            }
        }
        1
    }
}

#[cfg(all(test, unix))]
mod tests {
    //! The handler that was installed before ours. No other test of this binary uses signals.

    use std::ffi::{c_int, c_void};
    use std::mem;
    use std::ptr;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Arrivals, Kind};

    static CALLS: AtomicU64 = AtomicU64::new(0);

    extern "C" fn earlier(_number: c_int) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn an_earlier_handler_is_still_called() {
        // SAFETY: all zeroes is a valid `sigaction`: a number, an empty set, no flags.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        let handler: extern "C" fn(c_int) = earlier;
        action.sa_sigaction = (handler as *const c_void).expose_provenance();
        // SAFETY: the handler has the signature of one without `SA_SIGINFO`, and only adds.
        unsafe { libc::sigaction(libc::SIGHUP, &raw const action, ptr::null_mut()) };
        let mut arrivals = Arrivals::open().unwrap();
        Kind::Hangup.register().unwrap();
        // More than the pipe has room for: a full pipe does not hold the handler up.
        for n in 1..=10_000 {
            // SAFETY: `raise` takes a number; the handler has run when it returns.
            unsafe { libc::raise(libc::SIGHUP) };
            assert_eq!(
                (CALLS.load(Ordering::Relaxed), Kind::Hangup.count()),
                (n, n)
            );
        }
        arrivals.wait().unwrap();
    }
}

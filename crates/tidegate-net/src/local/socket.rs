//! An end of a connection within this process that threads use, as a test does.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::internal::lock;

use crate::channel::LocalEnd;

/// An end of a connection of a [`LocalNetwork`](crate::internal::LocalNetwork), for threads that
/// block. It has the methods of a [`TcpStream`](std::net::TcpStream) that a test uses.
///
/// A test that does not read makes the other side wait when about 256 KiB are on their way.
/// Clones are handles of the same end, which is closed with the last one.
///
/// ```
/// use std::io::{Read, Write};
/// use tidegate_net::internal::LocalNetwork;
///
/// let network = LocalNetwork::new();
/// let listener = network.bind("127.0.0.1:0".parse()?)?;
/// let mut client = network.connect(listener.local_addr())?;
/// let mut server = listener.accept(None)?;
/// client.write_all(b"hello")?;
/// client.shutdown_output();
/// let mut received = String::new();
/// server.read_to_string(&mut received)?;
/// assert_eq!(received, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LocalSocket(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    end: LocalEnd,
    nonblocking: AtomicBool,
    patience: Mutex<Option<Duration>>,
}

impl LocalSocket {
    pub(super) fn new(end: LocalEnd) -> Self {
        Self(Arc::new(Inner {
            end,
            nonblocking: AtomicBool::new(false),
            patience: Mutex::new(None),
        }))
    }

    /// Sets whether reads and writes return [`io::ErrorKind::WouldBlock`] instead of waiting.
    pub fn set_nonblocking(&self, yes: bool) {
        self.0.nonblocking.store(yes, Ordering::Relaxed);
    }

    /// Sets how long a read or write waits before it returns [`io::ErrorKind::WouldBlock`]; `None`, the
    /// default, means without a limit.
    pub fn set_timeout(&self, patience: Option<Duration>) {
        *self.patience() = patience;
    }

    /// Returns the address of this end.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.end.local_addr()
    }

    /// Returns the address of the other end.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.end.peer_addr()
    }

    /// Copies the next bytes, which stay to be read. None mean the end. Waits like a read.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.wait_for(LocalEnd::wait_readable, |end| end.peek(into))
    }

    /// Closes the sending half: the other side reads the end.
    pub fn shutdown_output(&self) {
        self.0.end.shut();
    }

    /// Blocks until a read returns at once, for at most `patience`. Returns whether it does.
    pub fn wait_readable(&self, patience: Duration) -> bool {
        self.0.end.wait_readable(Some(patience))
    }

    /// Blocks until a write returns at once, for at most `patience`. Returns whether it does.
    pub fn wait_writable(&self, patience: Duration) -> bool {
        self.0.end.wait_writable(Some(patience))
    }

    /// Does `work`. Waits with `wait` and repeats it as long as it would block.
    fn wait_for<T>(
        &self,
        wait: fn(&LocalEnd, Option<Duration>) -> bool,
        mut work: impl FnMut(&LocalEnd) -> io::Result<T>,
    ) -> io::Result<T> {
        let patience = *self.patience();
        loop {
            let done = work(&self.0.end);
            let blocks = matches!(&done, Err(why) if why.kind() == io::ErrorKind::WouldBlock);
            let may_wait = !self.0.nonblocking.load(Ordering::Relaxed);
            // Another thread may be first.
            if !blocks || !may_wait || !wait(&self.0.end, patience) {
                return done;
            }
        }
    }

    fn patience(&self) -> MutexGuard<'_, Option<Duration>> {
        lock(&self.0.patience)
    }
}

impl Read for &LocalSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wait_for(LocalEnd::wait_readable, |end| {
            let (bytes, _) = end.read(into.len())?;
            into[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        })
    }
}

impl Write for &LocalSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait_for(LocalEnd::wait_writable, |end| {
            end.write(&[IoSlice::new(bytes)])
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for LocalSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for LocalSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

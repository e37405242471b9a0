//! A range of a file as a message, and the threads that read files.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::internal::PlainTask;
use tidegate_pool::WorkerPool;

use crate::errors::{NetError, tried};
use crate::message::Message;
use crate::sys::read_at;

/// Maximum number of bytes that are read at once, if a file cannot be sent directly. A connection
/// holds at most one such chunk, behind TLS two.
pub(crate) const CHUNK: usize = 64 * 1024;
/// Maximum number of threads that read files.
const READERS: usize = 8;

/// A range of a file, to be sent without being read into memory first.
///
/// Write it to a [`Channel`](crate::Channel) like any other message, or with
/// [`write_file`](crate::InboundContext::write_file) of a handler's context. On Linux, plain TCP and
/// Unix sockets send it by the system call `sendfile`. Otherwise (with TLS, and on other systems)
/// threads of a small pool read it, one chunk at a time, as the peer takes it.
///
/// The range is sent in order with all other writes. Its unsent bytes count for the
/// [water marks](crate::WaterMarks), but not as pending memory: the cap does not refuse a large
/// file. A turn of the connection sends a bounded part, so that other connections of the loop are
/// not delayed. While a file is being sent, the
/// [close timeout](crate::ChannelOptions::close_timeout) runs anew with each progress.
///
/// If the file is shorter than the range, the write fails with [`NetError::FileTruncated`] and the
/// connection is closed, because the peer may expect the rest. What is written into the range
/// meanwhile may be sent or not.
///
/// # Threads
///
/// `sendfile` runs on the loop's thread. If the data is not in the page cache, that thread waits for
/// the disk. For files on a slow disk or a network, use a roaming group or read them in a pool. The
/// call raises the signal `SIGPIPE` if the peer has gone; programs written in Rust ignore it unless
/// they change that.
///
/// ```
/// use std::fs::File;
/// use std::io::Write;
/// use tidegate_net::{EmbeddedChannel, FileRange};
///
/// let path = std::env::temp_dir().join(format!("tidegate-range-{}", std::process::id()));
/// File::create(&path)?.write_all(b"hello, world")?;
/// let mut embedded = EmbeddedChannel::new(|p| p)?;
/// embedded.channel().write_and_flush(FileRange::new(File::open(&path)?, 7..12));
/// embedded.run();
/// assert_eq!(embedded.sent(), "world");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileRange {
    file: Arc<File>,
    start: u64,
    end: u64,
}

impl FileRange {
    /// Creates a range of an open file, in bytes. The position of the file does not matter and does
    /// not change. Several connections can share the file.
    pub fn new(file: impl Into<Arc<File>>, range: Range<u64>) -> Self {
        Self {
            file: file.into(),
            start: range.start,
            end: range.end.max(range.start),
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Returns `true` if the range has no bytes.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Removes `bytes` from the start.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.start = self.end.min(self.start.saturating_add(bytes));
    }

    /// Reads the first bytes of the range, at most [`CHUNK`], and calls `done` with them, on a thread
    /// of the readers' pool. Calls it at once, with an error, if the pool refuses.
    pub(crate) fn read_in_pool(
        self,
        done: impl FnOnce(io::Result<Bytes>) + Clone + Send + 'static,
    ) {
        let own = done.clone();
        let task = PlainTask::named("read a file", move || own(self.read(CHUNK)));
        if let Err(refused) = readers().execute_task(task) {
            let why = io::Error::other(refused.why().to_string());
            done(Err(tried("cannot read the file to send", why)));
        }
    }

    /// Reads the first bytes of the range, at most `most`. Returns fewer if the file ends before.
    ///
    /// # Errors
    ///
    /// The error of the operating system, or the file ends before the range begins.
    pub(crate) fn read(&self, most: usize) -> io::Result<Bytes> {
        let most = usize::try_from(self.len()).map_or(most, |len| len.min(most));
        let mut bytes = vec![0; most];
        let mut filled = 0;
        while filled < bytes.len() {
            match read_at(&self.file, &mut bytes[filled..], self.start + filled as u64) {
                Ok(0) if filled == 0 => return Err(truncated(self.len())),
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(tried("cannot read the file to send", why)),
            }
        }
        bytes.truncate(filled);
        Ok(bytes.into())
    }
}

impl Message for FileRange {
    /// Returns the size of the handle: the file is not in memory.
    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// Returns the pool that reads files for all channels. Its threads end when they are idle.
fn readers() -> &'static WorkerPool {
    static POOL: OnceLock<WorkerPool> = OnceLock::new();
    POOL.get_or_init(|| {
        let pool = WorkerPool::builder("read-files").core(0).max(READERS);
        let pool = pool.reserved(0).keep_alive(Duration::from_secs(10)).build();
        pool.expect("the limits do not contradict each other")
    })
}

/// Returns the error for a file that ends `missing` bytes before the end of its range.
pub(crate) fn truncated(missing: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        NetError::FileTruncated { missing },
    )
}

//! The handle of an access log.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tidegate::ThreadBuilder;
use tidegate::metrics::{Collect, Metric, MetricVisitor};
use tidegate::promise::{Completion, SharedCompletion, promise};
use tidegate_core::internal::lock;

use super::buffer::{Buffer, Taken};
use super::record::Record;
use super::writer::{Opener, Output, Shared, Writer};
use crate::config::types::Log;
use crate::problem::Problems;

/// An access log. Clones are handles to the same log; it ends with the last one.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use tidegate::Clock;
/// use tidegate_gateway::access::{AccessLog, Record};
/// use tidegate_gateway::config::{RealDisk, load};
/// use tidegate_gateway::problem::Problems;
///
/// # let folder = std::env::temp_dir().join(format!("tidegate-access-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("access.log");
/// # let text = format!("[listen]\nhttp = \"127.0.0.1:0\"\n[log]\nfile = {file:?}\n");
/// # std::fs::write(folder.join("t.toml"), text)?;
/// let loaded = load(&folder.join("t.toml"), &RealDisk, &|_| None)?;
/// let settings = loaded.config.expect("it has no mistakes").log;
/// let problems = Arc::new(Problems::new(Clock::system()));
/// let log = AccessLog::start(&settings, 2, problems)?;
/// log.record(0, &settings, &Record { path: "/cart", status: 200, ..Record::default() });
/// log.close().wait()?;
/// assert_eq!((log.written(), log.lost()), (1, 0));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AccessLog {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    /// The most lines of one loop that wait.
    most: usize,
    thread: Thread,
    ended: SharedCompletion<()>,
}

impl AccessLog {
    /// Starts a log for a number of loops: a file, or the standard output.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or there is no thread.
    pub fn start(settings: &Log, loops: usize, problems: Arc<Problems>) -> io::Result<Self> {
        Self::start_with(opener(settings.file.as_deref()), settings, loops, problems)
    }

    /// Starts a log that writes to what `open` opens.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or there is no thread.
    pub fn start_with(
        open: Opener,
        settings: &Log,
        loops: usize,
        problems: Arc<Problems>,
    ) -> io::Result<Self> {
        let loops = loops.max(1);
        let shared = Arc::new(Shared {
            buffers: (0..loops).map(|_| Mutex::new(Buffer::default())).collect(),
            written: Default::default(),
            lost: Default::default(),
            reopens: Default::default(),
            closes: Default::default(),
            owed: Default::default(),
            next: Mutex::new(None),
            problems,
        });
        let writer = Writer::new(Arc::clone(&shared), Output::new(open)?);
        let (send, receive) = mpsc::channel();
        let (promise, ended) = promise();
        ThreadBuilder::new("access-log").detached().spawn(move || {
            let _ = send.send(thread::current());
            writer.run();
            let _ = promise.succeed(());
        })?;
        let thread = receive.recv().map_err(io::Error::other)?;
        let ended: Completion<()> = ended;
        let ended = ended
            .share()
            .map_err(|_| io::Error::other("the thread cannot be waited for"))?;
        let most = (settings.queue.0 as usize).div_ceil(loops);
        Ok(Self {
            inner: Arc::new(Inner {
                shared,
                most,
                thread,
                ended,
            }),
        })
    }

    /// Writes a line about a request that ended on the loop with the number `home`, if the outcome
    /// is sampled. Never waits for the output: if too many lines wait, the line is lost.
    pub fn record(&self, home: usize, settings: &Log, record: &Record<'_>) {
        // The frequent case of a log that is off needs no lock.
        if !record.outcome.is_logged(settings) {
            return;
        }
        let shared = &self.inner.shared;
        let taken = shared.buffer(home).take(record, settings, self.inner.most);
        match taken {
            Taken::LeftOut | Taken::Waits => {}
            Taken::First => self.inner.thread.unpark(),
            Taken::Lost => {
                shared.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Opens the file again, because another program has moved it. If it cannot be opened, the old
    /// one stays, and the problem is reported.
    pub fn reopen(&self) {
        self.inner.shared.reopens.store(true, Ordering::Relaxed);
        self.inner.thread.unpark();
    }

    /// Opens the file of new settings. The log continues there when the closure is called.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn prepare(&self, settings: &Log) -> io::Result<impl FnOnce() + use<>> {
        let output = Output::new(opener(settings.file.as_deref()))?;
        let log = self.clone();
        Ok(move || {
            *lock(&log.inner.shared.next) = Some(output);
            log.reopen();
        })
    }

    /// Announces a line that may come from another thread than the loop's. The log does not end
    /// before.
    pub(crate) fn owe(&self) -> OwedLine {
        self.inner.shared.owed.fetch_add(1, Ordering::Relaxed);
        OwedLine(self.clone())
    }

    /// Ends the log: the lines that wait and those that are owed are written, further ones are lost.
    /// The completion ends when they are written, which may never happen if the output blocks.
    pub fn close(&self) -> SharedCompletion<()> {
        self.inner.close();
        self.inner.ended.clone()
    }

    /// Returns the number of lines that were written.
    pub fn written(&self) -> u64 {
        self.inner.shared.written.load(Ordering::Relaxed)
    }

    /// Returns the number of lines that were lost: too many waited, or they could not be written.
    pub fn lost(&self) -> u64 {
        self.inner.shared.lost.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn close(&self) {
        self.shared.closes.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// A line that comes before this is dropped.
#[derive(Debug)]
pub(crate) struct OwedLine(AccessLog);

impl Drop for OwedLine {
    fn drop(&mut self) {
        let inner = &self.0.inner;
        // ORDERING: Release pairs with the Acquire load of the writer, which then finds the line.
        if inner.shared.owed.fetch_sub(1, Ordering::Release) == 1 {
            inner.thread.unpark();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// The lines that were written and lost. The label is `result`.
impl Collect for AccessLog {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let metric = Metric::new("tidegate_access_log_lines", "Lines of the access log.");
        for (result, lines) in [("written", self.written()), ("lost", self.lost())] {
            visitor.counter(metric, &[("result", result)], lines as f64);
        }
    }
}

/// Returns what opens a file to append to it, or the standard output.
fn opener(file: Option<&Path>) -> Opener {
    let file = file.map(Path::to_owned);
    Box::new(move || match &file {
        Some(path) => Ok(Box::new(open_file(path)?)),
        None => Ok(Box::new(io::stdout())),
    })
}

/// Opens a file to append to it. A pipe that nobody reads is an error: to wait for a reader would block
/// the start.
fn open_file(path: &Path) -> io::Result<File> {
    let without_wait = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.append(true).create(true).custom_flags(without_wait);
    let file = options.open(path).map_err(|why| {
        let is_pipe = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        match is_pipe && why.raw_os_error() == Some(Errno::NXIO.raw_os_error()) {
            true => io::Error::other("nobody reads the pipe; start its reader first"),
            false => why,
        }
    })?;
    // The thread of the log may wait: a reader that is slow for a moment loses no lines.
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

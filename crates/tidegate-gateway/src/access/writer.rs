//! The thread that writes the lines.
//!
//! It sleeps until a loop has its first line, takes the lines of all loops, and writes them. What
//! it cannot write is lost and counted; it never tries a line again, so that a full disk or a
//! reader that has stopped delays nothing but the thread itself.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::internal::lock;

use super::buffer::Buffer;
use crate::problem::Problems;

/// Opens the output of the log: a file, or the standard output.
pub type Opener = Box<dyn FnMut() -> io::Result<Box<dyn Write + Send>> + Send>;

/// The memory that is kept for lines.
const KEPT_BYTES: usize = 256 * 1024;

/// What the loops, the writer and the handles share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) buffers: Box<[Mutex<Buffer>]>,
    pub(super) written: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) reopens: AtomicBool,
    pub(super) closes: AtomicBool,
    /// How many lines are owed: see [`OwedLine`](super::OwedLine).
    pub(super) owed: AtomicUsize,
    /// The output that takes the place of the present one.
    pub(super) next: Mutex<Option<Output>>,
    pub(super) problems: Arc<Problems>,
}

impl Shared {
    pub(super) fn buffer(&self, home: usize) -> MutexGuard<'_, Buffer> {
        lock(&self.buffers[home % self.buffers.len()])
    }
}

/// The output of a log, and how it is opened again.
pub(super) struct Output {
    pub(super) open: Opener,
    pub(super) to: Box<dyn Write + Send>,
}

impl Output {
    pub(super) fn new(mut open: Opener) -> io::Result<Self> {
        let to = open()?;
        Ok(Self { open, to })
    }
}

tidegate_core::debug_fields!(Output);

/// The state of the thread.
pub(super) struct Writer {
    shared: Arc<Shared>,
    output: Output,
    /// The lines that are written. The loops get its memory in exchange for theirs.
    text: Vec<u8>,
    /// `true` if the last line was cut off, so that the next one needs a line end before it.
    is_torn: bool,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, output: Output) -> Self {
        Self {
            shared,
            output,
            text: Vec::new(),
            is_torn: false,
        }
    }

    /// Writes lines until the log is closed and none is owed, and then those that are left.
    pub(super) fn run(mut self) {
        loop {
            // Whoever sets a flag, leaves a first line or owes none any more unparks this thread
            // afterwards. The park below then returns and sees it.
            let closes = self.shared.closes.load(Ordering::Relaxed);
            // ORDERING: Acquire pairs with the Release in the drop of `OwedLine`: the line is there.
            let closes = closes && self.shared.owed.load(Ordering::Acquire) == 0;
            if self.shared.reopens.swap(false, Ordering::Relaxed) {
                self.reopen();
            }
            let lines = self.write_all(closes);
            if closes {
                let _ = self.output.to.flush();
                return;
            }
            if lines == 0 {
                std::thread::park();
            }
        }
    }

    /// Writes the lines of all loops. Returns their number.
    fn write_all(&mut self, closes: bool) -> usize {
        let shared = Arc::clone(&self.shared);
        let mut all = 0;
        for buffer in &shared.buffers {
            let mut buffer = lock(buffer);
            if closes {
                buffer.close();
            }
            let lines = buffer.empty_into(&mut self.text);
            drop(buffer);
            self.write(lines);
            self.text.clear();
            self.text.shrink_to(KEPT_BYTES);
            all += lines;
        }
        all
    }

    /// Writes some lines, or counts them as lost.
    fn write(&mut self, lines: usize) {
        if lines == 0 {
            return;
        }
        let torn: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let (end, failed) = write_some(&mut *self.output.to, torn);
        let (end, failed) = match failed {
            None => {
                self.is_torn = false;
                write_some(&mut *self.output.to, &self.text)
            }
            // The line end is missing still.
            failed => (end.saturating_sub(torn.len()), failed),
        };
        let written = self.text[..end]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        self.shared
            .written
            .fetch_add(written as u64, Ordering::Relaxed);
        self.shared
            .lost
            .fetch_add((lines - written) as u64, Ordering::Relaxed);
        if let Some(error) = failed {
            self.is_torn |= end > 0 && self.text[end - 1] != b'\n';
            let text = format!("the access log cannot be written: {error}; lines are lost");
            self.shared.problems.report("access_log", text);
        }
    }

    /// Opens the output again. If that fails, the present one stays.
    fn reopen(&mut self) {
        let next = lock(&self.shared.next).take();
        match next {
            Some(next) => self.output = next,
            None => match (self.output.open)() {
                Ok(to) => self.output.to = to,
                Err(error) => {
                    let text = format!(
                        "the access log cannot be opened again: {error}; the old file stays"
                    );
                    self.shared.problems.report("access_log_reopen", text);
                    return;
                }
            },
        }
        self.is_torn = false;
    }
}

/// Writes a text. Returns how many bytes were written, and the error if it was not all.
fn write_some(to: &mut dyn Write, text: &[u8]) -> (usize, Option<io::Error>) {
    let mut end = 0;
    while end < text.len() {
        match to.write(&text[end..]) {
            Ok(0) => return (end, Some(io::ErrorKind::WriteZero.into())),
            Ok(written) => end += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (end, Some(error)),
        }
    }
    match to.flush() {
        Ok(()) => (end, None),
        Err(error) => (end, Some(error)),
    }
}

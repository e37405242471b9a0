//! The reports of the program as lines of text on standard error: a subscriber of `tracing`.
//!
//! A thread of its own writes the lines. A reader that has stopped delays nothing but this thread:
//! lines that find no place are counted, and the next line says how many.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use tidegate::ThreadBuilder;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::access::timestamp;
use crate::admin::WallTime;

/// The number of lines that wait.
const WAITING: usize = 1024;
/// The longest line.
const LONGEST: usize = 16 * 1024;

/// What the thread gets.
enum Order {
    Line(String),
    /// Write a last text, tell when it is written, and write nothing more.
    Last(String, Sender<()>),
}

/// Writes reports as lines: those of the gateway from the level `INFO` on, all others from `WARN`
/// on.
pub(crate) struct Lines {
    to: SyncSender<Order>,
    left_out: AtomicU64,
    wall: WallTime,
}

/// Adds lines of the program itself to the reports, and ends both.
#[derive(Clone)]
pub(crate) struct LinesEnd(SyncSender<Order>);

impl LinesEnd {
    /// Returns a writer whose texts are written in turn with the reports.
    pub(crate) fn writer(&self) -> LineWriter {
        LineWriter(self.0.clone())
    }

    /// Writes a last text after the lines so far, and waits until it is written, for at most this
    /// time. Reports that come later are not written, from whichever thread they come.
    pub(crate) fn end(self, last: &str, most: Duration) {
        let (done, wait) = channel();
        // If the queue is full, the reader has stopped.
        if self.0.try_send(Order::Last(last.to_owned(), done)).is_ok() {
            let _ = wait.recv_timeout(most);
        }
    }
}

/// Gives lines to the thread that writes them. A line that finds no place is lost: who writes here
/// never waits for a reader.
pub(crate) struct LineWriter(SyncSender<Order>);

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes).into_owned();
        let _ = self.0.try_send(Order::Line(line));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Starts the thread that writes lines to `out`.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub(crate) fn start(
        out: impl Write + Send + 'static,
        wall: WallTime,
    ) -> io::Result<(Self, LinesEnd)> {
        let (to, orders) = sync_channel(WAITING);
        ThreadBuilder::new("reports")
            .detached()
            .spawn(move || write_all(&orders, out))?;
        let lines = Self {
            to: to.clone(),
            left_out: AtomicU64::new(0),
            wall,
        };
        Ok((lines, LinesEnd(to)))
    }
}

fn write_all(orders: &Receiver<Order>, mut out: impl Write) {
    // There is nowhere to report that the reader has left.
    let mut write = |text: String| drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    for order in orders {
        match order {
            Order::Line(line) => write(line),
            Order::Last(text, done) => {
                write(text);
                let _ = done.send(());
                return;
            }
        }
    }
}

impl Subscriber for Lines {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.enabled(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let own = metadata.target() == "tidegate";
        let least = if own { Level::INFO } else { Level::WARN };
        metadata.is_event() && *metadata.level() <= least
    }

    /// Without it, every turn of a connection would have a span that nobody sees.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = String::with_capacity(128);
        timestamp(&mut line, (self.wall)());
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            // Writing to a text cannot fail.
            let _ = write!(line, " ({left_out} lines were left out)");
        }
        let _ = write!(line, " {}", event.metadata().level());
        let mut fields = Fields::default();
        event.record(&mut fields);
        let _ = write!(line, " {}{}", fields.message, fields.others);
        if line.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|end| line.is_char_boundary(*end));
            line.truncate(end.unwrap_or(0));
        }
        line.push('\n');
        if self.to.try_send(Order::Line(line)).is_err() {
            self.left_out.fetch_add(left_out + 1, Ordering::Relaxed);
        }
    }

    // Spans are not enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

tidegate_core::debug_fields!(Lines);

/// The fields of an event: the message, and ` name=value` for each other one.
#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Fields {
    fn add(&mut self, field: &Field, value: impl fmt::Display) {
        match field.name() {
            // A line end in a message is indented, so that each report begins in the first column.
            "message" => self.message = value.to_string().trim_end().replace('\n', "\n    "),
            // There is nothing to say about what was not left out.
            "left_out" if value.to_string() == "0" => {}
            name => drop(write!(self.others, " {name}={value}")),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match value.contains([' ', '\n', '"']) {
            true if field.name() != "message" => self.add(field, format_args!("{value:?}")),
            _ => self.add(field, value),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Lines in memory, and a reader that has stopped.

    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, SystemTime};

    use super::{Lines, WAITING};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn start(out: impl io::Write + Send + 'static) -> (Lines, super::LinesEnd) {
        Lines::start(out, Arc::new(|| SystemTime::UNIX_EPOCH)).unwrap()
    }

    #[test]
    fn connections_need_no_spans_for_it() {
        let (lines, _end) = start(Memory::default());
        let hint = tracing::Subscriber::max_level_hint(&lines);
        assert_eq!(hint, Some(tracing::level_filters::LevelFilter::INFO));
    }

    #[test]
    fn a_report_is_a_line_with_time_level_message_and_fields() {
        let memory = Memory::default();
        let (lines, end) = start(memory.clone());
        tracing::subscriber::with_default(lines, || {
            tracing::warn!(target: "tidegate", kind = "disk", left_out = 0_u64, "the disk\nis full");
            tracing::info!(target: "tidegate", origin = "a b", left_out = 3_u64, "reload");
            tracing::info!(target: "other", "not shown");
            tracing::debug!(target: "tidegate", "not shown");
            tracing::error!(target: "other", "shown");
        });
        end.end("", Duration::from_secs(30));
        let expected = "1970-01-01T00:00:00.000Z WARN the disk\n    is full kind=disk\n\
                        1970-01-01T00:00:00.000Z INFO reload origin=\"a b\" left_out=3\n\
                        1970-01-01T00:00:00.000Z ERROR shown\n";
        let written = memory.0.lock().unwrap().clone();
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    /// A writer that waits for the test before each line.
    struct Slow(Receiver<()>, Memory, Sender<()>);

    impl io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.2.send(());
            let _ = self.0.recv();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_stopped_delays_nothing_and_lines_are_counted() {
        let memory = Memory::default();
        let ((go, wait), (began, begins)) = (channel(), channel());
        let (lines, end) = start(Slow(wait, memory.clone(), began));
        tracing::subscriber::with_default(lines, || {
            tracing::warn!("first");
            begins.recv().unwrap();
            for _ in 0..WAITING + 7 {
                tracing::warn!("more");
            }
            drop(go);
            flush_all(&begins, WAITING);
            tracing::warn!("last");
        });
        begins.recv().unwrap();
        end.end("", Duration::from_secs(30));
        let written = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert_eq!(written.lines().count(), 1 + WAITING + 1);
        let last = written.lines().last().unwrap();
        assert!(
            last.ends_with("Z (7 lines were left out) WARN last"),
            "{last}"
        );
    }

    #[test]
    fn a_writer_does_not_wait_for_a_reader_that_has_stopped() {
        let memory = Memory::default();
        let ((go, wait), (began, begins)) = (channel(), channel());
        let (_lines, end) = start(Slow(wait, memory.clone(), began));
        let mut writer = end.writer();
        for line in 0..WAITING + 9 {
            io::Write::write_all(&mut writer, format!("{line}\n").as_bytes()).unwrap();
        }
        begins.recv().unwrap();
        drop(go);
        flush_all(&begins, WAITING - 1);
        end.end("", Duration::from_secs(30));
        let written = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert!(written.starts_with("0\n1\n2\n"), "{written}");
    }

    #[test]
    fn nothing_follows_the_last_line() {
        let memory = Memory::default();
        let (lines, end) = start(memory.clone());
        tracing::subscriber::with_default(lines, || {
            tracing::warn!("before");
            end.end("ended\n", Duration::from_secs(30));
            tracing::warn!("after");
        });
        let written = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert!(written.ends_with("WARN before\nended\n"), "{written}");
    }

    fn flush_all(begins: &Receiver<()>, lines: usize) {
        for _ in 0..lines {
            begins.recv().unwrap();
        }
    }
}

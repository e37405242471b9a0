//! Tests of the log over outputs in memory: nothing is lost uncounted, nothing waits for the output.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate::ManualClock;
use tidegate::metrics::Exporter;
use tidegate_testkit::{Folder, Gate, until};

use super::{AccessLog, Opener, Outcome, Record};
use crate::config::tests::config_of;
use crate::config::types::Log;
use crate::problem::Problems;

/// Returns settings from lines of `[log]`.
fn settings(lines: &str) -> Log {
    let text = format!("[listen]\nhttp = \"127.0.0.1:0\"\n[log]\n{lines}\n");
    config_of(&text).log
}

fn problems() -> Arc<Problems> {
    Arc::new(Problems::new(ManualClock::new().into()))
}

/// An output in memory. It may wait, or have a place for some bytes only.
#[derive(Clone, Default)]
struct Memory {
    text: Arc<Mutex<Vec<u8>>>,
    opened: Arc<AtomicUsize>,
    place: Arc<AtomicUsize>,
    gate: Option<Arc<(Gate, Gate)>>,
}

impl Memory {
    fn new() -> Self {
        let memory = Self::default();
        memory.place.store(usize::MAX, Ordering::Relaxed);
        memory
    }

    fn opener(&self) -> Opener {
        let memory = self.clone();
        Box::new(move || {
            memory.opened.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(memory.clone()))
        })
    }

    fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }

    fn lines(&self) -> usize {
        self.text().matches('\n').count()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(gate) = &self.gate {
            gate.0.open();
            gate.1.wait();
        }
        let place = self.place.load(Ordering::Relaxed);
        if place == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let written = bytes.len().min(place);
        self.text.lock().unwrap().extend(&bytes[..written]);
        if place != usize::MAX {
            self.place.store(place - written, Ordering::Relaxed);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts a log with these settings in memory.
fn opened(lines: &str, loops: usize) -> (Memory, Log, AccessLog) {
    let (memory, settings) = (Memory::new(), settings(lines));
    let log = start(&memory, &settings, loops);
    (memory, settings, log)
}

/// Records a request with this id.
fn record(log: &AccessLog, settings: &Log, id: &str) {
    let record = Record {
        id,
        ..Record::default()
    };
    log.record(0, settings, &record);
}

fn start(memory: &Memory, settings: &Log, loops: usize) -> AccessLog {
    AccessLog::start_with(memory.opener(), settings, loops, problems()).unwrap()
}

#[test]
fn all_lines_of_all_loops_are_written_before_the_end() {
    let (memory, settings, log) = opened("queue = 100000", 4);
    std::thread::scope(|scope| {
        for home in 0..4 {
            let (log, settings) = (&log, &settings);
            scope.spawn(move || {
                for _ in 0..1000 {
                    let path = format!("/{home}");
                    let record = Record {
                        path: &path,
                        ..Record::default()
                    };
                    log.record(home, settings, &record);
                }
            });
        }
    });
    log.close().wait().unwrap();
    assert_eq!((log.written(), log.lost(), memory.lines()), (4000, 0, 4000));
    for home in 0..4 {
        let wanted = format!("\"path\":\"/{home}\"");
        assert_eq!(memory.text().matches(&wanted).count(), 1000);
    }
}

#[test]
fn the_log_ends_after_the_lines_that_are_owed() {
    let (memory, settings, log) = opened("", 1);
    let (first, second) = (log.owe(), log.owe());
    let ended = log.close();
    for (lines, owed) in [(1, first), (2, second)] {
        assert!(!ended.is_done());
        log.record(0, &settings, &Record::default());
        until("the line is written", || log.written() == lines);
        drop(owed);
    }
    ended.wait().unwrap();
    log.record(0, &settings, &Record::default());
    assert_eq!((log.written(), log.lost(), memory.lines()), (2, 1, 2));
}

#[test]
fn a_line_is_written_without_waiting_for_others() {
    let (_, settings, log) = opened("", 1);
    for lines in 1..=3 {
        log.record(0, &settings, &Record::default());
        until("the line is written", || log.written() == lines);
    }
}

#[test]
fn an_output_that_blocks_loses_lines_and_no_caller_waits() {
    let gate = Arc::new((Gate::new(), Gate::new()));
    let memory = Memory {
        gate: Some(Arc::clone(&gate)),
        ..Memory::new()
    };
    let settings = settings("queue = 4");
    let log = start(&memory, &settings, 2);
    log.record(0, &settings, &Record::default());
    gate.0.wait(); // the writer is inside its output
    for _ in 0..10 {
        log.record(0, &settings, &Record::default());
        log.record(1, &settings, &Record::default());
    }
    // Two of each loop wait.
    assert_eq!((log.written(), log.lost()), (0, 16));
    gate.1.open();
    log.close().wait().unwrap();
    assert_eq!((log.written(), log.lost(), memory.lines()), (5, 16, 5));
}

#[test]
fn a_full_disk_loses_lines_which_are_counted_and_a_cut_line_gets_its_end() {
    let (memory, settings, log) = opened("", 1);
    memory.place.store(40, Ordering::Relaxed);
    log.record(0, &settings, &Record::default());
    until("the line is lost", || log.lost() == 1);
    log.record(0, &settings, &Record::default());
    until("the next line is lost", || log.lost() == 2);
    memory.place.store(usize::MAX, Ordering::Relaxed);
    record(&log, &settings, "last");
    log.close().wait().unwrap();
    assert_eq!((log.written(), log.lost()), (1, 2));
    let text = memory.text();
    let (cut, last) = text.split_once('\n').unwrap();
    assert_eq!(cut.len(), 40);
    assert!(last.starts_with('{') && last.contains("\"id\":\"last\"") && last.ends_with("}\n"));
}

#[test]
fn records_after_the_end_are_lost_and_counted() {
    let (memory, settings, log) = opened("", 1);
    log.close().wait().unwrap();
    log.record(0, &settings, &Record::default());
    log.close().wait().unwrap();
    assert_eq!((log.written(), log.lost(), memory.lines()), (0, 1, 0));
}

/// Records of several threads against a close: each is written or lost.
#[test]
fn no_record_is_written_twice_or_forgotten_at_the_end() {
    let (memory, settings, log) = opened("queue = 100000", 2);
    let begun = Gate::new();
    std::thread::scope(|scope| {
        for home in 0..2 {
            let (log, settings, begun) = (&log, &settings, &begun);
            scope.spawn(move || {
                for _ in 0..500 {
                    log.record(home, settings, &Record::default());
                    begun.open();
                }
            });
        }
        begun.wait();
        log.close().wait().unwrap();
    });
    assert_eq!(log.written() + log.lost(), 1000);
    assert_eq!(memory.lines() as u64, log.written());
}

#[test]
fn dropping_the_last_handle_writes_what_waits() {
    let (memory, settings, log) = opened("", 1);
    log.clone().record(0, &settings, &Record::default());
    drop(log);
    until("the line is written", || memory.lines() == 1);
}

#[test]
fn each_outcome_has_its_share() {
    let shares = "success = \"12.5%\"\nrefused = 0\nfailed = 100";
    let (memory, settings, log) = opened(shares, 1);
    for outcome in [Outcome::Success, Outcome::Refused, Outcome::Failed] {
        for _ in 0..80 {
            let record = Record {
                outcome,
                ..Record::default()
            };
            log.record(0, &settings, &record);
        }
    }
    log.close().wait().unwrap();
    let text = memory.text();
    for (word, count) in [("success", 10), ("refused", 0), ("failed", 80)] {
        let wanted = format!("\"outcome\":\"{word}\"");
        assert_eq!(text.matches(&wanted).count(), count, "{word}");
    }
    assert_eq!(log.lost(), 0, "what is not sampled is not lost");
}

#[test]
fn a_reopen_continues_in_a_new_output() {
    let (memory, settings, log) = opened("", 1);
    log.reopen();
    until("it is open again", || {
        memory.opened.load(Ordering::Relaxed) == 2
    });
    log.record(0, &settings, &Record::default());
    log.close().wait().unwrap();
    assert_eq!(log.written(), 1);
}

#[test]
fn a_reopen_that_fails_keeps_the_old_output() {
    let (memory, settings) = (Memory::new(), settings(""));
    let (writes, mut opened, tried) = (memory.clone(), 0, Arc::new(AtomicUsize::new(0)));
    let tries = Arc::clone(&tried);
    let open: Opener = Box::new(move || {
        opened += 1;
        tries.fetch_add(1, Ordering::Relaxed);
        match opened {
            1 => Ok(Box::new(writes.clone())),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    });
    let log = AccessLog::start_with(open, &settings, 1, problems()).unwrap();
    log.reopen();
    until("it was tried", || tried.load(Ordering::Relaxed) == 2);
    log.record(0, &settings, &Record::default());
    log.close().wait().unwrap();
    assert_eq!((log.written(), memory.lines()), (1, 1));
}

/// What `logrotate` does: moves the file and sends SIGUSR1.
#[test]
fn a_file_that_was_moved_is_created_again() {
    let folder = Folder::new("log");
    let (file, moved) = (folder.join("access.log"), folder.join("access.log.1"));
    let settings = settings(&format!("file = {file:?}"));
    let log = AccessLog::start(&settings, 1, problems()).unwrap();
    record(&log, &settings, "one");
    until("the line is written", || log.written() == 1);
    std::fs::rename(&file, &moved).unwrap();
    log.reopen();
    until("the file is there", || file.exists());
    record(&log, &settings, "two");
    log.close().wait().unwrap();
    assert!(std::fs::read_to_string(&moved).unwrap().contains("\"one\""));
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"two\""));
    let missing = self::settings("file = \"/no/such/folder/access.log\"");
    assert!(log.prepare(&missing).is_err());
    assert!(AccessLog::start(&missing, 1, problems()).is_err());
}

#[test]
fn the_lines_are_metrics() {
    let (_, settings, log) = opened("queue = 1", 1);
    log.record(0, &settings, &Record::default());
    log.close().wait().unwrap();
    log.record(0, &settings, &Record::default());
    let exporter = Exporter::new();
    exporter.add(log);
    let text = exporter.encode();
    for line in [
        "tidegate_access_log_lines_total{result=\"written\"} 1",
        "tidegate_access_log_lines_total{result=\"lost\"} 1",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// The query of a request is a secret unless the settings say otherwise; fields are not in a record.
#[test]
fn a_query_is_logged_only_if_the_settings_say_so() {
    let record = Record {
        query: Some("token=marker"),
        ..Record::default()
    };
    for (lines, expected) in [("", false), ("query = true", true)] {
        let (memory, settings, log) = opened(lines, 1);
        log.record(0, &settings, &record);
        log.close().wait().unwrap();
        assert_eq!(memory.text().contains("marker"), expected);
    }
}

#[test]
fn a_pipe_that_nobody_reads_is_an_error_and_one_with_a_reader_gets_the_lines() {
    let folder = Folder::new("pipe");
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let settings = settings(&format!("file = {pipe:?}"));
    let why = AccessLog::start(&settings, 1, problems()).unwrap_err();
    assert!(why.to_string().contains("nobody reads the pipe"), "{why}");
    // An end for both does not wait for another one.
    let reader = std::fs::File::options().read(true).write(true).open(&pipe);
    let log = AccessLog::start(&settings, 1, problems()).unwrap();
    log.record(0, &settings, &Record::default());
    let mut line = String::new();
    io::BufRead::read_line(&mut io::BufReader::new(reader.unwrap()), &mut line).unwrap();
    assert!(line.starts_with('{') && line.ends_with("}\n"), "{line}");
}

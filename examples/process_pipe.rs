//! A pipe between two processes as a source of a roaming event loop (Unix).
//!
//! The program starts itself again as a child, which prints a few lines. The parent's loop selects
//! the pipe when there is something to read. The task that reads it may block, so the strategy of
//! the loop decides which thread runs it. At the end of the pipe the source is closed.

use std::io::{BufRead, BufReader, PipeReader};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use tidegate::net::NetError;
use tidegate::net::source::{EventSource, Interest, SourceContext, SourceHandle};
use tidegate::pool::WorkerPool;
use tidegate::{Result, Task};

const CHILD: &str = "child";

/// Reads lines, in tasks that may block.
struct Lines {
    reader: Arc<Mutex<BufReader<PipeReader>>>,
    lines: Sender<String>,
    closed: Sender<()>,
}

impl EventSource<PipeReader> for Lines {
    fn selected(&mut self, at: &SourceContext<'_, PipeReader>) -> Option<Task> {
        let (reader, lines) = (Arc::clone(&self.reader), self.lines.clone());
        let source = at.handle().clone();
        Some(Task::new(move || read_line(&reader, &lines, &source)))
    }

    fn closed(&mut self, _why: Option<&NetError>) {
        let _ = self.closed.send(());
    }
}

/// Reads a line, and those that came with it. Blocks until the line is complete.
fn read_line(reader: &Mutex<BufReader<PipeReader>>, lines: &Sender<String>, source: &SourceHandle) {
    let Ok(mut reader) = reader.lock() else {
        return;
    };
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(0) | Err(_) => return drop(source.close()),
            Ok(_) => drop(lines.send(line)),
        }
        if reader.buffer().is_empty() {
            return;
        }
    }
}

fn parent() -> Result<()> {
    let workers = WorkerPool::builder("workers").core(2).max(4).build()?;
    let group = tidegate::net::roaming("io", 1, &workers)?;
    let (reader, writer) = std::io::pipe()?;
    let program = std::env::current_exe()?;
    let mut child = Command::new(program).arg(CHILD).stdout(writer).spawn()?;
    let (lines, received) = channel();
    let (closed, end) = channel();
    let source = Lines {
        reader: Arc::new(Mutex::new(BufReader::new(reader.try_clone()?))),
        lines,
        closed,
    };
    let registered = group
        .next_reactor()
        .register("child", reader, Interest::READ, source);
    registered.wait()?;
    end.recv()?;
    for line in received.try_iter() {
        print!("the child said: {line}");
    }
    child.wait()?;
    Ok(())
}

fn main() -> Result<()> {
    if std::env::args().nth(1).as_deref() == Some(CHILD) {
        for number in 1..=3 {
            println!("line {number}");
        }
        return Ok(());
    }
    parent()
}

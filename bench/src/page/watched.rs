//! The gateway under a steady load, with open pages and without.
//!
//! It runs on the first CPU. The load, the upstream and the readers of the pages run on the second one.
//! One run of the load lasts for all measurements: two runs differ by more than the pages cost.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::generator::{Generator, Running, Shape};
use crate::child;
use crate::cpus::pin;
use crate::machine::{count_in, count_out};
use crate::proxy::{Process, free_address, upstream};
use crate::rounds::Outcome;

/// The routes of the gateway. One of them has calls.
const ROUTES: usize = 20;
/// Requests per second.
const RATE: u32 = 5000;
/// It is ended when all is measured.
const LOAD: Shape = Shape {
    connections: 32,
    rate: Some(RATE),
    seconds: 600,
};
/// How long a measurement takes.
const SPAN: Duration = Duration::from_secs(2);
/// By how much the load may have missed its rate.
const CLOSE: f64 = 0.01;
/// How long the gateway may take to listen for operators, or a page to get its first frame.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running gateway. Its file is removed when this is dropped.
pub(super) struct Watched {
    load: Option<Running>,
    process: Process,
    admin: SocketAddr,
    file: PathBuf,
}

impl Watched {
    pub(super) fn start() -> Result<Self, String> {
        let (http, admin) = (free_address(), free_address());
        let file = format!("tidegate-bench-page-{}.toml", std::process::id());
        let file = std::env::temp_dir().join(file);
        std::fs::write(&file, text(http, admin, upstream())).map_err(|why| why.to_string())?;
        let mut command = child::command()?;
        command.args(["--tidegate", &format!("run {}", file.display())]);
        let process = Process::peer(&mut command, http)?;
        let mut watched = Self {
            load: None,
            process,
            admin,
            file,
        };
        let began = Instant::now();
        while TcpStream::connect(admin).is_err() {
            if began.elapsed() > PATIENCE {
                return Err("the gateway does not listen for operators".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let url = format!("http://{}/r0/x", watched.process.address);
        let load = Generator::Ours.start_at(&url, LOAD)?;
        count_in(load.id());
        watched.load = Some(load);
        Ok(watched)
    }

    /// Measures while so many pages are open. The figure is the CPU time of the gateway for each
    /// request.
    pub(super) fn run(&self, pages: usize) -> Result<Outcome, String> {
        let pages: Vec<Page> = (0..pages)
            .map(|_| Page::open(self.admin))
            .collect::<Result<_, _>>()?;
        let (began, cpu) = (Instant::now(), self.process.cpu());
        std::thread::sleep(SPAN);
        let (elapsed, cpu) = (began.elapsed(), self.process.cpu() - cpu);
        for page in pages {
            page.close()?;
        }
        let requests = f64::from(RATE) * elapsed.as_secs_f64();
        let mut outcome = Outcome::nanos_each(elapsed, 1);
        outcome.sample.value = cpu.as_nanos() as f64 / requests;
        Ok(outcome)
    }

    /// Ends the load. Fails if it has not had its rate.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        let Some(load) = self.load.take() else {
            return Ok(());
        };
        count_out(load.id());
        let rate = load.stop()?.per_second;
        match (rate / f64::from(RATE) - 1.0).abs() <= CLOSE {
            true => Ok(()),
            false => Err(format!("the load had {rate:.0} requests/s, not {RATE}")),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // It is an error only if the user asked for the page.
        let _ = self.finish();
        let _ = std::fs::remove_file(&self.file);
    }
}

fn text(http: SocketAddr, admin: SocketAddr, upstream: SocketAddr) -> String {
    let mut text = format!(
        "[listen]\nhttp = \"{http}\"\n[listen.admin]\nat = \"{admin}\"\n\
         [log]\nfile = \"/dev/null\"\nsuccess = 0\n[reload]\nwatch = false\n\
         [upstream.back]\nservers = [\"{upstream}\"]\n"
    );
    for route in 0..ROUTES {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[route.r{route}]\npath = \"/r{route}/*\"\nupstream = \"back\"\nlimit = 1000\n"
        );
    }
    text
}

/// An open page: it reads its stream and drops it.
struct Page {
    stream: TcpStream,
    reader: JoinHandle<u64>,
}

impl Page {
    fn open(admin: SocketAddr) -> Result<Self, String> {
        let why = |why: std::io::Error| format!("a page: {why}");
        let mut stream = TcpStream::connect(admin).map_err(why)?;
        let request = format!(
            "GET /page/events HTTP/1.1\r\nHost: {admin}\r\nAccept: text/event-stream\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).map_err(why)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(why)?;
        let (mut first, mut buffer) = (Vec::new(), [0; 16 * 1024]);
        while !String::from_utf8_lossy(&first).contains("event: full") {
            match stream.read(&mut buffer).map_err(why)? {
                0 => return Err("the gateway has closed a page".to_owned()),
                count => first.extend_from_slice(&buffer[..count]),
            }
        }
        let mut reading = stream.try_clone().map_err(why)?;
        let reader = std::thread::spawn(move || {
            pin(1);
            let mut bytes = 0;
            while let Ok(count @ 1..) = reading.read(&mut buffer) {
                bytes += count as u64;
            }
            bytes
        });
        Ok(Self { stream, reader })
    }

    /// Closes the page. Fails if it got nothing while it was open.
    fn close(self) -> Result<(), String> {
        let _ = self.stream.shutdown(Shutdown::Both);
        match self.reader.join() {
            Ok(1..) => Ok(()),
            _ => Err("a page got no frames".to_owned()),
        }
    }
}

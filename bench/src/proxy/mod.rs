//! Suite `proxy`: our gateway beside nginx, haproxy, pingora, and a bare epoll loop with httparse.
//!
//! Each proxy runs on CPU 0. The load generator and the upstream, a bare epoll loop, run in this
//! process on CPU 1. Connections are kept on both sides. The load is a closed loop. The route of the
//! gateway has its command: permits, breaker, timeout, metrics.
//!
//! All tables of a case are from the same runs. CPU time and memory are those that
//! the kernel counts for all processes of a proxy: those of nginx are its master and its worker. Ours is
//! the whole program. The resident memory is the sum over the processes; beside it, what they share counts
//! once. A
//! ratio with `cpu`, `p99` or `rss` in its name compares that, the others compare requests per second.
//! `guard_share` is the CPU time with the command, divided by that without what can be switched off of
//! it. A peer that is not installed is left out with a line.
//!
//! | file | contents |
//! |---|---|
//! | `lineup` | the proxies and their settings |
//! | `process` | a proxy in processes of its own, and what the kernel counts |
//! | `built` | programs that cargo builds |
//! | `ours`, `raw`, `pingora` | our program, the lower bound, the program of a peer |
//! | `secure` | a certificate |
//! | `figures` | the tables |

mod built;
mod figures;
mod lineup;
mod ours;
mod pingora;
mod process;
mod raw;
mod secure;

use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tidegate_net::tls::rustls::StreamOwned;

use self::figures::{CPU, LATE, MEMORY, Measured, SHOWN, SPEED, TABLES, guard, table};
use self::lineup::{BOUND, HAPROXY, NGINX, PINGORA, Proxy};
pub(crate) use self::process::{Process, free_address};
use self::secure::Secure;
use crate::cpus::pin;
use crate::exchange::exchange;
use crate::http::{REQUEST, Replies, serve_raw};
use crate::load::{Load, agree};
use crate::report::{Better, Heading, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};
use crate::served::{Running, ServerProcess};

/// The name of the lower bound on the command line, before the address of the upstream.
const RAW: &str = "proxy-raw-";
/// The name of our gateway with an upstream of its own, before `guarded` or `bare`.
const COUNTED: &str = "proxy-counted-";
/// The name of that upstream.
const UPSTREAM: &str = "proxy-upstream";

/// The length of a short response's body, and of a long one's.
const SHORT: usize = 1024;
const LONG: usize = 1 << 20;

const LONG_REQUEST: &[u8] = b"GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// Messages on each connection before the clock of a run starts.
const WARM_UP: usize = 4;
/// The least number of messages on each connection while the clock runs.
const LEAST: u64 = 8;

/// A comparison: what the clients do.
struct Case {
    title: &'static str,
    connections: usize,
    request: &'static [u8],
    secure: bool,
    lineup: &'static [Proxy],
    rounds: usize,
    span: Duration,
}

const PLAIN: Case = Case {
    title: "proxy, 64 connections, 1 KiB",
    connections: 64,
    request: REQUEST,
    secure: false,
    lineup: &[
        Proxy::Ours,
        Proxy::Nginx,
        Proxy::Haproxy,
        Proxy::Pingora,
        Proxy::Raw,
        Proxy::Unguarded,
    ],
    rounds: 51,
    span: Duration::from_millis(100),
};
const STREAMED: Case = Case {
    title: "proxy, 8 connections, 1 MiB",
    connections: 8,
    request: LONG_REQUEST,
    lineup: &[Proxy::Ours, Proxy::Nginx],
    rounds: 31,
    ..PLAIN
};
const SECURE: Case = Case {
    title: "proxy, 64 connections, 1 KiB, TLS",
    secure: true,
    lineup: &[Proxy::Ours, Proxy::Nginx],
    rounds: 31,
    ..PLAIN
};

/// Starts the proxy with this name on the command line, on the first CPU.
pub(crate) fn start_by_name(name: &str) -> Option<Running> {
    if name == UPSTREAM {
        return Some(Running::peer(upstream()));
    }
    if let Some(command) = name.strip_prefix(COUNTED) {
        // In a process of its own, so that it is not counted. It ends with this one.
        let upstream = ServerProcess::start(UPSTREAM).ok()?;
        let started = ours::start(&format!("{} {command}", upstream.address));
        std::mem::forget(upstream);
        return started;
    }
    let upstream = name.strip_prefix(RAW)?.parse().ok()?;
    pin(0);
    Some(raw::start(upstream))
}

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let folder = Folder::new();
    let upstream = upstream();
    let mut tables = Race::new(&PLAIN, upstream, &folder).run(settings);
    tables[CPU].add("proxy_cpu_over_nginx", NGINX);
    tables[CPU].add("proxy_cpu_over_raw", BOUND);
    tables[SPEED].add("proxy_over_nginx", NGINX);
    tables[SPEED].add("proxy_over_haproxy", HAPROXY);
    tables[SPEED].add("proxy_over_pingora", PINGORA);
    tables[LATE].add("proxy_p99_over_nginx", NGINX);
    tables[MEMORY].add("proxy_rss_over_nginx", NGINX);
    let guard = guard(&tables[CPU]);
    let mut tables = Vec::from(tables);
    tables.push(guard);
    let mut streamed = Race::new(&STREAMED, upstream, &folder).run(settings);
    streamed[SPEED].add("proxy_stream_over_nginx", NGINX);
    tables.extend(streamed);
    let mut secure = Race::new(&SECURE, upstream, &folder).run(settings);
    secure[SPEED].add("proxy_tls_over_nginx", NGINX);
    tables.extend(secure);
    tables
}

/// Starts the upstream on the second CPU.
pub(crate) fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        pin(1);
        let head = format!("HTTP/1.1 200 OK\r\nServer: T\r\nContent-Length: {LONG}\r\n\r\n");
        let mut stream = head.into_bytes();
        stream.resize(stream.len() + LONG, b'x');
        let body = "x".repeat(SHORT);
        serve_raw(&listener, Replies { body, stream });
    });
    address
}

type Runs = Rc<RefCell<Vec<Measured>>>;

/// A running proxy and its clients.
struct Started {
    process: Process,
    load: Load,
}

/// A contestant and its runs.
struct Contestant {
    proxy: Proxy,
    runs: Runs,
}

/// A comparison with its upstream and its files.
struct Race<'a> {
    case: &'static Case,
    upstream: SocketAddr,
    folder: &'a Folder,
    secure: Option<Rc<Secure>>,
}

impl<'a> Race<'a> {
    fn new(case: &'static Case, upstream: SocketAddr, folder: &'a Folder) -> Self {
        let secure = case.secure.then(|| Rc::new(Secure::new(&folder.0)));
        Self {
            case,
            upstream,
            folder,
            secure,
        }
    }

    /// Returns the tables of the case: CPU time, and those of [`SHOWN`].
    fn run(&self, settings: &Settings) -> [Table; TABLES] {
        let case = self.case;
        let heading = |title: &str| Heading {
            title: format!("{}, {title}", case.title),
            unit: "proxy CPU ns/request",
            better: Better::Less,
            side: Some("requests/s"),
            ratios: Vec::new(),
        };
        let settings = Settings {
            rounds: Some(settings.rounds.unwrap_or(case.rounds)),
            span: Some(case.span),
            ..settings.clone()
        };
        let work = Work {
            first: LEAST * case.connections as u64,
            most: 10_000_000,
        };
        let contestants: Vec<Contestant> = match settings.wants_table(case.title) {
            true => self.present(&settings),
            false => Vec::new(),
        };
        let entries = contestants.iter().map(|one| self.entry(one)).collect();
        let cpu = rounds::race(heading("CPU"), work, entries, &settings);
        let runs = |name: &str| {
            let one = contestants.iter().find(|one| one.proxy.name() == name);
            one.map(|one| one.runs.borrow().clone()).unwrap_or_default()
        };
        let shown = SHOWN.map(|shown| table(case.title, &shown, &cpu, runs));
        let [speed, late, memory] = shown;
        [cpu, speed, late, memory]
    }

    /// Returns the wanted proxies that can be run. Those that cannot are a line each.
    fn present(&self, settings: &Settings) -> Vec<Contestant> {
        let mut present = Vec::new();
        let wanted = self.case.lineup.iter();
        // One that is not wanted is not built either.
        for proxy in wanted.filter(|proxy| settings.wants(proxy.name())) {
            match proxy.missing() {
                None => present.push(Contestant {
                    proxy: *proxy,
                    runs: Runs::default(),
                }),
                Some(why) => println!("{}: {} is left out: {why}", self.case.title, proxy.name()),
            }
        }
        present
    }

    /// Returns an entry whose processes and connections are started at the first run and kept.
    fn entry(&self, contestant: &Contestant) -> Entry {
        let (case, upstream, proxy) = (self.case, self.upstream, contestant.proxy);
        let (folder, secure) = (self.folder.0.clone(), self.secure.clone());
        let runs = Rc::clone(&contestant.runs);
        let mut started = None;
        Entry::new(proxy.name(), proxy.role(), move |requests| {
            let Started { process, load } = started.get_or_insert_with(|| {
                let started = case.start(proxy, upstream, secure.as_deref(), &folder);
                started.unwrap_or_else(|why| panic!("{}: {why}", proxy.name()))
            });
            load.warm_up(WARM_UP);
            let cpu = process.cpu();
            let result = load.run(requests);
            let requests = result.messages as f64;
            let cpu = (process.cpu() - cpu).as_nanos() as f64 / requests;
            let speed = requests / result.elapsed.as_secs_f64();
            runs.borrow_mut().push(Measured {
                speed,
                p50: result.p50 / 1000.0,
                p99: result.p99 / 1000.0,
                memory: process.resident() as f64,
                once: process.resident_once() as f64,
            });
            Outcome {
                elapsed: result.elapsed,
                sample: Sample {
                    value: cpu,
                    side: Some(speed),
                },
            }
        })
    }
}

impl Case {
    /// Starts a proxy, and connects the clients to it.
    fn start(
        &self,
        proxy: Proxy,
        upstream: SocketAddr,
        secure: Option<&Secure>,
        folder: &Path,
    ) -> Result<Started, String> {
        let process = proxy.start(upstream, secure, folder)?;
        let reply = self.reply(process.address, secure);
        let reply = reply.map_err(|why| format!("it does not respond: {why}"))?;
        let load = Load::exchange_over(
            process.address,
            self.connections,
            self.request.to_vec(),
            reply,
            secure.map(|secure| secure.client.clone()),
        );
        Ok(Started { process, load })
    }

    /// Returns the length of a response.
    fn reply(&self, address: SocketAddr, secure: Option<&Secure>) -> std::io::Result<usize> {
        let mut stream = TcpStream::connect(address)?;
        match secure {
            None => exchange(&mut stream, self.request),
            Some(secure) => {
                let session = agree(&secure.client, &mut stream);
                exchange(&mut StreamOwned::new(session, stream), self.request)
            }
        }
    }
}

/// The files of a run, which are removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("tidegate-bench-proxy-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the folder for temporary files can be written");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

//! The checks of the gateway: `tidegate run` between other clients and other servers.
//!
//! In CI each server meets two clients, and each client a server. The long form has all pairs.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::http::{self, Site};
use super::running::Running;
use super::servers::{self, Server};
use super::{Check, CheckResult, Servers, ask, connect, expect, free_port};
use crate::{root, step};

pub(super) const CHECKS: &[Check] = &[
    ("gateway and curl", "curl", |s| {
        http::curl(&through(s)?.site(s))
    }),
    ("gateway and undici", "node", |s| {
        http::node(&through(s)?.site(s), "undici", "all")
    }),
    ("gateway and nginx", "nginx", |s| {
        before(s, &servers::nginx(s)?, &[requests])
    }),
    ("gateway and Apache", "apache2", |s| {
        before(s, &servers::apache(s)?, &[httpx])
    }),
    ("gateway and caddy", "caddy", |s| {
        before(s, &servers::caddy(s)?, &[aiohttp])
    }),
    ("gateway and http.server", "python3", |s| {
        before(s, &servers::python(s, "http.server")?, &[undici])
    }),
    ("gateway and Node", "node", |s| {
        before(s, &servers::node(s)?, &[wrk])
    }),
    ("gateway and ws", "node", ws),
    ("gateway and websockets", "python3", websockets),
    ("gateway behind haproxy, PROXY v2", "haproxy", |s| {
        haproxy(s, "send-proxy-v2")
    }),
    ("gateway and promtool", "promtool", promtool),
];

/// Checks that take longer.
pub(super) const LONG_CHECKS: &[Check] = &[
    ("gateway and wrk", "wrk", |s| {
        http::wrk(&through(s)?.site(s))
    }),
    ("gateway and h2load", "h2load", |s| {
        http::h2load(&through(s)?.site(s))
    }),
    ("gateway and ab", "ab", |s| http::ab(&through(s)?.site(s))),
    ("gateway and hey", "hey", |s| {
        http::hey(&through(s)?.site(s))
    }),
    ("gateway and requests", "python3", |s| {
        http::python(&through(s)?.site(s), "requests", "all")
    }),
    ("gateway and httpx", "python3", |s| {
        http::python(&through(s)?.site(s), "httpx", "all")
    }),
    ("gateway and aiohttp", "python3", |s| {
        http::python(&through(s)?.site(s), "aiohttp", "all")
    }),
    ("gateway and autocannon", "node", |s| {
        http::node(&through(s)?.site(s), "autocannon", "all")
    }),
    ("gateway and nginx, all clients", "nginx", |s| {
        before(s, &servers::nginx(s)?, ALL)
    }),
    ("gateway and Apache, all clients", "apache2", |s| {
        before(s, &servers::apache(s)?, ALL)
    }),
    ("gateway and caddy, all clients", "caddy", |s| {
        before(s, &servers::caddy(s)?, ALL)
    }),
    ("gateway and http.server, all clients", "python3", |s| {
        before(s, &servers::python(s, "http.server")?, ALL)
    }),
    ("gateway and http.server, HTTP/1.0", "python3", |s| {
        before(s, &servers::python(s, "http.server/1.0")?, ALL)
    }),
    ("gateway and Node, all clients", "node", |s| {
        before(s, &servers::node(s)?, ALL)
    }),
    ("gateway behind haproxy, PROXY v1", "haproxy", |s| {
        haproxy(s, "send-proxy")
    }),
    ("gateway and slowhttptest, heads", "slowhttptest", |s| {
        slow(s, "-H")
    }),
    ("gateway and slowhttptest, bodies", "slowhttptest", |s| {
        slow(s, "-B")
    }),
    ("gateway and slowhttptest, readers", "slowhttptest", |s| {
        slow(s, "-X")
    }),
];

/// A client that reads `/small` and `/large`.
type Client = fn(&Site<'_>) -> CheckResult;

const ALL: &[Client] = &[requests, httpx, aiohttp, undici, wrk];

/// A running gateway.
struct Gateway {
    _running: Running,
    port: u16,
    /// The port of the listener for operators.
    admin: u16,
    /// What it has written to its standard error.
    log: PathBuf,
}

/// Builds the gateway.
pub(super) fn build(root: &Path) -> Result<PathBuf, String> {
    let target = root::target_dir(root, "");
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["build", "--quiet", "--package", "tidegate-gateway"])
        .args(["--bin", "tidegate"])
        .env("CARGO_TARGET_DIR", &target);
    step::run(&mut command)?;
    Ok(target.join("debug/tidegate"))
}

impl Gateway {
    /// Starts the gateway in front of a server. `listener` and `route` are further settings.
    fn start(
        servers: &Servers,
        upstream: &str,
        listener: &str,
        route: &str,
    ) -> Result<Self, String> {
        let (port, admin) = (free_port()?, free_port()?);
        let file = servers.folder.join(format!("gateway-{port}.toml"));
        let (access, log) = (file.with_extension("access"), file.with_extension("log"));
        let text = format!(
            "[listen]\nadmin = \"127.0.0.1:{admin}\"\n\
             [listen.front]\nat = \"127.0.0.1:{port}\"\n{listener}\n\
             [upstream.back]\nservers = \"{upstream}\"\n\
             [route.all]\nupstream = \"back\"\ntimeout = \"15s\"\nlimit = 500\n{route}\n\
             [log]\nfile = {access:?}\n[reload]\nwatch = false\n\
             [drain]\nannounce = \"0s\"\ndeadline = \"1s\"\n"
        );
        std::fs::write(&file, text).map_err(|why| format!("{}: {why}", file.display()))?;
        let errors = std::fs::File::create(&log);
        let errors = errors.map_err(|why| format!("{}: {why}", log.display()))?;
        let mut command = Command::new(&servers.gateway);
        command.arg("run").arg(&file);
        let gateway = Self {
            _running: Running::start(&command, Stdio::null(), errors)?,
            port,
            admin,
            log,
        };
        let started = connect(port).and_then(|_| connect(admin)).map(drop);
        gateway.explain(started)?;
        Ok(gateway)
    }

    /// Returns the gateway as clients see it.
    fn site<'a>(&self, servers: &'a Servers) -> Site<'a> {
        Site {
            root: &servers.root,
            address: format!("127.0.0.1:{}", self.port),
            is_behind: true,
        }
    }

    /// Adds what the gateway has written to an error.
    fn explain<T>(&self, result: Result<T, String>) -> Result<T, String> {
        result.map_err(|why| {
            let log = std::fs::read_to_string(&self.log);
            format!("{why}\nthe gateway: {}", log.unwrap_or_default())
        })
    }
}

/// Starts a gateway in front of our own HTTP server, which has more pages than servers of files.
fn through(servers: &Servers) -> Result<Gateway, String> {
    Gateway::start(servers, servers.address("http")?, "", "")
}

/// Attacks a gateway with short time limits in front of our own HTTP server.
fn slow(servers: &Servers, kind: &str) -> CheckResult {
    let limits = "limits = { head_time = \"1s\", body_time = \"1s\", send_time = \"1s\" }";
    let gateway = Gateway::start(servers, servers.address("http")?, limits, "")?;
    gateway.explain(http::slow_at(&gateway.site(servers).address, kind))
}

/// Starts a gateway in front of a server of files, and runs curl and these clients.
fn before(servers: &Servers, server: &Server, clients: &[Client]) -> CheckResult {
    let upstream = format!("127.0.0.1:{}", server.port);
    let gateway = Gateway::start(servers, &upstream, "", "")?;
    let site = gateway.site(servers);
    let mut done = curl(&site);
    for client in clients {
        done = done.and_then(|()| client(&site));
    }
    gateway.explain(done).map_err(|why| server.explained(&why))
}

fn curl(site: &Site<'_>) -> CheckResult {
    let common = ["--silent", "--show-error", "--noproxy", "*"];
    let [small, large, nothing] = ["small", "large", "nothing"].map(|page| site.url(page));
    let get =
        |more: &[&str], answer: &str| expect("curl", &[&common[..], more].concat(), "", answer);
    get(&[&small, &small], "hello\nhello\n")?;
    get(&["--http1.0", &small], "hello\n")?;
    let quiet = ["--output", "/dev/null", "--write-out"];
    let size = [&quiet[..], &["%{http_code} %{size_download}", &large]];
    get(&size.concat(), "200 1048576")?;
    let range = ["--head", "--output", "/dev/null", "--write-out"];
    let head = [&range[..], &["%{http_code} %{size_download}", &large]];
    get(&head.concat(), "200 0")?;
    get(&[&quiet[..], &["%{http_code}", &nothing]].concat(), "404")
}

fn requests(site: &Site<'_>) -> CheckResult {
    http::python(site, "requests", "files")
}

fn httpx(site: &Site<'_>) -> CheckResult {
    http::python(site, "httpx", "files")
}

fn aiohttp(site: &Site<'_>) -> CheckResult {
    http::python(site, "aiohttp", "files")
}

fn undici(site: &Site<'_>) -> CheckResult {
    http::node(site, "undici", "files")
}

fn wrk(site: &Site<'_>) -> CheckResult {
    match super::installed("wrk") {
        true => http::wrk_at(&site.url("small")),
        false => {
            println!("wrk: skipped, it is not installed (.ci/peers installs it)");
            Ok(())
        }
    }
}

const TUNNEL: &str = "tunnel = { max = 100, idle = \"30s\" }";

/// WebSockets of the package ws: 20 connections with messages of several sizes.
fn ws(servers: &Servers) -> CheckResult {
    let Some(modules) = http::node_modules("ws") else {
        return Ok(());
    };
    let back = free_port()?;
    let gateway = Gateway::start(servers, &format!("127.0.0.1:{back}"), "", TUNNEL)?;
    let script = gateway.site(servers).script("sockets.mjs");
    let (back, port) = (back.to_string(), gateway.port.to_string());
    gateway.explain(http::succeeds("node", &[&script, &modules, &back, &port]))
}

/// WebSockets of the package websockets.
fn websockets(servers: &Servers) -> CheckResult {
    let back = free_port()?;
    let gateway = Gateway::start(servers, &format!("127.0.0.1:{back}"), "", TUNNEL)?;
    let script = gateway.site(servers).script("sockets.py");
    let (back, port) = (back.to_string(), gateway.port.to_string());
    gateway.explain(http::python_with("websockets", &[&script, &back, &port]))
}

/// haproxy says who its client is, with the PROXY protocol; the upstream must see that address.
fn haproxy(servers: &Servers, how: &str) -> CheckResult {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|why| why.to_string())?;
    let back = listener.local_addr().map_err(|why| why.to_string())?;
    let settings = "proxy_protocol = true\ntrust = \"127.0.0.1\"";
    let gateway = Gateway::start(servers, &back.to_string(), settings, "")?;
    let port = free_port()?;
    let text = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
         listen through\n  bind 127.0.0.1:{port}\n  server ours 127.0.0.1:{} {how}\n",
        gateway.port
    );
    let proxy = servers::haproxy_with(servers, "haproxy-gateway", port, &text)?;
    let seen = ask_through(port, &listener);
    let checked = seen.and_then(
        |head| match head.contains("\r\nX-Forwarded-For: 127.0.0.2\r\n") {
            true => Ok(()),
            false => Err(format!("the upstream saw {head}")),
        },
    );
    gateway
        .explain(checked)
        .map_err(|why| proxy.explained(&why))
}

/// Sends a request to a port from another address than the proxy has. Returns the head that the
/// upstream gets.
fn ask_through(port: u16, upstream: &TcpListener) -> Result<String, String> {
    let url = format!("http://127.0.0.1:{port}/");
    let asked = std::thread::Builder::new().name("curl".to_owned());
    let asked = asked.spawn(move || {
        let quiet = ["--silent", "--max-time", "10", "--noproxy", "*"];
        let from = ["--interface", "127.0.0.2", &url];
        ask("curl", &[&quiet[..], &from].concat(), "")
    });
    let asked = asked.map_err(|why| why.to_string())?;
    let head = respond_once(upstream).map_err(|why| format!("the upstream: {why}"))?;
    match asked.join() {
        Ok(Ok((output, true))) if output == "ok" => Ok(head),
        other => Err(format!("curl: {other:?}")),
    }
}

/// Accepts a connection, responds to its request and returns the head of that.
fn respond_once(listener: &TcpListener) -> std::io::Result<String> {
    let (mut stream, _) = accept(listener)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")?;
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Accepts a connection, within ten seconds.
fn accept(listener: &TcpListener) -> std::io::Result<(TcpStream, SocketAddr)> {
    listener.set_nonblocking(true)?;
    for _ in 0..400 {
        match listener.accept() {
            Ok((stream, peer)) => {
                stream.set_nonblocking(false)?;
                return Ok((stream, peer));
            }
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(why) => return Err(why),
        }
        std::thread::park_timeout(Duration::from_millis(25));
    }
    Err(std::io::ErrorKind::TimedOut.into())
}

/// promtool reads the metrics of a gateway that has served a request and refused another one.
fn promtool(servers: &Servers) -> CheckResult {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|why| why.to_string())?;
    let back = listener.local_addr().map_err(|why| why.to_string())?;
    let full = format!(
        "[upstream.busy]\nservers = \"{back}\"\n\
         [route.full]\npath = \"/full\"\nupstream = \"busy\"\nlimit = 1"
    );
    let gateway = Gateway::start(servers, servers.address("http")?, "", &full)?;
    let metrics = gateway.explain(metrics_after_refusal(&gateway, servers, &listener))?;
    match ask("promtool", &["check", "metrics"], &metrics)? {
        (_, true) => Ok(()),
        (output, false) => Err(output),
    }
}

/// Sends a request that is served, one that is never answered, and one that its route refuses because
/// of that. Returns the metrics.
fn metrics_after_refusal(
    gateway: &Gateway,
    servers: &Servers,
    busy: &TcpListener,
) -> Result<String, String> {
    let quiet = ["--silent", "--show-error", "--noproxy", "*"];
    let code = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    let site = gateway.site(servers);
    let (served, full) = (site.url(""), site.url("full"));
    expect("curl", &[&quiet[..], &code, &[&served]].concat(), "", "200")?;
    let mut held = connect(gateway.port)?;
    let request = b"GET /full HTTP/1.1\r\nHost: full\r\n\r\n";
    held.write_all(request).map_err(|why| why.to_string())?;
    let _server = accept(busy).map_err(|why| format!("the upstream: {why}"))?;
    expect("curl", &[&quiet[..], &code, &[&full]].concat(), "", "503")?;
    let url = format!("http://127.0.0.1:{}/metrics", gateway.admin);
    let (metrics, _) = ask("curl", &[&quiet[..], &[&url]].concat(), "")?;
    let refusal = "tidegate_route_problems_total{route=\"full\",reason=\"limit\"} 1";
    match metrics.contains(refusal) {
        true => Ok(metrics),
        false => Err(format!("no {refusal}: {metrics}")),
    }
}

/// A gateway with three routes, and the program that serves and calls them.
pub(crate) struct Shown {
    /// The address of the gateway's stream.
    pub(crate) stream: String,
    _running: [Running; 2],
}

/// Starts a gateway for the Hystrix dashboard: the upstream of one route works, that of another one
/// fails, that of the third one never responds.
pub(crate) fn for_dashboard(root: &Path, folder: &Path, traffic: &Path) -> Result<Shown, String> {
    let program = build(root)?;
    let (port, admin, back) = (free_port()?, free_port()?, free_port()?);
    let routes = ["prices", "stock", "reviews"]
        .map(|name| format!("[route.{name}]\npath = \"/{name}\"\nupstream = \"back\"\n"));
    let text = format!(
        "[listen]\nadmin = \"127.0.0.1:{admin}\"\nfront = \"127.0.0.1:{port}\"\n\
         [defaults.route]\ntimeout = \"100ms\"\nlimit = 50\nbreaker = {{ sleep = \"1s\" }}\n\
         [upstream.back]\nservers = \"127.0.0.1:{back}\"\n{}\
         [reload]\nwatch = false\n[drain]\nannounce = \"0s\"\ndeadline = \"1s\"\n",
        routes.concat()
    );
    let file = folder.join("gateway.toml");
    std::fs::write(&file, text).map_err(|why| format!("{}: {why}", file.display()))?;
    let mut gateway = Command::new(program);
    gateway.arg("run").arg(&file);
    let gateway = Running::start(&gateway, Stdio::null(), Stdio::inherit())?;
    let mut script = Command::new("node");
    script.arg(traffic);
    script.args([back.to_string(), port.to_string()]);
    let script = Running::start(&script, Stdio::null(), Stdio::inherit())?;
    drop(connect(admin)?);
    Ok(Shown {
        stream: format!("http://127.0.0.1:{admin}/hystrix.stream"),
        _running: [gateway, script],
    })
}

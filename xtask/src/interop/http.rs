//! The checks of our HTTP server and decoder, with clients, load generators and proxies.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Check, CheckResult, Running, Servers, ask, connect, expect, free_port, path};
use crate::{root, step};

pub(super) const CHECKS: &[Check] = &[
    ("curl and HTTP", "curl", |s| curl(&s.site()?)),
    ("wrk", "wrk", |s| wrk(&s.site()?)),
    ("h2load, HTTP/1.1", "h2load", |s| h2load(&s.site()?)),
    ("ab", "ab", |s| ab(&s.site()?)),
    ("hey", "hey", |s| hey(&s.site()?)),
    ("requests", "python3", |s| {
        python(&s.site()?, "requests", "all")
    }),
    ("httpx", "python3", |s| python(&s.site()?, "httpx", "all")),
    ("aiohttp", "python3", |s| {
        python(&s.site()?, "aiohttp", "all")
    }),
    ("undici", "node", |s| node(&s.site()?, "undici", "all")),
    ("autocannon", "node", |s| {
        node(&s.site()?, "autocannon", "all")
    }),
    ("behind nginx", "nginx", nginx),
    ("behind haproxy", "haproxy", haproxy),
    ("slowhttptest, heads", "slowhttptest", |s| slow(s, "-H")),
    ("h11 and our decoder", "python3", h11),
];

/// Checks that take longer.
pub(super) const LONG_CHECKS: &[Check] = &[
    ("slowhttptest, bodies", "slowhttptest", |s| slow(s, "-B")),
    ("slowhttptest, readers", "slowhttptest", |s| slow(s, "-X")),
];

/// How many requests a load generator sends.
const REQUESTS: &str = "4000";

/// A server as clients see it.
pub(super) struct Site<'a> {
    /// The root of the workspace, which has the scripts.
    pub(super) root: &'a Path,
    pub(super) address: String,
    /// A proxy is between, which has connections of its own to the server.
    pub(super) is_behind: bool,
}

impl Site<'_> {
    /// Returns the address of a page.
    pub(super) fn url(&self, page: &str) -> String {
        format!("http://{}/{page}", self.address)
    }

    /// Returns the path of a script.
    pub(super) fn script(&self, name: &str) -> String {
        let path = self.root.join("xtask/interop").join(name);
        path.display().to_string()
    }
}

/// Runs a program and returns an error unless it succeeds and its output contains each of `parts`.
fn contains(program: &str, args: &[&str], parts: &[&str]) -> CheckResult {
    let (output, succeeded) = ask(program, args, "")?;
    match parts.iter().find(|part| !output.contains(**part)) {
        None if succeeded => Ok(()),
        _ => Err(format!("expected {parts:?}, got {output}")),
    }
}

pub(super) fn curl(site: &Site<'_>) -> CheckResult {
    let quiet = ["--silent", "--show-error", "--noproxy", "*", "--http1.1"];
    let get = |more: &[&str], input: &str, answer: &str| {
        expect("curl", &[&quiet[..], more].concat(), input, answer)
    };
    let (home, echo) = (site.url(""), site.url("echo"));
    let stream = site.url("stream");
    // Three requests on one connection.
    let number = ["--write-out", "%{num_connects} "];
    let three = [&number[..], &[&home, &home, &home]].concat();
    get(&three, "", "hello\n1 hello\n0 hello\n0 ")?;
    get(&["--http1.0", &home], "", "hello\n")?;
    let large: String = (0..100_000).map(|n| format!("{n}\n")).collect();
    for page in [&echo, &stream] {
        get(&["--data-binary", "@-", page], &large, &large)?;
        let expects = ["--header", "Expect: 100-continue", "--data-binary", "@-"];
        get(&[&expects[..], &[page]].concat(), &large, &large)?;
        let chunked = ["--header", "Transfer-Encoding: chunked", "--data-binary"];
        get(&[&chunked[..], &["@-", page]].concat(), &large, &large)?;
    }
    let (large, chunked) = (site.url("large"), site.url("chunked"));
    let head = [&quiet[..], &["--head", &large]].concat();
    contains(
        "curl",
        &head,
        &["HTTP/1.1 200 OK", "Content-Length: 1048576"],
    )?;
    let chunks = [&quiet[..], &["--include", &chunked]].concat();
    let parts = [
        "Transfer-Encoding: chunked",
        "\r\n\r\nchunk 0\n",
        "chunk 99\n",
    ];
    contains("curl", &chunks, &parts)
}

pub(super) fn wrk(site: &Site<'_>) -> CheckResult {
    wrk_at(&site.url(""))
}

/// Sends requests for one page for a second.
pub(super) fn wrk_at(url: &str) -> CheckResult {
    let args = ["-t1", "-c16", "-d1s", url];
    let (output, succeeded) = ask("wrk", &args, "")?;
    let complaints = ["Socket errors", "Non-2xx"];
    let complains = complaints.iter().any(|part| output.contains(part));
    match succeeded && !complains && output.contains("Requests/sec") {
        true => Ok(()),
        false => Err(output),
    }
}

pub(super) fn h2load(site: &Site<'_>) -> CheckResult {
    let args = ["--h1", "-n", REQUESTS, "-c", "16", &site.url("")];
    let all = format!("{REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout");
    contains("h2load", &args, &[&all])
}

/// ab speaks HTTP/1.0 with `Connection: Keep-Alive`.
pub(super) fn ab(site: &Site<'_>) -> CheckResult {
    let args = ["-q", "-k", "-n", REQUESTS, "-c", "16", &site.url("")];
    let kept = format!("Keep-Alive requests:    {REQUESTS}\n");
    contains("ab", &args, &["Failed requests:        0\n", &kept])
}

pub(super) fn hey(site: &Site<'_>) -> CheckResult {
    let args = ["-n", REQUESTS, "-c", "16", &site.url("")];
    contains("hey", &args, &[&format!("[200]\t{REQUESTS} responses")])
}

/// Returns the folder into which `.ci/peers` installs packages of Python or Node.
pub(super) fn packages(language: &str) -> PathBuf {
    root::cache_dir("tidegate-peers").join(language)
}

/// Returns `true` if a library of Python is installed. Otherwise prints a line.
pub(super) fn has_python(library: &str) -> bool {
    let mut import = Command::new("python3");
    import.env("PYTHONPATH", packages("python"));
    let works = step::works(import.args(["-c", &format!("import {library}")]));
    if !works {
        println!("{library}: skipped, it is not installed (.ci/peers installs it)");
    }
    works
}

/// Runs a script of Python that needs `library`. Prints a line if it is not installed.
pub(super) fn python_with(library: &str, args: &[&str]) -> CheckResult {
    if !has_python(library) {
        return Ok(());
    }
    let folder = format!("PYTHONPATH={}", packages("python").display());
    let args = [&[folder.as_str(), "python3", "-B"][..], args].concat();
    succeeds("env", &args)
}

/// Runs a client of Python. `pages` are those of our HTTP server, `all`, or those of `files`.
pub(super) fn python(site: &Site<'_>, library: &str, pages: &str) -> CheckResult {
    let script = site.script("clients.py");
    python_with(library, &[&script, library, &site.address, pages])
}

/// Returns the folder with a package of Node. Prints a line if it is not installed.
pub(super) fn node_modules(library: &str) -> Option<String> {
    let modules = packages("node").join("node_modules");
    let is_there = modules.join(library).is_dir();
    if !is_there {
        println!("{library}: skipped, it is not installed (.ci/peers installs it)");
    }
    is_there.then(|| modules.display().to_string())
}

/// Runs a client of Node, as [`python`] does.
pub(super) fn node(site: &Site<'_>, library: &str, pages: &str) -> CheckResult {
    let Some(modules) = node_modules(library) else {
        return Ok(());
    };
    let between = if site.is_behind { "behind" } else { "direct" };
    let script = site.script("clients.mjs");
    succeeds(
        "node",
        &[&script, library, &modules, &site.address, pages, between],
    )
}

/// Runs a program and returns an error unless it succeeds.
pub(super) fn succeeds(program: &str, args: &[&str]) -> CheckResult {
    match ask(program, args, "")? {
        (_, true) => Ok(()),
        (output, false) => Err(output),
    }
}

fn nginx(servers: &Servers) -> CheckResult {
    let port = free_port()?;
    let folder = servers.folder.join("nginx");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {}/{kind};", folder.display()))
        .join(" ");
    let text = format!(
        "daemon off; error_log {folder}/error.log; pid {folder}/pid; events {{ }}\n\
         http {{ access_log off; client_max_body_size 16m; {temporary}\n\
         upstream ours {{ server {address}; keepalive 8; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://ours;\n\
         proxy_http_version 1.1; proxy_set_header Connection \"\"; }}\n\
         location /unbuffered/ {{ proxy_pass http://ours/; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_buffering off; proxy_request_buffering off; }} }} }}\n",
        folder = folder.display(),
        address = servers.address("http")?,
    );
    let config = folder.join("nginx.conf");
    std::fs::write(&config, text).map_err(|e| format!("{}: {e}", config.display()))?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&folder).arg("-c").arg(&config);
    behind(servers, &mut command, port, &["", "/unbuffered"])
}

fn haproxy(servers: &Servers) -> CheckResult {
    let port = free_port()?;
    let config = servers.folder.join("haproxy-http.cfg");
    let text = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
         listen through\n  bind 127.0.0.1:{port}\n  http-reuse always\n  server ours {}\n",
        servers.address("http")?
    );
    std::fs::write(&config, text).map_err(|e| format!("{}: {e}", config.display()))?;
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(&config);
    behind(servers, &mut command, port, &[""])
}

/// Starts a proxy that listens on `port`, and sends requests through it. The proxy must use its
/// connections to our server again.
fn behind(servers: &Servers, proxy: &mut Command, port: u16, prefixes: &[&str]) -> CheckResult {
    let proxy = proxy.env("PATH", path());
    let _proxy = Running::start(proxy, Stdio::null(), Stdio::null())?;
    connect(port)?;
    let curl = |more: &[&str], input: &str, answer: &str| {
        let quiet = ["--silent", "--show-error", "--noproxy", "*"];
        expect("curl", &[&quiet[..], more].concat(), input, answer)
    };
    let large: String = (0..50_000).map(|n| format!("{n}\n")).collect();
    let chunks: String = (0..100).map(|n| format!("chunk {n}\n")).collect();
    for prefix in prefixes {
        let url = |page: &str| format!("http://127.0.0.1:{port}{prefix}{page}");
        curl(&[&url("/")], "", "hello\n")?;
        curl(&[&url("/chunked")], "", &chunks)?;
        for page in ["/echo", "/stream"] {
            let page = url(page);
            curl(&["--data-binary", "@-", &page], &large, &large)?;
            let chunked = ["--header", "Transfer-Encoding: chunked", "--data-binary"];
            let args = [&chunked[..], &["@-", &page]].concat();
            curl(&args, &large, &large)?;
        }
        let before = accepted(servers)?;
        for _ in 0..20 {
            curl(&[&url("/")], "", "hello\n")?;
        }
        // One of them is for the question itself.
        let connections = accepted(servers)? - before;
        if connections > 10 {
            return Err(format!("{connections} connections for 20 requests"));
        }
    }
    Ok(())
}

/// Asks our server how many connections it has accepted.
fn accepted(servers: &Servers) -> Result<u64, String> {
    let args = [
        "--silent",
        "--noproxy",
        "*",
        &servers.site()?.url("accepted"),
    ];
    let (output, _) = ask("curl", &args, "")?;
    output
        .parse()
        .map_err(|_| format!("not a number: {output}"))
}

/// Attacks our server with short time limits.
fn slow(servers: &Servers, kind: &str) -> CheckResult {
    slow_at(servers.address("impatient")?, kind)
}

/// Attacks a server with short time limits. It must end every connection and stay available.
pub(super) fn slow_at(address: &str, kind: &str) -> CheckResult {
    let page = match kind {
        "-B" => "/echo",
        "-X" => "/large",
        _ => "/",
    };
    let there = format!("http://{address}{page}");
    let common = ["-c", "100", "-r", "100", "-l", "10", "-p", "3", "-i", "3"];
    let own: &[&str] = match kind {
        // Reads rarely, and then enough to notice a reset.
        "-X" => &["-w", "512", "-y", "1024", "-n", "3", "-z", "65536"],
        _ => &[],
    };
    let args = [&[kind][..], &common, own, &["-u", &there]].concat();
    contains("slowhttptest", &args, &["No open connections left", "YES"])?;
    contains("curl", &["--silent", "--noproxy", "*", &there], &[""])
}

/// Compares our decoder with the Python package h11, for generated requests. Needs no server.
fn h11(servers: &Servers) -> CheckResult {
    let script = "crates/tidegate-http/examples/compare_h11.py";
    let script = servers.root.join(script).display().to_string();
    let program = servers.decode.display().to_string();
    python_with("h11", &[&script, &program, "10000", "1"])
}

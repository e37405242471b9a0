//! `cargo xtask interop`: tests our servers with third-party programs as clients, and our HTTP client
//! with third-party servers.
//!
//! `http.rs` has the checks of the HTTP server, `servers.rs` those of the HTTP client, `gateway.rs`
//! those of the gateway, which is between other clients and other servers. `running.rs` ends what
//! was started. `.ci/peers` installs the programs. The checks of a missing program are skipped, with
//! a message. All traffic is on the loopback interface, at ports that the operating system chose.
//! Every program has a time limit.

mod gateway;
mod http;
mod running;
mod servers;

pub(crate) use gateway::for_dashboard as dashboard_gateway;

use std::io::{BufRead, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use running::Running;

use crate::root;
use crate::step::{self, Outcome};

/// Time limit for one program, in seconds: much more than it needs, for a machine that is busy.
const LIMIT: &str = "60";

/// A check: its name, the program that it needs, and the function that runs it.
type Check = (&'static str, &'static str, fn(&Servers) -> CheckResult);
type CheckResult = Result<(), String>;

const CHECKS: &[Check] = &[
    ("openssl, TLS 1.3", "openssl", |s| openssl(s, "-tls1_3")),
    ("openssl, TLS 1.2", "openssl", |s| openssl(s, "-tls1_2")),
    ("openssl, another name", "openssl", openssl_elsewhere),
    ("curl over TLS", "curl", curl),
    ("socat and echo", "socat", socat),
    ("socat over TLS", "socat", socat_tls),
    ("nc and lines", "nc", netcat),
    ("redis-cli", "redis-cli", redis_cli),
    ("redis-benchmark", "redis-benchmark", redis_benchmark),
    ("haproxy, PROXY v1", "haproxy", |s| haproxy(s, "send-proxy")),
    ("haproxy, PROXY v2", "haproxy", |s| {
        haproxy(s, "send-proxy-v2")
    }),
];

/// Builds and starts the servers, and runs every check whose program is installed.
///
/// With `long`, also the checks that take longer: more pairs of clients and servers, slow clients. With
/// `only`, those whose names contain one of these texts. Skips where none of the programs is installed.
///
/// # Errors
///
/// Returns an error if a server does not start, or if a program does not get the expected reply.
pub fn run(root: &Path, long: bool, only: &[&str]) -> step::Result {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part));
    let checks = || {
        let more = [http::LONG_CHECKS, gateway::LONG_CHECKS];
        let more = more.into_iter().flatten().filter(|_| long);
        let all = CHECKS.iter().chain(http::CHECKS).chain(servers::CHECKS);
        let all = all.chain(gateway::CHECKS).chain(more);
        all.filter(|(name, ..)| wanted(name))
    };
    if !checks().any(|(_, program, _)| installed(program)) {
        return Ok(Outcome::Skipped(
            "no peer is installed; see .ci/peers".into(),
        ));
    }
    let running = Servers::start(root)?;
    for (name, program, check) in checks() {
        if !installed(program) {
            let installs = installer(program);
            println!("{name}: skipped, {program} is not installed ({installs} installs it)");
            continue;
        }
        check(&running).map_err(|why| format!("{name}: {why}"))?;
        println!("{name}: ok");
    }
    Ok(Outcome::Passed)
}

/// Returns `true` if a program is installed.
fn installed(program: &str) -> bool {
    step::works(Command::new("which").arg(program).env("PATH", path()))
}

/// Returns the command that installs a program.
fn installer(program: &str) -> &'static str {
    match program {
        "promtool" => ".ci/peers --long",
        _ => ".ci/peers",
    }
}

/// Returns the search path for programs, including the folders for administrators.
fn path() -> String {
    step::appended("PATH", ":", "/usr/sbin:/sbin")
}

/// Our running servers and their addresses.
struct Servers {
    _running: [Running; 3],
    addresses: Vec<(String, String)>,
    folder: PathBuf,
    /// The root of the workspace.
    root: PathBuf,
    /// The program that prints what our HTTP decoder says.
    decode: PathBuf,
    /// The program that uses our HTTP client.
    client: PathBuf,
    /// The gateway.
    gateway: PathBuf,
}

impl Servers {
    fn start(root: &Path) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("tidegate-interop-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let packages = ["tidegate-net", "tidegate-examples", "tidegate-http"];
        let programs = [
            "interop",
            "resp",
            "http_interop",
            "decode",
            "client_interop",
        ];
        let [interop, resp, http, decode, client] = build(root, &packages, programs)?;
        let gateway = gateway::build(root)?;
        let mut addresses = Vec::new();
        let interop = start(Command::new(interop).arg(&folder), "ready", &mut addresses)?;
        let resp = start(
            Command::new(resp).arg("127.0.0.1:0"),
            "listening",
            &mut addresses,
        )?;
        let http = start(&mut Command::new(http), "ready", &mut addresses)?;
        Ok(Self {
            _running: [interop, resp, http],
            addresses,
            folder,
            root: root.to_path_buf(),
            decode,
            client,
            gateway,
        })
    }

    /// Returns the address of the server `name`; `listening` is the server of the Redis protocol.
    fn address(&self, name: &str) -> Result<&str, String> {
        let mut all = self.addresses.iter();
        let found = all.find(|(own, _)| own == name);
        let found = found.map(|(_, address)| address.as_str());
        found.ok_or_else(|| format!("no server printed the name `{name}`"))
    }

    fn port(&self, name: &str) -> Result<&str, String> {
        let address = self.address(name)?;
        address
            .rsplit(':')
            .next()
            .ok_or_else(|| format!("{address} has no port"))
    }

    /// Returns our HTTP server as clients see it.
    fn site(&self) -> Result<http::Site<'_>, String> {
        Ok(http::Site {
            root: &self.root,
            address: self.address("http")?.to_owned(),
            is_behind: false,
        })
    }

    fn trusted(&self) -> String {
        self.folder.join("trusted.pem").display().to_string()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Builds examples of these packages together, so that their libraries are built once. Returns the
/// programs.
pub(crate) fn build<const N: usize>(
    root: &Path,
    packages: &[&str],
    examples: [&str; N],
) -> Result<[PathBuf; N], String> {
    let target = root::target_dir(root, "");
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["build", "--quiet", "--all-features"])
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .args(examples.iter().flat_map(|example| ["--example", example]))
        .env("CARGO_TARGET_DIR", &target);
    step::run(&mut command)?;
    Ok(examples.map(|example| target.join("debug/examples").join(example)))
}

/// Starts a server and reads `NAME ... ADDRESS` lines from it, until one begins with `last`.
pub(crate) fn start(
    command: &mut Command,
    last: &str,
    addresses: &mut Vec<(String, String)>,
) -> Result<Running, String> {
    let mut running = Running::start(command, Stdio::piped(), Stdio::inherit())?;
    let mut output = running.output().ok_or("a server without output")?;
    let mut line = String::new();
    while output
        .read_line(&mut line)
        .map_err(|e| format!("a server: {e}"))?
        > 0
    {
        let said = std::mem::take(&mut line);
        let line = said.trim_end();
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        if let Some(address) = words.next_back() {
            addresses.push((name.to_owned(), address.to_owned()));
        }
        if name == last {
            running.keep(output);
            return Ok(running);
        }
    }
    Err(format!("a server ended without saying `{last}`"))
}

/// Runs `program` with `input`, within the time limit. Returns its output and whether it succeeded.
fn ask(program: &str, args: &[&str], input: &str) -> Result<(String, bool), String> {
    let mut command = Command::new("timeout");
    command
        .args(["-k", "1", LIMIT, program])
        .args(args)
        .env("PATH", path());
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped
        .spawn()
        .map_err(|e| format!("cannot start {program}: {e}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the program has already ended, its exit status is checked below.
        let _ = stdin.write_all(input.as_bytes());
    }
    let ended = child
        .wait_with_output()
        .map_err(|e| format!("{program}: {e}"))?;
    if ended.status.code() == Some(124) {
        return Err(format!("{program} did not end within {LIMIT} s"));
    }
    let output = String::from_utf8_lossy(&ended.stdout).into_owned();
    let complained = String::from_utf8_lossy(&ended.stderr);
    if !ended.status.success() {
        return Ok((format!("{output}{complained}"), false));
    }
    Ok((output, true))
}

/// Like [`ask`], but returns an error unless the program succeeds with the output `answer`.
fn expect(program: &str, args: &[&str], input: &str, answer: &str) -> CheckResult {
    match ask(program, args, input)? {
        (output, true) if output == answer => Ok(()),
        (output, succeeded) => Err(format!(
            "printed {output:?} ({}), expected {answer:?}",
            if succeeded { "succeeded" } else { "failed" }
        )),
    }
}

fn openssl(servers: &Servers, version: &str) -> CheckResult {
    let (address, trusted) = (servers.address("tls")?, servers.trusted());
    let args = [
        &[
            "s_client", "-quiet", "-connect", address, "-CAfile", &trusted,
        ][..],
        &["-servername", "localhost", "-verify_hostname", "localhost"],
        &["-verify_return_error", "-alpn", "echo", version],
    ];
    expect("openssl", &args.concat(), "hello\nbye\n", "hello\nbye\n")
}

fn openssl_elsewhere(servers: &Servers) -> CheckResult {
    let (address, trusted) = (servers.address("tls")?, servers.trusted());
    let args = [
        &[
            "s_client", "-quiet", "-connect", address, "-CAfile", &trusted,
        ][..],
        &["-verify_hostname", "elsewhere", "-verify_return_error"],
    ];
    match ask("openssl", &args.concat(), "bye\n")? {
        (_, false) => Ok(()),
        (output, true) => Err(format!("trusted a certificate for another name: {output}")),
    }
}

fn curl(servers: &Servers) -> CheckResult {
    let (port, trusted) = (servers.port("tls")?, servers.trusted());
    let there = format!("localhost:{port}:127.0.0.1");
    let get = |page: &str| {
        let url = format!("https://localhost:{port}/{page}");
        let args = [
            &["--silent", "--show-error", "--noproxy", "*", "--http1.1"][..],
            &["--cacert", &trusted, "--resolve", &there, &url],
        ];
        ask("curl", &args.concat(), "")
    };
    let (output, succeeded) = get("")?;
    if !succeeded || !output.contains("http/1.1") || !output.contains("localhost") {
        return Err(output);
    }
    match get("big")? {
        (big, true) if big.len() == 1 << 20 => Ok(()),
        (big, _) => Err(format!("{} bytes of a megabyte", big.len())),
    }
}

fn socat(servers: &Servers) -> CheckResult {
    let there = format!("TCP:{}", servers.address("echo")?);
    expect(
        "socat",
        &["-t5", "-", &there],
        "hello\nbye\n",
        "hello\nbye\n",
    )
}

fn socat_tls(servers: &Servers) -> CheckResult {
    let (address, trusted) = (servers.address("tls")?, servers.trusted());
    let there = format!("OPENSSL:{address},cafile={trusted},commonname=localhost");
    expect(
        "socat",
        &["-t5", "-", &there],
        "hello\nbye\n",
        "hello\nbye\n",
    )
}

fn netcat(servers: &Servers) -> CheckResult {
    let port = servers.port("lines")?;
    expect(
        "nc",
        &["-N", "127.0.0.1", port],
        "one\r\ntwo\n",
        "ONE\nTWO\n",
    )
}

fn redis_cli(servers: &Servers) -> CheckResult {
    let port = servers.port("listening")?;
    let commands = "PING\nSET answer 41\nINCR answer\nGET answer\nGET nothing\n";
    let answers = "PONG\nOK\n42\n42\n\n";
    expect("redis-cli", &["-p", port], commands, answers)
}

fn redis_benchmark(servers: &Servers) -> CheckResult {
    let port = servers.port("listening")?;
    let args = ["-p", port, "-q", "-n", "2000", "-c", "20", "-P", "4"];
    let tests = ["-t", "ping,set,get,incr"];
    let (output, succeeded) = ask("redis-benchmark", &[&args[..], &tests].concat(), "")?;
    let done = output.matches("requests per second").count();
    // PING is measured in two variants.
    if succeeded && done == 5 {
        Ok(())
    } else {
        Err(output)
    }
}

fn haproxy(servers: &Servers, how: &str) -> CheckResult {
    let port = free_port()?;
    let config = servers.folder.join("haproxy.cfg");
    let text = format!(
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
         listen through\n  bind 127.0.0.1:{port}\n  server ours {} {how}\n",
        servers.address("proxied")?
    );
    std::fs::write(&config, text).map_err(|e| format!("{}: {e}", config.display()))?;
    let mut command = Command::new("haproxy");
    command
        .arg("-db")
        .arg("-f")
        .arg(&config)
        .env("PATH", path());
    let _proxy = Running::start(&command, Stdio::null(), Stdio::null())?;
    let mut through = connect(port)?;
    let own = through.local_addr().map_err(|e| e.to_string())?;
    let mut output = String::new();
    let read = through.read_to_string(&mut output);
    read.map_err(|e| format!("through haproxy: {e}"))?;
    if output == own.to_string() {
        Ok(())
    } else {
        Err(format!(
            "the server saw {output:?} behind the proxy, not {own}"
        ))
    }
}

/// Returns a port that was free at the time of the call.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.port())
}

/// Connects to a program that may still be starting. On a busy machine that takes seconds.
fn connect(port: u16) -> Result<TcpStream, String> {
    let mut last = String::new();
    for _ in 0..1200 {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => {
                let limit = Some(Duration::from_secs(10));
                stream.set_read_timeout(limit).map_err(|e| e.to_string())?;
                return Ok(stream);
            }
            Err(why) => last = why.to_string(),
        }
        std::thread::park_timeout(Duration::from_millis(25));
    }
    Err(format!("no program listens on port {port}: {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unexpected_output_is_an_error_that_contains_it() {
        assert_eq!(expect("cat", &[], "hello", "hello"), Ok(()));
        let why = expect("cat", &[], "hello", "goodbye").unwrap_err();
        assert!(why.contains("hello") && why.contains("goodbye"), "{why}");
        let (_, succeeded) = ask("false", &[], "").unwrap();
        assert!(!succeeded);
    }

    #[test]
    fn addresses_are_read_from_what_a_server_says() {
        let mut addresses = Vec::new();
        let script = "echo echo 127.0.0.1:1; echo listening on 127.0.0.1:2; echo ready; cat";
        let mut command = Command::new("sh");
        let running = start(command.args(["-c", script]), "ready", &mut addresses).unwrap();
        let named = |name: &str, address: &str| (name.to_owned(), address.to_owned());
        let all = [
            named("echo", "127.0.0.1:1"),
            named("listening", "127.0.0.1:2"),
        ];
        assert_eq!(addresses, all);
        drop(running);
        let ended = start(Command::new("true").args([""; 0]), "ready", &mut Vec::new());
        assert!(ended.is_err());
    }
}

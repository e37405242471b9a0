//! The checks of our HTTP client, with other servers. `client_interop` makes the requests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Check, CheckResult, Running, Servers, ask, connect, free_port, http, path};

pub(super) const CHECKS: &[Check] = &[
    ("our client and nginx", "nginx", nginx),
    ("our client and Apache", "apache2", apache),
    ("our client and lighttpd", "lighttpd", lighttpd),
    ("our client and caddy", "caddy", caddy),
    ("our client and h2o", "h2o", h2o),
    ("our client and http.server", "python3", |s| {
        python(s, "http.server", &[])
    }),
    ("our client and http.server, HTTP/1.0", "python3", |s| {
        python(s, "http.server/1.0", &["close"])
    }),
    (
        "our client and aiohttp",
        "python3",
        |s| match http::has_python("aiohttp") {
            true => python(s, "aiohttp", &["chunked", "post", "cut"]),
            false => Ok(()),
        },
    ),
    ("our client and Node", "node", |s| {
        let port = free_port()?;
        let _node = node(s, port)?;
        client(s, "node", port, &["chunked", "post", "cut"])
    }),
    ("our client, haproxy and Node", "haproxy", haproxy),
];

/// Creates a folder with the files that `client_interop` reads. Returns it.
fn files(servers: &Servers, name: &str) -> Result<PathBuf, String> {
    let folder = servers.folder.join(name.replace('/', "-"));
    let write = |name: &str, text: &[u8]| std::fs::write(folder.join(name), text);
    let made = std::fs::create_dir_all(&folder)
        .and_then(|()| write("small", b"hello\n"))
        .and_then(|()| write("large", &vec![b'x'; 1 << 20]));
    made.map_err(|why| format!("{}: {why}", folder.display()))?;
    Ok(folder)
}

/// Starts a server, which writes its messages to a file.
fn start(command: &mut Command, folder: &Path) -> Result<Running, String> {
    let log = folder.with_extension("log");
    let log = std::fs::File::create(&log).map_err(|why| format!("{}: {why}", log.display()))?;
    let quiet = command
        .env("PATH", path())
        // Where caddy keeps what it remembers.
        .env("XDG_CONFIG_HOME", folder.with_extension("home"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    let started = quiet.spawn();
    Ok(Running(started.map_err(|why| {
        format!("cannot start the server: {why}")
    })?))
}

/// Runs our client against the server at `port`.
fn client(servers: &Servers, name: &str, port: u16, features: &[&str]) -> CheckResult {
    let run = || {
        drop(connect(port)?);
        let program = servers.client.display().to_string();
        let url = format!("http://127.0.0.1:{port}/");
        let args = [&[name, url.as_str()][..], features].concat();
        match ask(&program, &args, "")? {
            (_, true) => Ok(()),
            (output, false) => Err(output),
        }
    };
    run().map_err(|why| {
        let log = servers.folder.join(name.replace('/', "-"));
        let log = std::fs::read_to_string(log.with_extension("log"));
        format!("{why}\n{}", log.unwrap_or_default())
    })
}

/// Starts the server `name` with a configuration in its folder, and runs our client.
fn configured(
    servers: &Servers,
    name: &str,
    features: &[&str],
    text: impl Fn(u16, &str) -> String,
    args: &[&str],
) -> CheckResult {
    let (port, folder) = (free_port()?, files(servers, name)?);
    let config = folder.with_extension("conf");
    let text = text(port, &folder.display().to_string());
    std::fs::write(&config, text).map_err(|why| format!("{}: {why}", config.display()))?;
    let mut command = Command::new(name);
    let _server = start(command.args(args).arg(&config), &folder)?;
    client(servers, name, port, features)
}

/// Chunks and echoes come from our own server, through nginx.
fn nginx(servers: &Servers) -> CheckResult {
    let ours = servers.address("http")?;
    let text = |port: u16, folder: &str| {
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {folder}.{kind};"))
            .join(" ");
        format!(
            "daemon off; error_log stderr; pid {folder}.pid; events {{ }}\n\
             http {{ access_log off; client_max_body_size 16m; {temporary}\n\
             server {{ listen 127.0.0.1:{port}; root {folder};\n\
             location = /chunked {{ proxy_pass http://{ours}; proxy_http_version 1.1; }}\n\
             location = /echo {{ proxy_pass http://{ours}; proxy_http_version 1.1; }} }} }}\n"
        )
    };
    configured(servers, "nginx", &["chunked", "post"], text, &["-c"])
}

fn apache(servers: &Servers) -> CheckResult {
    let text = |port: u16, folder: &str| {
        format!(
            "ServerName localhost\nServerRoot {folder}\nListen 127.0.0.1:{port}\n\
             PidFile {folder}.pid\nErrorLog /dev/stderr\n\
             LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
             LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
             DocumentRoot {folder}\n<Directory {folder}>\nRequire all granted\n</Directory>\n"
        )
    };
    configured(servers, "apache2", &[], text, &["-DFOREGROUND", "-f"])
}

fn lighttpd(servers: &Servers) -> CheckResult {
    let text = |port: u16, folder: &str| {
        format!(
            "server.document-root = \"{folder}\"\nserver.port = {port}\n\
             server.bind = \"127.0.0.1\"\nserver.max-keep-alive-requests = 100\n"
        )
    };
    configured(servers, "lighttpd", &[], text, &["-D", "-f"])
}

fn caddy(servers: &Servers) -> CheckResult {
    let text = |port: u16, folder: &str| {
        format!(
            "{{\nadmin off\nauto_https off\n}}\n\
             http://127.0.0.1:{port} {{\nroot * {folder}\nfile_server\n}}\n"
        )
    };
    let args = ["run", "--adapter", "caddyfile", "--config"];
    configured(servers, "caddy", &[], text, &args)
}

fn h2o(servers: &Servers) -> CheckResult {
    let text = |port: u16, folder: &str| {
        format!(
            "listen:\n  host: 127.0.0.1\n  port: {port}\n\
             hosts:\n  default:\n    paths:\n      /:\n        file.dir: {folder}\n"
        )
    };
    configured(servers, "h2o", &[], text, &["-c"])
}

fn python(servers: &Servers, library: &str, features: &[&str]) -> CheckResult {
    let (port, folder) = (free_port()?, files(servers, library)?);
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", http::packages("python"))
        .arg("-B")
        .arg(servers.root.join("xtask/interop/servers.py"))
        .args([library, &port.to_string()])
        .arg(&folder);
    let _server = start(&mut command, &folder)?;
    client(servers, library, port, features)
}

fn node(servers: &Servers, port: u16) -> Result<Running, String> {
    let folder = files(servers, "node")?;
    let mut command = Command::new("node");
    command
        .arg(servers.root.join("xtask/interop/servers.mjs"))
        .arg(port.to_string())
        .arg(&folder);
    start(&mut command, &folder)
}

fn haproxy(servers: &Servers) -> CheckResult {
    let (behind, port) = (free_port()?, free_port()?);
    let _node = node(servers, behind)?;
    drop(connect(behind)?);
    let config = servers.folder.join("haproxy-client.cfg");
    let text = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
         listen through\n  bind 127.0.0.1:{port}\n  server behind 127.0.0.1:{behind}\n"
    );
    std::fs::write(&config, text).map_err(|why| format!("{}: {why}", config.display()))?;
    let mut command = Command::new("haproxy");
    let _proxy = start(command.arg("-db").arg("-f").arg(&config), &config)?;
    client(servers, "haproxy", port, &["chunked", "post"])
}

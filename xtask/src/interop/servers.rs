//! Other servers, and the checks of our HTTP client with them. `client_interop` makes the requests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Check, CheckResult, Running, Servers, connect, free_port, http, path};

pub(super) const CHECKS: &[Check] = &[
    ("our client and nginx", "nginx", |s| {
        client(s, &nginx(s)?, &["chunked", "post"])
    }),
    ("our client and Apache", "apache2", |s| {
        client(s, &apache(s)?, &[])
    }),
    ("our client and lighttpd", "lighttpd", |s| {
        client(s, &lighttpd(s)?, &[])
    }),
    ("our client and caddy", "caddy", |s| {
        client(s, &caddy(s)?, &[])
    }),
    ("our client and h2o", "h2o", |s| client(s, &h2o(s)?, &[])),
    ("our client and http.server", "python3", |s| {
        client(s, &python(s, "http.server")?, &[])
    }),
    ("our client and http.server, HTTP/1.0", "python3", |s| {
        client(s, &python(s, "http.server/1.0")?, &["close"])
    }),
    (
        "our client and aiohttp",
        "python3",
        |s| match http::has_python("aiohttp") {
            true => client(s, &python(s, "aiohttp")?, &["chunked", "post", "cut"]),
            false => Ok(()),
        },
    ),
    ("our client and Node", "node", |s| {
        client(s, &node(s)?, &["chunked", "post", "cut"])
    }),
    ("our client, haproxy and Node", "haproxy", haproxy),
];

/// A server that runs.
pub(super) struct Server {
    _running: Running,
    name: &'static str,
    pub(super) port: u16,
    /// What it has written to its standard error.
    log: PathBuf,
}

impl Server {
    /// Waits until it accepts connections.
    fn started(
        name: &'static str,
        port: u16,
        command: &mut Command,
        folder: &Path,
    ) -> Result<Self, String> {
        let server = Self {
            _running: start(command, folder)?,
            name,
            port,
            log: folder.with_extension("log"),
        };
        let connected = connect(port).map(drop);
        connected.map_err(|why| server.explained(&why))?;
        Ok(server)
    }

    /// Adds what the server has written to an error.
    pub(super) fn explained(&self, why: &str) -> String {
        let log = std::fs::read_to_string(&self.log);
        format!("{why}\n{}: {}", self.name, log.unwrap_or_default())
    }
}

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
    command
        .env("PATH", path())
        // Where caddy keeps what it remembers.
        .env("XDG_CONFIG_HOME", folder.with_extension("home"));
    Running::start(command, Stdio::null(), log)
}

/// Runs our client against a server.
fn client(servers: &Servers, server: &Server, features: &[&str]) -> CheckResult {
    let program = servers.client.display().to_string();
    let url = format!("http://127.0.0.1:{}/", server.port);
    let args = [&[server.name, url.as_str()][..], features].concat();
    http::succeeds(&program, &args).map_err(|why| server.explained(&why))
}

/// Starts the server `name` with a configuration in its folder.
fn configured(
    servers: &Servers,
    name: &'static str,
    text: impl Fn(u16, &str) -> String,
    args: &[&str],
) -> Result<Server, String> {
    let (port, folder) = (free_port()?, files(servers, name)?);
    let config = folder.with_extension("conf");
    let text = text(port, &folder.display().to_string());
    std::fs::write(&config, text).map_err(|why| format!("{}: {why}", config.display()))?;
    let mut command = Command::new(name);
    Server::started(name, port, command.args(args).arg(&config), &folder)
}

/// Chunks and echoes come from our own server, through nginx.
pub(super) fn nginx(servers: &Servers) -> Result<Server, String> {
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
    configured(servers, "nginx", text, &["-c"])
}

pub(super) fn apache(servers: &Servers) -> Result<Server, String> {
    let text = |port: u16, folder: &str| {
        format!(
            "ServerName localhost\nServerRoot {folder}\nListen 127.0.0.1:{port}\n\
             PidFile {folder}.pid\nErrorLog /dev/stderr\n\
             LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
             LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
             DocumentRoot {folder}\n<Directory {folder}>\nRequire all granted\n</Directory>\n"
        )
    };
    configured(servers, "apache2", text, &["-DFOREGROUND", "-f"])
}

fn lighttpd(servers: &Servers) -> Result<Server, String> {
    let text = |port: u16, folder: &str| {
        format!(
            "server.document-root = \"{folder}\"\nserver.port = {port}\n\
             server.bind = \"127.0.0.1\"\nserver.max-keep-alive-requests = 100\n"
        )
    };
    configured(servers, "lighttpd", text, &["-D", "-f"])
}

pub(super) fn caddy(servers: &Servers) -> Result<Server, String> {
    let text = |port: u16, folder: &str| {
        format!(
            "{{\nadmin off\nauto_https off\n}}\n\
             http://127.0.0.1:{port} {{\nroot * {folder}\nfile_server\n}}\n"
        )
    };
    let args = ["run", "--adapter", "caddyfile", "--config"];
    configured(servers, "caddy", text, &args)
}

fn h2o(servers: &Servers) -> Result<Server, String> {
    let text = |port: u16, folder: &str| {
        format!(
            "listen:\n  host: 127.0.0.1\n  port: {port}\n\
             hosts:\n  default:\n    paths:\n      /:\n        file.dir: {folder}\n"
        )
    };
    configured(servers, "h2o", text, &["-c"])
}

/// Starts a server of Python. `library` is also its name.
pub(super) fn python(servers: &Servers, library: &'static str) -> Result<Server, String> {
    let (port, folder) = (free_port()?, files(servers, library)?);
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", http::packages("python"))
        .arg("-B")
        .arg(servers.root.join("xtask/interop/servers.py"))
        .args([library, &port.to_string()])
        .arg(&folder);
    Server::started(library, port, &mut command, &folder)
}

pub(super) fn node(servers: &Servers) -> Result<Server, String> {
    let (port, folder) = (free_port()?, files(servers, "node")?);
    let mut command = Command::new("node");
    command
        .arg(servers.root.join("xtask/interop/servers.mjs"))
        .arg(port.to_string())
        .arg(&folder);
    Server::started("node", port, &mut command, &folder)
}

fn haproxy(servers: &Servers) -> CheckResult {
    let (behind, port) = (node(servers)?, free_port()?);
    let text = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
         listen through\n  bind 127.0.0.1:{port}\n  server behind 127.0.0.1:{}\n",
        behind.port
    );
    let proxy = haproxy_with(servers, "haproxy-client", port, &text)?;
    client(servers, &proxy, &["chunked", "post"])
}

/// Starts haproxy with a configuration, which makes it listen at `port`.
pub(super) fn haproxy_with(
    servers: &Servers,
    name: &str,
    port: u16,
    text: &str,
) -> Result<Server, String> {
    let config = servers.folder.join(format!("{name}.cfg"));
    std::fs::write(&config, text).map_err(|why| format!("{}: {why}", config.display()))?;
    let mut command = Command::new("haproxy");
    let command = command.arg("-db").arg("-f").arg(&config);
    Server::started("haproxy", port, command, &config)
}

//! The proxies, each in the set-up with which it is fastest: one worker or thread, connections to the
//! upstream kept, no access log.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::{Process, free_address};
use super::secure::Secure;
use super::{RAW, ours};
use crate::report::Role;

pub(super) const NGINX: Role = Role::Named("nginx");
pub(super) const HAPROXY: Role = Role::Named("haproxy");
pub(super) const PINGORA: Role = Role::Named("pingora");
pub(super) const BOUND: Role = Role::Named("raw");

/// A proxy of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proxy {
    Ours,
    /// Ours, with everything of the command that can be switched off.
    Unguarded,
    Nginx,
    Haproxy,
    Pingora,
    Raw,
}

impl Proxy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Unguarded => "ours, command off",
            Self::Nginx => "nginx, 1 worker",
            Self::Haproxy => "haproxy, 1 thread",
            Self::Pingora => "pingora, 1 thread",
            Self::Raw => "raw epoll, httparse",
        }
    }

    pub(super) fn role(self) -> Role {
        match self {
            Self::Ours => Role::Ours,
            Self::Unguarded => Role::Peer,
            Self::Nginx => NGINX,
            Self::Haproxy => HAPROXY,
            Self::Pingora => PINGORA,
            Self::Raw => BOUND,
        }
    }

    /// Returns the program, or why there is none.
    pub(super) fn missing(self) -> Option<String> {
        let package = match self {
            Self::Ours | Self::Unguarded | Self::Raw => return None,
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Pingora => return super::pingora::program().err(),
        };
        match program(package) {
            Some(_) => None,
            None => Some("it is not installed; `.ci/peers` does".to_owned()),
        }
    }

    /// Starts the proxy on the first CPU. `folder` is for its files.
    pub(super) fn start(
        self,
        upstream: SocketAddr,
        secure: Option<&Secure>,
        folder: &Path,
    ) -> Result<Process, String> {
        let files = secure.map(Secure::folder);
        match self {
            Self::Ours => ours::program(("guarded", upstream), files, folder),
            Self::Unguarded => ours::program(("bare", upstream), files, folder),
            Self::Raw => Process::own(&format!("{RAW}{upstream}")),
            Self::Nginx => nginx(upstream, secure, folder),
            Self::Haproxy => haproxy(upstream, folder),
            Self::Pingora => {
                let address = free_address();
                let mut command = Command::new(super::pingora::program()?);
                command.args([address.to_string(), upstream.to_string()]);
                Process::peer(&mut command, address)
            }
        }
    }
}

/// Returns the path of an installed program.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn nginx(upstream: SocketAddr, secure: Option<&Secure>, folder: &Path) -> Result<Process, String> {
    let address = free_address();
    let mut server = format!("listen {address} backlog=4096;");
    if let Some(secure) = secure {
        let files = secure.folder().display();
        server = format!(
            "listen {address} ssl backlog=4096; ssl_protocols TLSv1.3;
             ssl_certificate {files}/own.pem; ssl_certificate_key {files}/own.key;"
        );
    }
    let mut temporary = String::new();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = write!(temporary, "{kind}_temp_path {kind};");
    }
    // A response of 1 MiB passes through larger buffers, and never through a file.
    let text = format!(
        "worker_processes 1; daemon off; user root; pid nginx.pid; error_log nginx.err crit;
         events {{ worker_connections 4096; }}
         http {{
           access_log off; tcp_nodelay on; {temporary}
           keepalive_requests 1000000000; keepalive_timeout 600s;
           upstream back {{ server {upstream}; keepalive 512; keepalive_requests 1000000000; }}
           server {{
             {server}
             proxy_http_version 1.1; proxy_set_header Connection \"\";
             location / {{ proxy_pass http://back; }}
             location /stream {{
               proxy_pass http://back; proxy_max_temp_file_size 0;
               proxy_buffer_size 64k; proxy_buffers 8 64k; proxy_busy_buffers_size 128k;
             }}
           }}
         }}\n"
    );
    let file = write(folder, "nginx.conf", &text)?;
    let program = program("nginx").ok_or("it is not installed")?;
    let mut command = Command::new(program);
    command.arg("-e").arg(folder.join("nginx.err"));
    command.arg("-p").arg(folder).arg("-c").arg(file);
    Process::peer(&mut command, address)
}

fn haproxy(upstream: SocketAddr, folder: &Path) -> Result<Process, String> {
    let address = free_address();
    let text = format!(
        "global\n  nbthread 1\n  maxconn 4096\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 600s\n  timeout server 600s\n  \
         http-reuse always\n\
         frontend f\n  bind {address}\n  default_backend b\n\
         backend b\n  server s {upstream} pool-max-conn 512\n"
    );
    let file = write(folder, "haproxy.cfg", &text)?;
    let program = program("haproxy").ok_or("it is not installed")?;
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(file);
    Process::peer(&mut command, address)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let file = folder.join(name);
    fs::write(&file, text).map_err(|why| format!("{}: {why}", file.display()))?;
    Ok(file)
}

//! Files, folders and addresses that a start refuses: `check` finds them, each at its place.

use std::sync::Arc;

use tidegate_gateway::cli::{self, Machine};
use tidegate_gateway::config::RealDisk;

use tidegate_testkit::Folder;

use crate::files::{cases, check, fails, says};
use crate::mistakes::GOOD;

/// Checks `t.toml` with this text in a folder on the disk of the machine.
pub(crate) fn check_in(folder: &Folder, text: impl AsRef<[u8]>) -> (String, u8) {
    let file = folder.join("t.toml");
    std::fs::write(&file, text).unwrap();
    let machine = Machine {
        disk: Arc::new(RealDisk),
        variables: Arc::new(|_| None),
    };
    let mut out = Vec::new();
    let arguments = ["tidegate", "check", file.to_str().unwrap()];
    let status = cli::status(arguments, &machine, &mut out);
    (String::from_utf8(out).unwrap(), status)
}

#[test]
fn the_file_of_the_log_is_none_that_cannot_be_opened() {
    let folder = Folder::new("log");
    let path = folder.display();
    std::os::unix::fs::symlink(folder.join("loop"), folder.join("loop")).unwrap();
    for (file, message) in [
        (format!("{path}"), "it is a directory"),
        (format!("{path}/"), "it is a directory"),
        (format!("{path}/none/"), "a path that ends with `/`"),
        (format!("{path}/loop"), "it cannot be opened: "),
        (format!("{path}/a\\u0000b"), "it cannot be opened: "),
        (format!("{path}/loop/log"), "it cannot be opened: "),
    ] {
        let text = format!("{GOOD}[log]\nfile = \"{file}\"\n");
        let message = format!("t.toml:9:8: log.file: {message}");
        says(&file, check_in(&folder, text), 1, [message]);
    }
    let good = format!("{GOOD}[log]\nfile = \"{path}/new.log\"\n");
    assert_eq!(check_in(&folder, &good).1, 0);
    assert!(!folder.join("new.log").exists(), "it is not made");
}

#[test]
fn the_path_of_a_socket_that_listens_can_be_used() {
    let folder = Folder::new("sockets");
    let path = folder.display();
    std::fs::write(folder.join("file"), "").unwrap();
    let (long, taken) = ("a".repeat(120), "something else than a socket is there");
    for (at, message) in [
        (format!("{path}/{long}"), "no socket can have this path: "),
        (
            format!("{path}/none/s"),
            "the folder of the socket does not exist",
        ),
        (format!("{path}"), taken),
        (format!("{path}/file"), taken),
    ] {
        for name in ["other", "admin"] {
            let line = format!("{name} = \"unix:{at}\"\n[upstream.a]");
            let found = check_in(&folder, GOOD.replace("[upstream.a]", &line));
            let message = format!("t.toml:3:9: listen.{name}.at: {message}");
            says(&at, found, 1, [message]);
        }
    }
    let socket = folder.join("s");
    let line = format!("other = \"unix:{}\"\n[upstream.a]", socket.display());
    let text = GOOD.replace("[upstream.a]", &line);
    assert_eq!(check_in(&folder, &text).1, 0, "nothing is there");
    let _left = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(check_in(&folder, &text).1, 0, "a socket is there");
}

#[test]
fn the_directory_of_files_can_be_opened() {
    let folder = Folder::new("directory");
    std::os::unix::fs::symlink(folder.join("loop"), folder.join("loop")).unwrap();
    for root in ["loop", "a\\u0000b"] {
        let path = folder.display();
        let text = format!("[listen]\nhttp = \"h:1\"\n[route.a]\nfiles = \"{path}/{root}\"\n");
        let message = "t.toml:4:9: route.a.files.root: the directory cannot be opened: ";
        says(root, check_in(&folder, &text), 1, [message]);
    }
}

#[test]
fn a_server_has_a_port_and_a_name_that_a_certificate_can_have() {
    let at = |servers: &str| GOOD.replace("servers = [\"10.0.0.1:80\"]", servers);
    let rows = r#"
servers = ["h:1", "h:0"]
> t.toml:4:19: upstream.a.servers[1].at: no server can be reached at port 0

servers = "h:1"
tls = { name = "" }
> t.toml:5:16: upstream.a.tls.name: no certificate can have this name

servers = "h:1"
tls = { name = "a b" }
> t.toml:5:16: upstream.a.tls.name: no certificate can have this name

servers = "h:1"
tls = { name = "é.example" }
> t.toml:5:16: upstream.a.tls.name: no certificate can have this name

servers = "h:1"
tls = { name = "a.example:443" }
> t.toml:5:16: upstream.a.tls.name: no certificate can have this name

servers = "h:1"
tls = { key = "k", cert = "c" }
> t.toml:5:27: upstream.a.tls.cert: `cert` and `key` need `roots`, too

servers = "h:1"
tls = { key = "k" }
> t.toml:5:15: upstream.a.tls.key: a certificate and its key belong together
"#;
    for (text, said) in cases(rows) {
        fails(
            &at(&text),
            said.into_iter().chain(["\n1 error, 0 warnings"]),
        );
    }
    for name in ["a_b.example", "10.0.0.1", "[::1]"] {
        let text = at(&format!("servers = \"h:1\"\ntls = {{ name = {name:?} }}"));
        assert_eq!(check(&text).1, 0, "{name}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn no_listener_has_an_address_that_includes_that_of_another_one() {
    let with = |first: &str, second: &str| {
        let line = format!("http = \"{first}\"\n{second}\n[upstream.a]");
        let (before, after) = GOOD.split_once("[upstream.a]").unwrap();
        let before = before.replace("http = \"127.0.0.1:8080\"\n", "");
        check(&format!("{before}{line}{after}"))
    };
    for (first, second) in [
        ("0.0.0.0:80", "other = \"127.0.0.1:80\""),
        ("127.0.0.1:80", "other = \"0.0.0.0:80\""),
        ("0.0.0.0:80", "admin = \"127.0.0.1:80\""),
        ("[::]:80", "other = \"[::1]:80\""),
    ] {
        let message = ".at: one of the address and that of `listen.http` includes the other";
        says(
            first,
            with(first, second),
            1,
            ["t.toml:3:9: listen.", message],
        );
    }
    for (first, second) in [
        ("0.0.0.0:80", "other = \"127.0.0.1:81\""),
        ("0.0.0.0:0", "other = \"0.0.0.0:0\""),
        ("127.0.0.1:80", "other = \"127.0.0.2:80\""),
        // The system decides.
        ("[::]:80", "other = \"127.0.0.1:80\""),
    ] {
        says(first, with(first, second), 0, [""]);
    }
}

/// What the files of a configuration have is checked beside what its text has, except where the text is
/// wrong.
#[test]
fn mistakes_of_files_and_of_the_text_are_found_at_once() {
    let text = "\
timeuot = 1
[listen.http]
at = \"h:1\"
tls = { certificates = [{ cert = \"/d/c1\", key = 7 }], client = \"required\", client_roots = \"/d/r\" }
[listen.b]
at = \"h:2\"
tls = { certificates = [{ cert = \"/d/c2\", key = \"/d/k2\" }], client = \"required\" }
[listen.admin]
at = \"0.0.0.0:1\"
token = \"file:/d/t\"
read_token = \"file:/d/u\"
[upstream.a]
servers = \"h:1\"
tls = { roots = \"/d/r2\" }
[upstream.b]
servers = \"h:1\"
tls = { roots = 7, cert = \"/d/c3\", key = \"/d/k3\" }
[route.a]
files = \"/d/root\"
timeout = \"soon\"
[route.b]
path = \"/b/*\"
files = 7
[log]
file = \"/d/log\"
query = 7
";
    let output = fails(
        text,
        [
            "t.toml:1:1: timeuot:",
            "t.toml:4:49: listen.http.tls.certificates[0].key:",
            "t.toml:7:34: listen.b.tls.certificates[0].cert:",
            "t.toml:7:70: listen.b.tls.client:",
            "t.toml:10:9: listen.admin.token: the file cannot be read",
            "t.toml:11:14: listen.admin.read_token: the file cannot be read",
            "t.toml:14:17: upstream.a.tls.roots:",
            "t.toml:17:17: upstream.b.tls.roots:",
            "t.toml:19:9: route.a.files.root: the directory does not exist",
            "t.toml:20:11: route.a.timeout:",
            "t.toml:23:9: route.b.files.root: 7 is not",
            "t.toml:25:8: log.file: the folder of the file does not exist",
            "t.toml:26:9: log.query:",
        ],
    );
    let errors = output.lines().filter(|line| line.starts_with("t.toml:"));
    let errors = errors.filter(|line| !line.contains("warning"));
    assert_eq!(errors.count(), 13, "{output}");
}

/// Many systems would look up these names as addresses, or nothing has them.
#[test]
fn an_address_that_cannot_be_right_is_refused() {
    let (number, host) = ("an IPv4 address has four numbers", "it has no valid host");
    let long = ["a".repeat(60).as_str(); 5].join(".");
    let label = "a".repeat(64);
    let rows = [
        ("127.0.1", number),
        ("127.1", number),
        ("2130706433", number),
        ("0x7f.1", number),
        ("127.0x1", number),
        ("a.0X", number),
        ("256.0.0.1", number),
        ("01.2.3.4", number),
        ("1.2.3.4.5", number),
        ("1.2.3.4.", number),
        ("a..b", host),
        (".a", host),
        ("..", host),
        ("a..", host),
        ("", host),
        (&label, host),
        (&long, host),
    ];
    let server = |at: &str| GOOD.replace("[\"10.0.0.1:80\"]", &format!("[\"h:1\", \"{at}\"]"));
    for (host, message) in rows {
        let message = format!("`{host}:80` is not an address: {message}");
        fails(&server(&format!("{host}:80")), [message]);
    }
    for port in ["+80", "-1", "", " 80", "65536"] {
        let message = "the port is not within 0 to 65535";
        fails(&server(&format!("h:{port}")), [message]);
    }
    for path in ["/a\\u0000b".to_owned(), format!("/{}", "a".repeat(107))] {
        let message = "t.toml:4:19: upstream.a.servers[1].at: no socket can have this path: ";
        fails(&server(&format!("unix:{path}")), [message]);
    }
    for at in [
        "a.example.:80",
        "a_b:80",
        "1a:80",
        "a.0xg:80",
        "1.2.3.4:80",
        "unix:/none/s",
    ] {
        says(at, check(&server(at)), 0, [""]);
    }
}

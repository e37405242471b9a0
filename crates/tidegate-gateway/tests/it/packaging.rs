//! The manual, the completions and the unit of systemd.

use std::path::Path;

use tidegate_gateway::config::load;

use tidegate_testkit::has;

use crate::files::{machine, run};

#[test]
fn the_manual_describes_each_command() {
    let (manual, status) = run(&[], &["man"]);
    assert_eq!(status, 0);
    has(&manual, [".TH tidegate 1"]);
    let commands = [
        "check",
        "explain",
        "run",
        "bench",
        "top",
        "reference",
        "man",
        "completions",
    ];
    assert_eq!(listed(), commands, "the program has others");
    for command in commands {
        let synopsis = format!("\n\\fBtidegate {command}\\fR ");
        let heading = format!("\n.SH TIDEGATE {}\n", command.to_uppercase());
        has(&manual, [synopsis, heading]);
    }
    has(&manual, ["\\-\\-header"]);
    let name = "tidegate \\- A gateway that no slow service takes down";
    has(&manual, [name, ".SH TIDEGATE EXPLAIN\n"]);
}

/// Returns the names of all commands, as the help lists them.
fn listed() -> Vec<String> {
    let (help, status) = run(&[], &["--help"]);
    assert_eq!(status, 0);
    let commands = help.split_once("\nCommands:\n").unwrap().1;
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !["", "help"].contains(name));
    names.map(str::to_owned).collect()
}

/// Other users of the machine see the arguments of a program.
#[test]
fn a_token_on_the_command_line_is_refused() {
    let rows: [&[&str]; 4] = [
        &["top", "--token", "marker"],
        &["top", "127.0.0.1:1", "marker"],
        &["run", "t.toml", "--token=marker"],
        &["bench", "http://127.0.0.1:1/", "--token", "marker"],
    ];
    for arguments in rows {
        assert_eq!(run(&[], arguments).1, 2, "{arguments:?}");
    }
}

#[test]
fn each_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (script, status) = run(&[], &["completions", shell]);
        assert_eq!(status, 0, "{shell}");
        assert!(
            script.contains("explain") && script.contains("tidegate"),
            "{shell}"
        );
    }
    assert_eq!(run(&[], &["completions", "none"]).1, 2);
}

/// systemd must not end the process before its drain is over.
#[test]
fn the_unit_waits_longer_than_a_drain() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/tidegate.service");
    let unit = std::fs::read_to_string(path).unwrap();
    let value = |key: &str| {
        let mut lines = unit.lines().filter_map(|line| line.split_once('='));
        lines.find(|(name, _)| *name == key).unwrap().1
    };
    let machine = machine(&[("t.toml", "[listen]\nhttp = \"h:80\"\n")]);
    let loaded = load(Path::new("t.toml"), &*machine.disk, &*machine.variables).unwrap();
    let drain = loaded.config.unwrap().drain;
    let stop: u64 = value("TimeoutStopSec").parse().unwrap();
    assert!(stop > (drain.announce + drain.deadline).as_secs());
    assert_eq!((value("Type"), value("KillMode")), ("notify", "mixed"));
    assert!(unit.contains("ExecReload=/bin/kill -HUP $MAINPID"));
}

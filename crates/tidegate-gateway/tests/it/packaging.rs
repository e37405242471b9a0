//! The manual, the completions and the unit of systemd.

use std::path::Path;

use tidegate_gateway::config::load;

use crate::files::{machine, run};

#[test]
fn the_manual_describes_each_command() {
    let (manual, status) = run(&[], &["man"]);
    assert_eq!(status, 0);
    assert!(manual.contains(".TH tidegate 1"), "{manual}");
    let commands = ["check", "explain", "reference", "tour", "completions"];
    for command in commands {
        assert!(
            manual.contains(&format!("tidegate {command}")),
            "{command}\n{manual}"
        );
    }
    assert!(
        manual.contains("\\-\\-header"),
        "the options of commands are there, too"
    );
    let name = "tidegate \\- A gateway that no slow service takes down";
    for part in [name, ".SH TIDEGATE EXPLAIN\n"] {
        assert!(manual.contains(part), "{part}\n{manual}");
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

//! The commands of the tutorial, as they are in its page.

use std::io::{BufRead as _, BufReader};

use tidegate_testkit::Folder;

use crate::*;

const PAGE: &str = include_str!("../../../../docs/guide/gateway-tutorial.md");

/// Returns the text of each block of code in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let start = format!("```{language}\n");
    let parts = PAGE.split(start.as_str()).skip(1);
    parts
        .map(|part| part.split("```").next().unwrap())
        .collect()
}

#[test]
fn its_commands_run_with_its_configuration() {
    let shop = Upstream::new(|_: Request<'_>, response: Response<'_>| response.body("7\n"));
    let service = shop.server.local_addr().to_string();
    let folder = Folder::new("tutorial");
    let text = blocks("toml")[0].replace("127.0.0.1:8000", &service);
    let text = text.replace("127.0.0.1:8080", "127.0.0.1:0");
    std::fs::write(folder.join("shop.toml"), text).unwrap();
    let lines: Vec<&str> = blocks("sh").into_iter().flat_map(str::lines).collect();
    assert_eq!(lines[0], "cargo run --release");
    let (mut gateway, mut address) = (None, "127.0.0.1:8080".to_owned());
    let mut seen = Vec::new();
    for line in &lines[1..] {
        // As on the page, but on a free port and for a shorter time.
        let line = line.replace("5s", "300ms").replace("60s", "300ms");
        let line = line.replace("127.0.0.1:8080", &address);
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], "tidegate", "{line}");
        let mut command = tidegate(&words[1..]);
        command.current_dir(&folder);
        if words[1] == "run" {
            let mut child = command
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut first = String::new();
            BufReader::new(child.stderr.take().unwrap())
                .read_line(&mut first)
                .unwrap();
            let listens = first.trim().strip_prefix("http listens on ");
            address = listens.unwrap_or_else(|| panic!("{first}")).to_owned();
            gateway = Some(Running(child));
        } else {
            let output = command.output().unwrap();
            let out = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{line}: {out}");
            seen.push((words[1].to_owned(), out));
        }
    }
    drop(gateway.unwrap());
    let commands: Vec<&str> = seen.iter().map(|(command, _)| command.as_str()).collect();
    assert_eq!(commands, ["check", "explain", "bench", "bench"]);
    assert!(
        seen[0].1.contains("can be used; routes: 2, upstreams: 1"),
        "{seen:?}"
    );
    assert!(seen[1].1.starts_with("route    shop"), "{seen:?}");
    assert!(seen[2].1.contains("\n200 "), "{seen:?}");
}

//! How a program with `#[tidegate::main]` ends: the test starts itself again for each way.
//!
//! It has no harness, because the exit code is that of `main`.

use std::env;
use std::future::pending;
use std::process::{Command, ExitCode};

use tidegate::loops::EventLoop;

/// Says to a started program how to end.
const WAY: &str = "TIDEGATE_TEST_WAY";

/// The ways to end, with the exit code and a part of what is printed.
const WAYS: [(&str, i32, &str); 5] = [
    ("code", 7, ""),
    ("error", 1, "not today"),
    ("panic", 101, "out of ink"),
    ("nested", 1, "event loop"),
    ("pending", 0, ""),
];

#[tidegate::main]
async fn main() -> Result<ExitCode, String> {
    let Ok(way) = env::var(WAY) else {
        WAYS.into_iter().for_each(check);
        return Ok(ExitCode::SUCCESS);
    };
    match way.as_str() {
        "code" => Ok(ExitCode::from(7)),
        "error" => Err("not today".to_owned()),
        "panic" => panic!("out of ink"),
        "nested" => {
            tidegate::block_on(async {}).map_err(|why| why.to_string())?;
            Ok(ExitCode::SUCCESS)
        }
        // It ends with the event loop, and does not keep the program.
        _ => {
            let home = EventLoop::current().ok_or("no event loop")?;
            drop(home.spawn_local(pending::<()>()));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check((way, code, printed): (&str, i32, &str)) {
    let program = env::current_exe().expect("a program has a path");
    let ended = Command::new(program).env(WAY, way).output();
    let ended = ended.expect("it can be started");
    let text = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(code), "{way}: {text}");
    assert!(text.contains(printed), "{way}: {text}");
}

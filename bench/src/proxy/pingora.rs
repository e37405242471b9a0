//! The peer pingora, a program of its own in `bench/pingora`: it needs a compiler of C++ and `cmake`,
//! which nothing else here does. It is built once, beside this program.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::built;

/// Returns the program, which is built if it is missing, or why there is none.
pub(super) fn program() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Result<PathBuf, String> {
    let target = built::target()?.join("pingora");
    let program = target.join("release/pingora-proxy");
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("  builds pingora, once");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("pingora/Cargo.toml");
    built::build(&manifest, &target)
        .map_err(|why| format!("{why}; `.ci/peers --bench` installs what it needs"))?;
    Ok(program)
}

//! The workspace root, the list of libraries, the build folders, and the folder for caches.

use std::path::{Path, PathBuf};

/// Finds the workspace root: the nearest folder at or above the current one that holds `xtask`.
///
/// # Errors
///
/// Returns an error if no such folder exists, which means the task was started outside the
/// workspace.
pub fn find() -> Result<PathBuf, String> {
    let here = std::env::current_dir().map_err(|e| format!("no current folder: {e}"))?;
    here.ancestors()
        .find(|dir| dir.join("xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("{} is not inside the workspace", here.display()))
}

/// Returns the names of the library crates, in alphabetical order: the folders of `crates` with a
/// `src/lib.rs`.
///
/// # Errors
///
/// Returns an error if the folder cannot be read.
pub fn libraries(root: &Path) -> Result<Vec<String>, String> {
    let entries =
        std::fs::read_dir(root.join("crates")).map_err(|e| format!("cannot list crates: {e}"))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.path().join("src/lib.rs").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Returns a separate build folder for builds with other compiler flags.
///
/// A shared folder would be rebuilt each time the flags change.
#[must_use]
pub fn target_dir(root: &Path, name: &str) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root.join(dir).join(name),
        None => root.join("target").join(name),
    }
}

/// Returns a folder of the user for what every clone of the project can share: programs and packages
/// that are not part of it. `.ci/peers` uses the same place.
#[must_use]
pub fn cache_dir(name: &str) -> PathBuf {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = || set("HOME").map(|home| home.join(".cache"));
    let caches = set("XDG_CACHE_HOME").or_else(home);
    caches.unwrap_or_else(std::env::temp_dir).join(name)
}

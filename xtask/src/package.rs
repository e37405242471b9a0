//! `cargo xtask package`: builds the packages that a release would publish, and checks them.
//! Nothing is published.
//!
//! Without `--verify` no package is compiled, and no registry is needed.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step;
use crate::tidy::manifest::{self, Entry};

/// Files that every package has.
const FILES: [&str; 5] = [
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "src/lib.rs",
];

/// Keys that the section `package` of every manifest has.
const KEYS: [&str; 10] = [
    "categories",
    "description",
    "documentation",
    "edition",
    "exclude",
    "keywords",
    "license",
    "name",
    "rust-version",
    "version",
];

/// Checks the manifests and the lists of files of all libraries, then builds their packages. With
/// `verify`, each package is compiled as its users would compile it.
///
/// # Errors
///
/// Returns an error that names the package and what is wrong with it.
pub fn run(root: &Path, verify: bool) -> step::Result {
    let names = published(root)?;
    check_versions(&read(&root.join("Cargo.toml"))?)?;
    for name in &names {
        let text = read(&root.join("crates").join(name).join("Cargo.toml"))?;
        check_manifest(name, &text)?;
        check_files(name, &files(root, name)?)?;
    }
    step::run(&mut package(root, &names, verify))
}

/// Returns the libraries that a release publishes, lowest level first: all except those for tests
/// and those whose manifest says `publish = false`.
fn published(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for name in root::libraries(root)? {
        let text = read(&root.join("crates").join(&name).join("Cargo.toml"))?;
        if let Some(level) = level(&text)
            && !is_private(&text)
        {
            found.push((level, name));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, name)| name).collect())
}

/// Returns `true` if a crate is never published.
fn is_private(text: &str) -> bool {
    let entries = manifest::entries(text);
    let mut own = entries.iter().filter(|entry| entry.section == "package");
    own.any(|entry| entry.key == "publish" && entry.value == "false")
}

/// Returns the level of a crate; `None` if it is for tests.
fn level(text: &str) -> Option<u32> {
    let entries = manifest::entries(text);
    let mut own = entries
        .iter()
        .filter(|entry| entry.section == "package.metadata.tidegate");
    own.find(|entry| entry.key == "level")?.value.parse().ok()
}

/// Checks that the libraries are dependencies with the version of the workspace. The ones for tests
/// have none, so that they are left out of the packages.
fn check_versions(text: &str) -> Result<(), String> {
    let entries = manifest::entries(text);
    let version = entries
        .iter()
        .find(|entry| entry.section == "workspace.package" && entry.key == "version")
        .ok_or("Cargo.toml states no version")?
        .value;
    let wanted = format!("version = {version}");
    let own = |entry: &&Entry<'_>| {
        entry.section == "workspace.dependencies" && entry.value.contains("path = ")
    };
    for entry in entries.iter().filter(own) {
        let for_tests = entry.key == "tidegate-testkit";
        if for_tests == entry.value.contains("version = ") {
            let key = entry.key;
            return Err(match for_tests {
                true => format!("`{key}` is not published: remove its version in Cargo.toml"),
                false => format!("`{key}` needs `{wanted}` in Cargo.toml"),
            });
        }
        if !for_tests && !entry.value.contains(&wanted) {
            return Err(format!("`{}` needs `{wanted}` in Cargo.toml", entry.key));
        }
    }
    Ok(())
}

/// Checks what a manifest says about its package.
fn check_manifest(name: &str, text: &str) -> Result<(), String> {
    let entries = manifest::entries(text);
    let has = |section: &str, key: &str| {
        let mut entries = entries.iter();
        entries.any(|entry| entry.section == section && entry.key == key)
    };
    if let Some(key) = KEYS.iter().find(|key| !has("package", key)) {
        return Err(format!("the manifest of `{name}` has no `{key}`"));
    }
    if !has("package.metadata.docs.rs", "all-features") {
        return Err(format!(
            "the manifest of `{name}` has no `[package.metadata.docs.rs]` with `all-features`"
        ));
    }
    Ok(())
}

/// Checks that a package has the files of every package, and no tests: they need crates that are
/// not published.
fn check_files(name: &str, list: &str) -> Result<(), String> {
    let has = |file: &str| list.lines().any(|line| line == file);
    if let Some(file) = FILES.iter().find(|file| !has(file)) {
        return Err(format!("the package of `{name}` has no `{file}`"));
    }
    match list.lines().find(|line| line.starts_with("tests/")) {
        Some(file) => Err(format!("the package of `{name}` has a test: `{file}`")),
        None => Ok(()),
    }
}

/// Returns the files of a package, one per line.
fn files(root: &Path, name: &str) -> Result<String, String> {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["package", "--list", "--allow-dirty", "--package", name]);
    let output = command
        .output()
        .map_err(|e| format!("cannot start cargo package: {e}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo package --list: {}", why.trim()));
    }
    let list = String::from_utf8_lossy(&output.stdout);
    Ok(list.replace('\\', "/"))
}

fn package(root: &Path, names: &[String], verify: bool) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["package", "--allow-dirty"])
        .env("CARGO_TARGET_DIR", root::target_dir(root, "packages"));
    if !verify {
        command.args(["--no-verify", "--exclude-lockfile"]);
    }
    for name in names {
        command.args(["--package", name]);
    }
    command
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(line: &str) -> String {
        format!("[workspace.package]\nversion = \"1.2.3\"\n[workspace.dependencies]\n{line}\n")
    }

    #[test]
    fn libraries_have_the_version_of_the_workspace() {
        let good = "tidegate-core = { path = \"a\", version = \"1.2.3\" }";
        assert_eq!(check_versions(&workspace(good)), Ok(()));
        for bad in [
            "tidegate-core = { path = \"a\" }",
            "tidegate-core = { path = \"a\", version = \"1.2.2\" }",
        ] {
            let why = check_versions(&workspace(bad)).unwrap_err();
            assert_eq!(
                why,
                "`tidegate-core` needs `version = \"1.2.3\"` in Cargo.toml"
            );
        }
        assert_eq!(check_versions(&workspace("thiserror = \"2\"")), Ok(()));
    }

    #[test]
    fn crates_for_tests_have_no_version() {
        let good = "tidegate-testkit = { path = \"a\" }";
        assert_eq!(check_versions(&workspace(good)), Ok(()));
        let bad = "tidegate-testkit = { path = \"a\", version = \"1.2.3\" }";
        assert!(check_versions(&workspace(bad)).is_err());
    }

    #[test]
    fn a_crate_that_says_so_is_not_published() {
        assert!(is_private("[package]\nname = \"a\"\npublish = false\n"));
        assert!(!is_private("[package]\npublish.workspace = true\n"));
        assert!(!is_private("[other]\npublish = false\n"));
    }

    #[test]
    fn a_manifest_describes_its_package() {
        let keys: String = KEYS.iter().map(|key| format!("{key} = 1\n")).collect();
        let good = format!("[package]\n{keys}[package.metadata.docs.rs]\nall-features = true\n");
        assert_eq!(check_manifest("a", &good), Ok(()));
        let why = check_manifest("a", &good.replace("keywords", "words"));
        assert_eq!(why.unwrap_err(), "the manifest of `a` has no `keywords`");
        assert!(check_manifest("a", &good.replace("all-features", "x")).is_err());
    }

    #[test]
    fn a_package_has_its_texts_and_no_tests() {
        let good = FILES.join("\n");
        assert_eq!(check_files("a", &good), Ok(()));
        let why = check_files("a", &good.replace("LICENSE-MIT", "x"));
        assert_eq!(why.unwrap_err(), "the package of `a` has no `LICENSE-MIT`");
        assert!(check_files("a", &format!("{good}\ntests/it/main.rs")).is_err());
    }

    #[test]
    fn crates_for_tests_have_no_level() {
        let of = |level: &str| format!("[package.metadata.tidegate]\nlevel = {level}\n");
        assert_eq!(level(&of("3")), Some(3));
        assert_eq!(level(&of("\"dev\"")), None);
    }
}

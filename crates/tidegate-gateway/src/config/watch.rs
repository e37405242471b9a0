//! Notices that the files of a configuration have changed.
//!
//! The files are read again and compared, instead of being watched by the system: a file that is
//! replaced through a link, on a network disk or in a container is noticed like any other.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::PathBuf;
use std::time::Duration;

use super::include::Disk;
use super::source::Sources;

/// The files of a configuration, and what was in them.
///
/// ```
/// use std::path::Path;
/// use std::time::Duration;
/// use tidegate_gateway::config::{FileWatch, RealDisk, load};
///
/// # let path = std::env::temp_dir().join(format!("tidegate-watch-{}.toml", std::process::id()));
/// # std::fs::write(&path, "")?;
/// let loaded = load(&path, &RealDisk, &|_| None)?;
/// let mut watch = FileWatch::new(&loaded.sources, [], Duration::from_millis(200), &RealDisk);
/// std::fs::write(&path, "[drain]\n")?;
/// assert!(!watch.has_changed(0, &RealDisk)); // it may still be written
/// assert!(watch.has_changed(200_000_000, &RealDisk));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileWatch {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    settle: Duration,
    /// What is in force.
    known: Vec<Option<u64>>,
    /// What was found at last, and when that was new.
    latest: Option<(Vec<Option<u64>>, u64)>,
}

impl FileWatch {
    /// Watches the files of a configuration, the folders that it includes, and further files, such
    /// as certificates. `settle` is how long they must be unchanged.
    pub fn new(
        sources: &Sources,
        further: impl IntoIterator<Item = PathBuf>,
        settle: Duration,
        disk: &dyn Disk,
    ) -> Self {
        let mut watch = Self {
            files: sources.files().map(PathBuf::from).chain(further).collect(),
            folders: sources.folders().to_vec(),
            settle,
            known: Vec::new(),
            latest: None,
        };
        watch.known = watch.read(disk);
        // What was loaded counts, not what is there now: a change in between is noticed.
        for (index, loaded) in sources.contents().enumerate() {
            watch.known[index] = Some(hash(loaded));
        }
        watch
    }

    /// Returns `true` once for each change, after the files were unchanged for a time. `now` is in
    /// nanoseconds. Reads the files, so it must not be called on a loop.
    pub fn has_changed(&mut self, now: u64, disk: &dyn Disk) -> bool {
        let found = self.read(disk);
        if found == self.known {
            self.latest = None;
            return false;
        }
        let since = match &self.latest {
            Some((latest, since)) if *latest == found => *since,
            _ => now,
        };
        if Duration::from_nanos(now.saturating_sub(since)) < self.settle {
            self.latest = Some((found, since));
            return false;
        }
        self.known = found;
        self.latest = None;
        true
    }

    /// Returns a number for the content of each file and each folder. One that cannot be read has
    /// none.
    fn read(&self, disk: &dyn Disk) -> Vec<Option<u64>> {
        let files = self
            .files
            .iter()
            .map(|file| disk.bytes(file).ok().map(|bytes| hash(&bytes)));
        let folders = self.folders.iter().map(|folder| {
            let mut names = disk.list(folder).ok()?;
            names.sort();
            Some(hash(names.join("\n").as_bytes()))
        });
        files.chain(folders).collect()
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    //! Changes of files in memory.

    use std::collections::BTreeMap;
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;
    use std::time::Duration;

    use super::FileWatch;
    use crate::config::{Disk, RealDisk, Sources, load};

    #[derive(Default)]
    struct Files(Mutex<BTreeMap<PathBuf, String>>);

    impl Files {
        fn write(&self, path: &str, text: &str) {
            self.0.lock().unwrap().insert(path.into(), text.to_owned());
        }
    }

    impl Disk for Files {
        fn read(&self, path: &Path) -> io::Result<String> {
            let found = self.0.lock().unwrap().get(path).cloned();
            found.ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
            let files = self.0.lock().unwrap();
            let inside = files.keys().filter(|path| path.parent() == Some(directory));
            let names = inside.filter_map(|path| path.file_name());
            Ok(names
                .map(|name| name.to_string_lossy().into_owned())
                .collect())
        }
    }

    fn millis(millis: u64) -> u64 {
        millis * 1_000_000
    }

    fn watch(files: &Files) -> FileWatch {
        let loaded = load(Path::new("t.toml"), files, &|_| None).unwrap();
        let settle = Duration::from_millis(200);
        FileWatch::new(&loaded.sources, [PathBuf::from("cert.pem")], settle, files)
    }

    #[test]
    fn a_change_counts_once_when_the_files_are_quiet() {
        let files = Files::default();
        files.write("t.toml", "include = \"parts/*.toml\"\n");
        let mut watch = watch(&files);
        assert!(!watch.has_changed(0, &files));
        files.write("t.toml", "include = \"parts/*.toml\"\n[dr");
        assert!(!watch.has_changed(millis(100), &files));
        files.write("t.toml", "include = \"parts/*.toml\"\n[drain]\n");
        assert!(
            !watch.has_changed(millis(250), &files),
            "it is written still"
        );
        assert!(!watch.has_changed(millis(449), &files));
        assert!(watch.has_changed(millis(450), &files));
        assert!(!watch.has_changed(millis(900), &files));
    }

    #[test]
    fn included_files_new_files_and_certificates_count() {
        let files = Files::default();
        files.write("t.toml", "include = \"parts/*.toml\"\n");
        files.write("parts/a.toml", "");
        for (path, text) in [
            ("parts/a.toml", "[log]\n"),
            ("parts/b.toml", ""),
            ("cert.pem", "new"),
        ] {
            let mut watch = watch(&files);
            files.write(path, text);
            assert!(!watch.has_changed(0, &files), "{path}");
            assert!(watch.has_changed(millis(200), &files), "{path}");
        }
        let mut watch = watch(&files);
        files.0.lock().unwrap().remove(Path::new("parts/a.toml"));
        assert!(!watch.has_changed(0, &files));
        assert!(watch.has_changed(millis(200), &files), "a file is gone");
    }

    /// Certificates often have a comment in another encoding.
    #[test]
    fn a_change_of_a_file_that_is_no_text_is_noticed() {
        let file = std::env::temp_dir().join(format!("tidegate-latin-{}", std::process::id()));
        std::fs::write(&file, b"# M\xfcller\nold").unwrap();
        let disk = RealDisk;
        let mut watch = FileWatch::new(&Sources::default(), [file.clone()], Duration::ZERO, &disk);
        assert!(!watch.has_changed(0, &disk));
        std::fs::write(&file, b"# M\xfcller\nnew").unwrap();
        assert!(watch.has_changed(0, &disk));
        std::fs::remove_file(&file).unwrap();
    }

    /// A reload that failed because of it must not be tried again and again.
    #[test]
    fn a_configuration_that_is_no_text_is_known_as_it_is() {
        let file = std::env::temp_dir().join(format!("tidegate-bytes-{}", std::process::id()));
        std::fs::write(&file, b"# M\xfcller\n").unwrap();
        let loaded = load(&file, &RealDisk, &|_| None).unwrap();
        let mut watch = FileWatch::new(&loaded.sources, [], Duration::ZERO, &RealDisk);
        assert!(!watch.has_changed(0, &RealDisk));
        std::fs::write(&file, b"# M\xc3\xbcller\n").unwrap();
        assert!(watch.has_changed(0, &RealDisk));
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_change_that_is_taken_back_is_none() {
        let files = Files::default();
        files.write("t.toml", "");
        let mut watch = watch(&files);
        files.write("t.toml", "[log]\n");
        assert!(!watch.has_changed(0, &files));
        files.write("t.toml", "");
        assert!(!watch.has_changed(millis(300), &files));
    }

    #[test]
    fn a_change_between_loading_and_watching_is_noticed() {
        let files = Files::default();
        files.write("t.toml", "");
        let loaded = load(Path::new("t.toml"), &files, &|_| None).unwrap();
        files.write("t.toml", "[log]\n");
        let mut watch = FileWatch::new(&loaded.sources, [], Duration::ZERO, &files);
        assert!(watch.has_changed(0, &files));
    }
}

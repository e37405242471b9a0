//! A folder of a test.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// An empty folder for the files of a test, which is removed when this is dropped. It is its own path.
///
/// ```
/// use tidegate_testkit::Folder;
///
/// let folder = Folder::new("example");
/// std::fs::write(folder.join("a.txt"), "a").unwrap();
/// let path = folder.to_path_buf();
/// drop(folder);
/// assert!(!path.exists());
/// ```
pub struct Folder(PathBuf);

impl Folder {
    /// Makes a folder for the test of this name.
    ///
    /// # Panics
    ///
    /// Panics if the folder cannot be made.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        // A process of the same number may have left it behind.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the folder of a test can be made");
        Self(path)
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

/// Prints the path, in quotes.
impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

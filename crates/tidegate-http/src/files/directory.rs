//! Opens files below a directory.
//!
//! On Linux from 5.6 on, the kernel itself refuses every path that leaves the directory, also by a
//! symbolic link and also while links change (`openat2` with `RESOLVE_BENEATH`). A link to a place
//! inside must be relative. Elsewhere the path is made canonical and compared with the directory:
//! there, a link that another program changes between the two steps is not noticed.
//!
//! The directory itself is looked up for each file, so that one that was replaced, or a link to it
//! that leads elsewhere by now, counts at once.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// A directory whose files are served.
#[derive(Debug)]
pub(super) struct Directory {
    /// The absolute path, whose links are followed anew for each file.
    path: PathBuf,
    /// The kernel can resolve paths beneath a directory.
    #[cfg(target_os = "linux")]
    has_beneath: bool,
}

/// Something that was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) metadata: Metadata,
}

impl Directory {
    /// Checks that there is a directory.
    ///
    /// # Errors
    ///
    /// The error of the operating system, also if it is not a directory.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        if !path.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            #[cfg(target_os = "linux")]
            has_beneath: beneath::open(&path, ".").is_ok(),
            path,
        })
    }

    /// Makes the directory use the portable way, for a test.
    #[cfg(test)]
    pub(super) fn portable(mut self) -> Self {
        #[cfg(target_os = "linux")]
        {
            self.has_beneath = false;
        }
        self.path.shrink_to_fit();
        self
    }

    /// Opens what is at `path`, which has only ordinary names; an empty path is the directory
    /// itself. Never waits for a pipe or a device.
    ///
    /// # Errors
    ///
    /// The error of the operating system. [`io::ErrorKind::NotFound`] if the path leaves the
    /// directory.
    pub(super) fn get(&self, path: &str) -> io::Result<Opened> {
        let file = self.open_below(if path.is_empty() { "." } else { path })?;
        let metadata = file.metadata()?;
        Ok(Opened { file, metadata })
    }

    #[cfg(target_os = "linux")]
    fn open_below(&self, path: &str) -> io::Result<File> {
        match self.has_beneath {
            true => beneath::open(&self.path, path),
            false => self.open_canonical(path),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open_below(&self, path: &str) -> io::Result<File> {
        self.open_canonical(path)
    }

    fn open_canonical(&self, path: &str) -> io::Result<File> {
        let root = self.path.canonicalize()?;
        let path = root.join(path).canonicalize()?;
        if !path.starts_with(&root) {
            return Err(io::ErrorKind::NotFound.into());
        }
        open(&path)
    }
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    let file = rustix::fs::open(path, flags(), rustix::fs::Mode::empty())?;
    Ok(file.into())
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Returns the flags to open a file with: a pipe without a writer must not block.
#[cfg(unix)]
fn flags() -> rustix::fs::OFlags {
    use rustix::fs::OFlags;
    OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK
}

#[cfg(target_os = "linux")]
mod beneath {
    use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;

    use super::{File, Path, flags, io};

    /// How often a path is resolved again, if a rename came in between.
    const ATTEMPTS: usize = 8;

    /// Opens what is at `path` beneath the directory `root`.
    pub(super) fn open(root: &Path, path: &str) -> io::Result<File> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, directory, Mode::empty())?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..ATTEMPTS {
            match openat2(&root, path, flags(), Mode::empty(), resolve) {
                Ok(file) => return Ok(file.into()),
                // The path leaves the directory, or a link leads round in a circle.
                Err(Errno::XDEV | Errno::LOOP) => return Err(io::ErrorKind::NotFound.into()),
                Err(Errno::AGAIN) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Err(Errno::AGAIN.into())
    }
}

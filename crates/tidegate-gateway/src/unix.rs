//! Unix sockets that listen. One that an earlier process has left behind is replaced, and the path
//! is removed at the end.
//!
//! Invariant: only a socket is ever removed. At the start it is one on which no process listens, at the
//! end the one that was made here.

use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The path of a Unix socket, which is removed on drop or before, unless something else is there by then.
#[derive(Debug)]
pub(crate) struct SocketPath {
    path: PathBuf,
    made: Option<Identity>,
}

/// Which file it is: device, number, and the time at which it was made where that is known, because
/// numbers are used again.
#[derive(Debug, PartialEq, Eq)]
struct Identity(u64, u64, Option<SystemTime>);

impl Identity {
    /// Returns the identity of the socket at a path, if one is there.
    fn of_socket(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok();
        let socket = found.filter(|found| found.file_type().is_socket());
        socket.as_ref().map(Self::of)
    }

    fn of(found: &Metadata) -> Self {
        Self(found.dev(), found.ino(), found.created().ok())
    }
}

impl SocketPath {
    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the path: the next start would find it. It may be gone already, or be that of another
    /// process.
    pub(crate) fn remove(&self) {
        if self.made.is_some() && Identity::of_socket(&self.path) == self.made {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Returns `true` if a path, however it is written, leads to the socket that was made here.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        self.made.is_some() && Identity::of_socket(path) == self.made
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Opens a Unix socket. One that an earlier process has left behind is removed.
///
/// # Errors
///
/// The path cannot be used, a process listens there, or something else than a socket is there.
pub(crate) fn bind(path: &Path) -> io::Result<(UnixListener, SocketPath)> {
    let bound = match UnixListener::bind(path) {
        Err(why) if why.kind() == io::ErrorKind::AddrInUse => {
            let found = std::fs::symlink_metadata(path)?;
            if !found.file_type().is_socket() {
                return Err(occupied(found.file_type()));
            }
            if !is_left_behind(path) {
                return Err(why);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    let made = SocketPath {
        path: path.to_owned(),
        made: Identity::of_socket(path),
    };
    Ok((bound, made))
}

/// Returns `true` if no process has the socket open.
///
/// A socket of another kind is refused in one way if a process has this one, and in another way if
/// none has it. So the process is not disturbed, and a full queue of connections does not block.
fn is_left_behind(path: &Path) -> bool {
    let tried = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    tried.is_err_and(|why| why.kind() == io::ErrorKind::ConnectionRefused)
}

/// Says what is at the path.
fn occupied(found: FileType) -> io::Error {
    let what = match found {
        found if found.is_file() => "a regular file",
        found if found.is_dir() => "a directory",
        found if found.is_symlink() => "a symbolic link",
        _ => "a special file",
    };
    let advice = "and only a socket is replaced; move it away, or set another path";
    io::Error::other(format!("{what} is there, {advice}"))
}

#[cfg(test)]
mod tests {
    //! Paths that are free, in use, left behind, or of something else.

    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use tidegate_testkit::Folder;

    use super::bind;

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
        let folder = Folder::new("unix-stale");
        let path = folder.join("socket");
        let (first, guard) = bind(&path).unwrap();
        let why = bind(&path).unwrap_err().to_string();
        assert!(why.contains("in use"), "{why}");
        drop(first);
        assert!(path.exists(), "it is left behind");
        let (second, other) = bind(&path).unwrap();
        drop((second, other));
        assert!(!path.exists());
        assert_eq!(guard.path(), path);
    }

    #[test]
    fn a_process_with_the_socket_is_found_without_a_connection_to_it() {
        let folder = Folder::new("unix-used");
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(bind(&path).is_err());
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "there is nothing to accept");
        drop(listener);
        std::fs::remove_file(&path).unwrap();
        let datagrams = UnixDatagram::bind(&path).unwrap();
        assert!(bind(&path).is_err());
        drop(datagrams);
        drop(bind(&path).unwrap());
    }

    #[test]
    fn only_a_socket_is_replaced() {
        let folder = Folder::new("unix-others");
        let path = folder.join("socket");
        std::fs::write(&path, "precious").unwrap();
        let why = bind(&path).unwrap_err().to_string();
        assert!(why.contains("a regular file is there"), "{why}");
        assert!(why.contains("move it away, or set another path"), "{why}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        std::fs::remove_file(&path).unwrap();
        let target = path.with_extension("target");
        drop(UnixListener::bind(&target).unwrap());
        for target in [&target, &path.with_extension("nothing")] {
            std::os::unix::fs::symlink(target, &path).unwrap();
            let why = bind(&path).unwrap_err().to_string();
            assert!(why.contains("a symbolic link"), "{why}");
            assert_eq!(std::fs::read_link(&path).unwrap(), *target);
            std::fs::remove_file(&path).unwrap();
        }
        assert!(target.exists(), "the socket of the link stays");
        std::fs::create_dir(&path).unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("a directory"));
    }

    #[test]
    fn the_end_removes_only_the_socket_that_was_made_here() {
        let folder = Folder::new("unix-end");
        let path = folder.join("socket");
        let (listener, guard) = bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop((listener, guard));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        std::fs::remove_file(&path).unwrap();

        let (listener, guard) = bind(&path).unwrap();
        drop(listener);
        let (next, _own) = bind(&path).unwrap();
        drop(guard);
        assert!(UnixStream::connect(&path).is_ok(), "that of the next one");
        drop(next);
    }
}

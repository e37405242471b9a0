//! Unix sockets that listen. One that an earlier process has left behind is replaced, and the path
//! is removed at the end.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The path of a Unix socket, which is removed on drop.
#[derive(Debug)]
pub(crate) struct SocketPath(PathBuf);

impl SocketPath {
    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        // The next start would find it. It may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens a Unix socket. One that an earlier process has left behind is removed.
///
/// # Errors
///
/// The path cannot be used, or a process listens there.
pub(crate) fn bind(path: &Path) -> io::Result<(UnixListener, SocketPath)> {
    let bound = match UnixListener::bind(path) {
        Err(why) if why.kind() == io::ErrorKind::AddrInUse => {
            let is_stale = match UnixStream::connect(path) {
                Err(why) => why.kind() == io::ErrorKind::ConnectionRefused,
                Ok(_) => false,
            };
            if !is_stale {
                return Err(why);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    Ok((bound, SocketPath(path.to_owned())))
}

#[cfg(test)]
mod tests {
    //! Paths that are free, in use or left behind.

    use super::bind;

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
        let path = std::env::temp_dir().join(format!("tidegate-unix-{}", std::process::id()));
        let (first, guard) = bind(&path).unwrap();
        assert!(bind(&path).is_err(), "a process listens");
        drop(first);
        assert!(path.exists(), "it is left behind");
        let (second, other) = bind(&path).unwrap();
        drop((second, other));
        assert!(!path.exists());
        assert_eq!(guard.path(), path);
    }
}

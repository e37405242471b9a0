//! Files: reading at an offset, and sending without a copy.

use std::fs::File;
use std::io;

pub(crate) use self::reading::read_at;
pub(crate) use self::sending::send_file;

#[cfg(unix)]
mod reading {
    use std::os::unix::fs::FileExt;

    use super::{File, io};

    /// Reads into `room` from `offset` on. Returns how many bytes were read; none mean the end.
    pub(crate) fn read_at(file: &File, room: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(room, offset)
    }
}

#[cfg(windows)]
mod reading {
    use std::os::windows::fs::FileExt;

    use super::{File, io};

    /// Reads into `room` from `offset` on. Returns how many bytes were read; none mean the end.
    pub(crate) fn read_at(file: &File, room: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek_read(room, offset)
    }
}

#[cfg(all(target_os = "linux", not(tidegate_mio)))]
mod sending {
    use std::os::fd::AsRawFd;

    use super::{File, io};
    use crate::sys::stream::StreamRef;

    /// Sends at most `most` bytes of the file from `offset` on. Returns how many were sent, none at
    /// the end of the file; `None` if this file cannot be sent directly.
    pub(crate) fn send_file(
        stream: StreamRef<'_>,
        file: &File,
        offset: u64,
        most: usize,
    ) -> io::Result<Option<usize>> {
        let Ok(mut offset) = libc::off_t::try_from(offset) else {
            return Ok(None);
        };
        let (to, from) = (stream.as_raw_fd(), file.as_raw_fd());
        // SAFETY: both descriptors are borrowed, and the kernel reads and writes the offset.
        let sent = unsafe { libc::sendfile(to, from, &raw mut offset, most) };
        match usize::try_from(sent).map_err(|_| io::Error::last_os_error()) {
            Ok(count) => Ok(Some(count)),
            Err(why) => match why.raw_os_error() {
                // The file system does not support it.
                Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => Ok(None),
                _ => Err(why),
            },
        }
    }
}

#[cfg(not(all(target_os = "linux", not(tidegate_mio))))]
mod sending {
    use super::{File, io};
    use crate::sys::stream::StreamRef;

    /// Returns `None`: files are read, and sent as bytes.
    pub(crate) fn send_file(
        _: StreamRef<'_>,
        _: &File,
        _: u64,
        _: usize,
    ) -> io::Result<Option<usize>> {
        Ok(None)
    }
}

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

#[cfg(target_os = "linux")]
mod sending {
    use rustix::io::Errno;

    use super::{File, io};
    use crate::sys::stream::StreamRef;

    /// Sends at most `most` bytes of the file from `offset` on. Returns how many were sent, none at
    /// the end of the file; `None` if this file cannot be sent directly.
    pub(crate) fn send_file(
        stream: StreamRef<'_>,
        file: &File,
        mut offset: u64,
        most: usize,
    ) -> io::Result<Option<usize>> {
        if i64::try_from(offset).is_err() {
            return Ok(None);
        }
        match rustix::fs::sendfile(stream, file, Some(&mut offset), most) {
            // The file system does not support it.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(None),
            sent => Ok(Some(sent?)),
        }
    }
}

#[cfg(not(target_os = "linux"))]
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

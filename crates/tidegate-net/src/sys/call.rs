//! The result of a system call that is made by its number, on Linux.
//!
//! The hot calls (wait, receive, send) go through `libc::syscall`. The C library's own functions for
//! them are cancellation points, whose atomics show in the cost of a message.

use std::io;

use libc::c_long;

/// Returns what `libc::syscall` returned, as a count.
///
/// # Errors
///
/// The error of the call, which is the last one of this thread.
#[inline(always)]
pub(super) fn checked(result: c_long) -> io::Result<usize> {
    // Only -1 is negative, and it is the error.
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    //! The result and the error of a call.

    use super::*;

    #[test]
    fn returns_the_result_of_a_call() {
        // SAFETY: it has no arguments and accesses no memory.
        let id = checked(unsafe { libc::syscall(libc::SYS_getpid) });
        assert_eq!(id.unwrap(), std::process::id() as usize);
    }

    #[test]
    fn returns_the_error_of_a_call() {
        // SAFETY: a descriptor that is not open is refused.
        let refused = checked(unsafe { libc::syscall(libc::SYS_close, -1) });
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}

//! System calls on Linux, by their number or by the C library.
//!
//! The C library's functions for waiting, receiving and sending are cancellation points, whose
//! atomics show in a message's cost. Its function for any call is not, but it moves all arguments
//! to other registers, which costs an echo 20 of its 960 instructions. It is used on processors
//! that have no instruction here.

use std::io;

use libc::{c_int, c_long};

/// Makes the system call `number` and returns its result.
///
/// # Errors
///
/// The error of the call.
///
/// # Safety
///
/// The arguments are what this call expects, followed by zeros: descriptors that are open
/// meanwhile, and addresses of memory that is valid for what the call reads or writes there.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(super) unsafe fn call(number: c_long, args: [usize; 6]) -> io::Result<usize> {
    // SAFETY: the caller promises the same.
    let result = unsafe { enter(number, args) };
    // The kernel returns an error as its negative number, and these are below 4096.
    if (-4095..0).contains(&result) {
        return Err(io::Error::from_raw_os_error(-result as i32));
    }
    Ok(result as usize)
}

/// The same on other processors, by the C library.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) unsafe fn call(number: c_long, args: [usize; 6]) -> io::Result<usize> {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the caller promises that the arguments are what the call expects.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as usize)
}

/// Returns the result of a function of the C library.
///
/// # Errors
///
/// The error of the call, which the library keeps for the thread.
pub(super) fn check(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn enter(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller promises that the arguments are what the call expects. The instruction
    // changes the three registers that are named as outputs, and leaves the stack alone.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack, preserves_flags),
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn enter(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller promises that the arguments are what the call expects. The instruction
    // changes the register that is named as output, and leaves the stack alone.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => result,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            in("x4") e,
            in("x5") f,
            options(nostack, preserves_flags),
        );
    }
    result
}

#[cfg(test)]
mod tests {
    //! The result and the error of a call.

    use super::*;

    #[test]
    fn returns_the_result_of_a_call() {
        // SAFETY: it has no arguments and accesses no memory.
        let id = unsafe { call(libc::SYS_getpid, [0; 6]) };
        assert_eq!(id.unwrap(), std::process::id() as usize);
    }

    #[test]
    fn returns_the_error_of_a_call() {
        // SAFETY: a descriptor that is not open is refused.
        let refused = unsafe { call(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0]) };
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn passes_every_argument() {
        let (page, length) = (4096, 8192);
        let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // SAFETY: maps new memory at an address that the kernel chooses.
        let mapped = unsafe { call(libc::SYS_mmap, [0, length, access, kind, usize::MAX, 0]) };
        let mapped = mapped.unwrap();
        assert_eq!(mapped % page, 0);
        // SAFETY: it is refused, because the last argument is not a multiple of a page.
        let refused = unsafe { call(libc::SYS_mmap, [0, length, access, kind, usize::MAX, 1]) };
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        // SAFETY: nothing uses the memory that was mapped above.
        unsafe { call(libc::SYS_munmap, [mapped, length, 0, 0, 0, 0]) }.unwrap();
    }
}

//! The stack of another thread: its frames, which the thread itself collects in a signal handler.
//!
//! Linux only, with the feature `backtrace`; otherwise nothing is returned. The watcher stores the thread's id in [`TARGET`] and
//! sends it a signal. The handler walks the stack into a fixed buffer (no allocation, none of our
//! locks) and stores the number of frames. The watcher then resolves the names. Only one backtrace
//! is taken at a time.
//!
//! The signal is `SIGURG`: it is ignored by default, so a stray one does no harm, and it is hardly
//! used otherwise (the Go runtime chose it for the same reasons). A handler that was installed
//! before is called for every signal that is not a request of ours. System calls are restarted.
//!
//! | `TARGET` | meaning | owner of the frames |
//! |---|---|---|
//! | 0 | no request, or the handler took it | the handler; after it stored `FOUND`, the watcher |
//! | a thread's id | request to that thread | none: the watcher may still withdraw the request |
//!
//! The unwinder walks the stack. It reads tables and takes no lock with glibc 2.35 or later; older
//! versions lock the list of loaded libraries, recursively. A backtrace is for a thread that is
//! already stuck, on request, and not for production traffic.

#[cfg(not(all(target_os = "linux", feature = "backtrace")))]
pub(crate) fn of_thread(_id: u64) -> Option<Vec<String>> {
    None
}

#[cfg(all(target_os = "linux", feature = "backtrace"))]
pub(crate) use self::linux::of_thread;

#[cfg(all(target_os = "linux", feature = "backtrace"))]
mod linux {
    use std::ffi::{c_int, c_void};
    use std::mem;
    use std::ptr;
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
    use std::time::Duration;

    use crate::sys::thread::thread_id;
    use crate::{Clock, Parker};

    const SIGNAL: c_int = libc::SIGURG;
    const MOST_FRAMES: usize = 64;
    /// How long the watched thread may take to respond.
    const PATIENCE: Duration = Duration::from_millis(200);
    /// The value of [`FOUND`] until the handler has responded.
    const PENDING: usize = usize::MAX;

    /// Set while a backtrace is being taken.
    static LOOKING: AtomicBool = AtomicBool::new(false);
    /// The thread whose frames are requested.
    static TARGET: AtomicU64 = AtomicU64::new(0);
    /// The number of frames that the handler found.
    static FOUND: AtomicUsize = AtomicUsize::new(PENDING);
    static FRAMES: [AtomicUsize; MOST_FRAMES] = [const { AtomicUsize::new(0) }; MOST_FRAMES];
    /// The handler that was installed before ours; null if there was none.
    static BEFORE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    static BEFORE_TAKES_INFO: AtomicBool = AtomicBool::new(false);

    type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    type PlainHandler = extern "C" fn(c_int);

    /// Returns the frames of the thread with the system's id `id`, innermost first. `None` if there
    /// is no such thread, if it does not respond in time, and while another backtrace is being
    /// taken.
    pub(crate) fn of_thread(id: u64) -> Option<Vec<String>> {
        let thread = libc::pid_t::try_from(id).ok().filter(|&id| id > 0)?;
        // ORDERING: Acquire pairs with the Release store at the end of the last backtrace.
        if LOOKING.swap(true, Ordering::Acquire) {
            return None;
        }
        install();
        FOUND.store(PENDING, Ordering::Relaxed);
        // ORDERING: Release orders the reset of `FOUND` before the request; pairs with the
        // compare-and-swap in `on_signal`.
        TARGET.store(id, Ordering::Release);
        let frames = if send(thread) { answer() } else { None };
        // ORDERING: AcqRel: withdraws the request, so that a handler that comes late finds none. If
        // the handler was faster and is not done, it keeps the buffer, and no thread may take a
        // backtrace again.
        let taken = TARGET.swap(0, Ordering::AcqRel) != id;
        // ORDERING: Acquire pairs with the Release store in `on_signal`.
        if !taken || FOUND.load(Ordering::Acquire) != PENDING {
            // ORDERING: Release pairs with the swap above, of the next backtrace.
            LOOKING.store(false, Ordering::Release);
        }
        Some(name_all(&frames?))
    }

    /// Waits for the handler and returns the addresses that it found.
    fn answer() -> Option<Vec<usize>> {
        let (clock, parker) = (Clock::system(), Parker::new());
        let deadline = clock.deadline(PATIENCE);
        loop {
            // ORDERING: Acquire pairs with the Release store in `on_signal`: the frames are there.
            let found = FOUND.load(Ordering::Acquire);
            if found != PENDING {
                let frames = FRAMES.iter().take(found);
                return Some(frames.map(|at| at.load(Ordering::Relaxed)).collect());
            }
            if clock.nanos() >= deadline {
                return None;
            }
            // The handler must not wake a thread, so this polls every millisecond.
            clock.park_until(&parker, Some(clock.deadline(Duration::from_millis(1))));
        }
    }

    fn send(thread: libc::pid_t) -> bool {
        // SAFETY: `getpid` has no preconditions.
        let process = unsafe { libc::getpid() };
        // SAFETY: `tgkill` takes three numbers and touches no memory; our handler is installed.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL) == 0 }
    }

    /// Installs the handler, once.
    fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // The unwinder initialises itself at its first use, which must not happen in a handler.
            // SAFETY: walking is not synchronised with resolving names, and no names are resolved
            // here.
            unsafe { backtrace::trace_unsynchronized(|_| true) };
            // SAFETY: all zeroes is a valid `sigaction`: a number, an empty set, no flags.
            let mut before: libc::sigaction = unsafe { mem::zeroed() };
            // SAFETY: a null new action only reads the present one, which `before` can hold.
            unsafe { libc::sigaction(SIGNAL, ptr::null(), &raw mut before) };
            if before.sa_sigaction != libc::SIG_DFL && before.sa_sigaction != libc::SIG_IGN {
                let handler = ptr::with_exposed_provenance_mut(before.sa_sigaction);
                let takes_info = before.sa_flags & libc::SA_SIGINFO != 0;
                BEFORE_TAKES_INFO.store(takes_info, Ordering::Relaxed);
                // ORDERING: Release pairs with the Acquire load in `pass_on`.
                BEFORE.store(handler, Ordering::Release);
            }
            // SAFETY: as above.
            let mut ours: libc::sigaction = unsafe { mem::zeroed() };
            ours.sa_sigaction = (on_signal as Handler as *const c_void).expose_provenance();
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // SAFETY: `on_signal` has the signature that `SA_SIGINFO` requires and does only what a
            // handler may do, as argued there.
            unsafe { libc::sigaction(SIGNAL, &raw const ours, ptr::null_mut()) };
        });
    }

    /// Runs on the watched thread, between any two of its instructions: allocates nothing, takes no
    /// lock, calls nothing that could panic, and preserves `errno`.
    extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: `__errno_location` has no preconditions.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: `__errno_location` returned the address of this thread's own `errno`.
        let saved = unsafe { errno.read() };
        // ORDERING: AcqRel: Acquire pairs with the Release store of the request in `of_thread`;
        // Release shows a watcher that finds the request taken that this handler owns the frames.
        let requested = TARGET
            .compare_exchange(thread_id(), 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if requested {
            let mut found = 0;
            // SAFETY: walking only reads the unwinder's tables; see the header of this file.
            unsafe {
                backtrace::trace_unsynchronized(|frame| {
                    let Some(place) = FRAMES.get(found) else {
                        return false;
                    };
                    place.store(frame.ip().addr(), Ordering::Relaxed);
                    found += 1;
                    true
                });
            };
            // ORDERING: Release publishes the frames; pairs with the Acquire load in `answer`.
            FOUND.store(found, Ordering::Release);
        } else {
            pass_on(signal, info, context);
        }
        // SAFETY: as above.
        unsafe { errno.write(saved) };
    }

    /// Calls the handler that was installed before ours.
    fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // ORDERING: Acquire pairs with the Release store in `install`.
        let before = BEFORE.load(Ordering::Acquire);
        if before.is_null() {
            return;
        }
        if BEFORE_TAKES_INFO.load(Ordering::Relaxed) {
            // SAFETY: the system had this address as a handler with `SA_SIGINFO`.
            let handler: Handler = unsafe { mem::transmute(before) };
            handler(signal, info, context);
        } else {
            // SAFETY: the system had this address as a handler without `SA_SIGINFO`.
            let handler: PlainHandler = unsafe { mem::transmute(before) };
            handler(signal);
        }
    }

    /// Returns the names of the frames, without those of the handler itself.
    fn name_all(frames: &[usize]) -> Vec<String> {
        let names: Vec<Vec<String>> = frames.iter().map(|&at| names_at(at)).collect();
        let is_handler = |names: &Vec<String>| names.iter().any(|name| name.contains(HANDLER));
        let first = names.iter().rposition(is_handler).map_or(0, |at| at + 1);
        // Between the handler and the interrupted function is the kernel's signal return frame.
        let is_way_back = |names: &&Vec<String>| names.iter().all(|n| n.contains("restore_rt"));
        let skip = usize::from(names.get(first).filter(is_way_back).is_some());
        names.into_iter().skip(first + skip).flatten().collect()
    }

    /// The name of the handler's own frame.
    const HANDLER: &str = "sys::backtrace::linux::on_signal";

    /// Returns the functions at a return address: several if calls were inlined.
    fn names_at(at: usize) -> Vec<String> {
        let mut names = Vec::new();
        // Minus one: a return address may be the first address of the next function.
        let call = ptr::without_provenance_mut(at.saturating_sub(1));
        backtrace::resolve(call, |symbol| {
            let Some(name) = symbol.name() else { return };
            match (symbol.filename(), symbol.lineno()) {
                (Some(file), Some(line)) => {
                    names.push(format!("{name:#} at {}:{line}", file.display()));
                }
                _ => names.push(format!("{name:#}")),
            }
        });
        names
    }
}

#[cfg(all(test, target_os = "linux", feature = "backtrace", not(tidegate_loom)))]
mod tests {
    //! A stuck thread shows its stack, and continues afterwards.

    use std::hint::black_box;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Mutex, MutexGuard};

    use super::of_thread;
    use crate::ThreadBuilder;
    use crate::sys::prim::unpoisoned;
    use crate::sys::thread::thread_id;

    /// Only one backtrace is taken at a time, and every test of this file takes one.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        unpoisoned(ALONE.lock())
    }

    #[inline(never)]
    fn stuck_here_for_the_test(up: &Sender<u64>, stay: &Receiver<()>) -> bool {
        up.send(thread_id()).expect("the test listens");
        black_box(stay.recv().is_ok())
    }

    #[test]
    fn a_stuck_thread_shows_where_it_is_and_goes_on() {
        let _alone = alone();
        let (up, is_up) = channel();
        let (go, stay) = channel();
        let (sender, receiver) = channel();
        let thread = ThreadBuilder::new("stuck").spawn(move || {
            let went_on = stuck_here_for_the_test(&up, &stay);
            sender.send(went_on).expect("the test listens");
        });
        let thread = thread.expect("a thread can be had");
        let id = is_up.recv().expect("it starts");
        for _ in 0..3 {
            let frames = of_thread(id).expect("the thread reports its frames");
            let seen = |name: &str| frames.iter().any(|frame| frame.contains(name));
            assert!(seen("stuck_here_for_the_test"), "{frames:#?}");
            assert!(!seen("on_signal"), "{frames:#?}");
        }
        let through_info = thread.info().backtrace().expect("it is alive");
        assert!(!through_info.is_empty());
        go.send(()).expect("it waits");
        assert_eq!(receiver.recv(), Ok(true));
        let watch = thread.watch();
        assert!(thread.join().is_ok());
        assert!(watch.info().backtrace().is_none(), "it has ended");
    }

    #[test]
    fn a_thread_that_does_not_exist_shows_nothing() {
        let _alone = alone();
        for nobody in [0, u64::MAX, i32::MAX as u64, 1 << 31] {
            assert_eq!(of_thread(nobody), None);
        }
    }

    #[test]
    fn a_thread_can_look_at_itself() {
        /// Not inlined: without debug information only its symbol has a name.
        #[inline(never)]
        fn look_from_here() -> Vec<String> {
            let frames = of_thread(thread_id()).expect("it can read its own frames");
            // Not a tail call, which would take this function off the stack.
            std::hint::black_box(frames)
        }
        let _alone = alone();
        let frames = look_from_here();
        let here = "look_from_here";
        assert!(frames.iter().any(|frame| frame.contains(here)));
    }

    #[test]
    fn a_look_at_a_time() {
        let _alone = alone();
        let mine = thread_id();
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..3).map(|_| scope.spawn(|| of_thread(mine))).collect();
            let looks: Vec<_> = others.into_iter().map(|one| one.join()).collect();
            assert!(looks.into_iter().all(|look| look.is_ok()));
        });
        assert!(of_thread(mine).is_some(), "the last look is over");
    }
}

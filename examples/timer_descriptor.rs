//! A timer of the operating system as a source of an event loop (Linux).
//!
//! The loop selects the timer when it has expired, like a socket that can be read. Ten expirations
//! are counted, then the source closes itself.

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::Read;
    use std::sync::mpsc::{Sender, channel};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tidegate::Task;
    use tidegate::net::NetError;
    use tidegate::net::source::{EventSource, Interest, SourceContext};

    /// Counts expirations.
    struct Ticks {
        left: u64,
        total: Sender<u64>,
        seen: u64,
    }

    impl EventSource<File> for Ticks {
        fn selected(&mut self, at: &SourceContext<'_, File>) -> Option<Task> {
            // The number of expirations since the last read.
            let mut count = [0; 8];
            at.descriptor().as_ref().read_exact(&mut count).ok()?;
            let count = u64::from_ne_bytes(count);
            self.seen += count;
            self.left = self.left.saturating_sub(count);
            if self.left == 0 {
                drop(at.handle().close());
            }
            None // nothing is left to do
        }

        fn update_interests(&mut self, interests: Interest) -> Interest {
            match self.left {
                0 => Interest::NONE, // until it is closed
                _ => interests,
            }
        }

        fn closed(&mut self, _why: Option<&NetError>) {
            let _ = self.total.send(self.seen);
        }
    }

    /// Creates a timer that expires every two milliseconds.
    fn timer() -> std::io::Result<File> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let every = Timespec {
            tv_sec: 0,
            tv_nsec: 2_000_000,
        };
        let spec = Itimerspec {
            it_interval: every,
            it_value: every,
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
        Ok(timer.into())
    }

    pub(crate) fn run() -> tidegate::Result<()> {
        let group = tidegate::net::pinned("io", 1)?;
        let (total, result) = channel();
        let ticks = Ticks {
            left: 10,
            total,
            seen: 0,
        };
        let reactor = group.next_reactor();
        let registered = reactor.register("timer", timer()?, Interest::READ, ticks);
        println!("watching `{}`", registered.wait()?.name());
        let seen = result.recv()?;
        println!("at least ten ticks: {}", seen >= 10);
        Ok(())
    }
}

fn main() -> tidegate::Result<()> {
    #[cfg(target_os = "linux")]
    linux::run()?;
    Ok(())
}

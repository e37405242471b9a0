//! What the machine did meanwhile: our own CPU time, and how much of the CPUs somebody else used.
//!
//! It matters more than one would think: with another program on the second of two CPUs, producers and consumer share the
//! first, no cache line moves any more, and a channel shows *twice* its throughput.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Above this many CPUs used by others, figures mean nothing.
pub(crate) const TOO_MUCH: f64 = 0.1;

/// CPU time of the whole process.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Watches the rest of the machine from its creation on.
pub(crate) struct Watch {
    began: Instant,
    own: Duration,
    all: Option<Duration>,
}

impl Watch {
    /// Starts to watch.
    pub(crate) fn new() -> Self {
        Watch {
            began: Instant::now(),
            own: cpu_time(),
            all: busy_time(),
        }
    }

    /// How many CPUs everybody else used since, on average; `None` where the system does not tell.
    pub(crate) fn others(&self) -> Option<f64> {
        let all = busy_time()?.saturating_sub(self.all?);
        let others = all.saturating_sub(cpu_time().saturating_sub(self.own));
        Some(others.as_secs_f64() / self.began.elapsed().as_secs_f64())
    }
}

fn busy_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks = busy_ticks(&text)?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// Ticks in which any CPU was busy, or was taken away by the hypervisor. The first line of `/proc/stat` reads
/// `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guest time is part of user time.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields = line.split_whitespace().map(str::parse);
    let fields: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
    match fields[..] {
        [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] => {
            Some(user + nice + system + irq + softirq + steal)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::busy_ticks;

    #[test]
    fn idle_and_guest_time_are_not_counted() {
        let stat = "cpu  1 2 4 800 900 8 16 32 64 128\ncpu0 1 2 3 4\n";
        assert_eq!(busy_ticks(stat), Some(63));
        assert_eq!(busy_ticks("cpu 1 2 3"), None);
        assert_eq!(busy_ticks(""), None);
    }
}

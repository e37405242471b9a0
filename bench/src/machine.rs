//! CPU usage during a measurement: our own CPU time, the CPUs that other processes used, and the time
//! that the hypervisor took away.
//!
//! This matters more than expected. With another program on the second of two CPUs, producers and
//! consumer share the first one, no cache line moves between CPUs any more, and a channel shows
//! *twice* its throughput.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// If other processes used more CPUs than this, the figures are meaningless.
pub(crate) const TOO_MUCH: f64 = 0.1;

/// The process ids of the children that take part in the measurement.
static CHILDREN: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn children() -> MutexGuard<'static, Vec<u32>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the CPU time of this child process as our own from now on.
pub(crate) fn count_in(child: u32) {
    children().push(child);
}

/// Undoes [`count_in`]: the child no longer takes part.
pub(crate) fn count_out(child: u32) {
    children().retain(|known| *known != child);
}

/// Returns the CPU time of the whole process.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the CPU time of the calling thread.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Measures the CPU usage of other processes from its creation on.
pub(crate) struct Watch {
    began: Instant,
    own: Duration,
    all: Option<Duration>,
}

impl Watch {
    /// Starts the measurement.
    pub(crate) fn new() -> Self {
        Watch {
            began: Instant::now(),
            own: own_time(),
            all: busy_time(),
        }
    }

    /// Returns how many CPUs other processes used since then, on average; `None` if the system does
    /// not report it.
    pub(crate) fn others(&self) -> Option<f64> {
        let all = busy_time()?.saturating_sub(self.all?);
        let others = all.saturating_sub(own_time().saturating_sub(self.own));
        Some(others.as_secs_f64() / self.began.elapsed().as_secs_f64())
    }
}

/// Returns the CPU time of this process and of its children that take part in the measurement.
fn own_time() -> Duration {
    cpu_time() + time_of_children() + waited_time()
}

/// Returns the CPU time of all children that have ended.
pub(crate) fn waited_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat");
    let ticks = text.ok().and_then(|text| ticks(&text, WAITED));
    ticks_to_time(ticks.unwrap_or(0))
}

/// Returns the CPU time of the children that take part in the measurement.
fn time_of_children() -> Duration {
    let ticks = |child: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{child}/stat"));
        text.ok()
            .and_then(|text| self::ticks(&text, OWN))
            .unwrap_or(0)
    };
    ticks_to_time(children().iter().map(ticks).sum())
}

/// The fields before user and system time of a process, and before those of its children that have
/// ended.
const OWN: usize = 11;
const WAITED: usize = 13;

/// Returns the ticks that a process has used. The process name, which may contain anything, ends
/// with the last bracket.
fn ticks(stat: &str, before: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(before).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

fn ticks_to_time(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

fn busy_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks = busy_ticks(&text)?;
    Some(ticks_to_time(ticks))
}

/// Returns the CPU time that the hypervisor has taken away from this machine since it was started; 0
/// if the system does not report it.
pub(crate) fn stolen_time() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    ticks_to_time(machine_ticks(&text).map_or(0, |ticks| ticks.stolen))
}

/// Returns the ticks in which a CPU was busy or taken away by the hypervisor.
fn busy_ticks(stat: &str) -> Option<u64> {
    machine_ticks(stat).map(|ticks| ticks.worked + ticks.stolen)
}

/// The ticks of all CPUs.
struct MachineTicks {
    worked: u64,
    stolen: u64,
}

/// Reads the first line of `/proc/stat`, which is `cpu user nice system idle iowait irq softirq steal
/// guest guest_nice`. Guest time is part of user time.
fn machine_ticks(stat: &str) -> Option<MachineTicks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields = line.split_whitespace().map(str::parse);
    let fields: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
    match fields[..] {
        [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] => Some(MachineTicks {
            worked: user + nice + system + irq + softirq,
            stolen,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{OWN, WAITED, busy_ticks, machine_ticks, ticks};

    #[test]
    fn idle_and_guest_time_are_not_counted() {
        let stat = "cpu  1 2 4 800 900 8 16 32 64 128\ncpu0 1 2 3 4\n";
        assert_eq!(busy_ticks(stat), Some(63));
        assert_eq!(machine_ticks(stat).map(|ticks| ticks.stolen), Some(32));
        assert_eq!(busy_ticks("cpu 1 2 3"), None);
        assert_eq!(busy_ticks(""), None);
    }
    #[test]
    fn a_childs_time_is_found_behind_its_name() {
        let stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 300 40 5 6 20 0";
        assert_eq!(ticks(stat, OWN), Some(340));
        assert_eq!(ticks(stat, WAITED), Some(11));
        assert_eq!(ticks("7 (a) R 1", OWN), None);
    }
}

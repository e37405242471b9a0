//! The default queue: a first-in, first-out list from which any job can be removed.

use std::fmt;

use super::job::Job;
use super::job_queue::{JobKey, JobQueue, Popped};

/// Marks the absence of an adjacent job.
const NONE: u32 = u32::MAX;

/// A list of jobs in the order of their arrival. Any job can be removed in constant time.
///
/// As a [`JobQueue`] it runs the oldest job first. To make room for a new job, it removes the
/// oldest one, whatever the new job is.
///
/// ```
/// use tidegate_pool::queue::{Job, JobList};
/// use tidegate_core::Task;
///
/// let mut list = JobList::default();
/// let keys: Vec<_> = ["a", "b", "c"]
///     .map(|name| list.push_back(Job::new(Task::named(name, || ()))))
///     .to_vec();
/// assert_eq!(list.remove(keys[1]).unwrap().name(), "b");
/// assert!(list.remove(keys[1]).is_none());
/// assert_eq!(list.pop_back().unwrap().name(), "c");
/// assert_eq!(list.pop_front().unwrap().name(), "a");
/// ```
pub struct JobList {
    nodes: Vec<Node>,
    /// The first free node; free nodes are linked by `next`.
    free: u32,
    oldest: u32,
    newest: u32,
    len: usize,
}

struct Node {
    job: Option<Job>,
    previous: u32,
    next: u32,
    /// How often the node was filled. It is part of the key, so an old key does not match a new
    /// job.
    turn: u32,
}

impl JobList {
    /// Appends a job.
    pub fn push_back(&mut self, job: Job) -> JobKey {
        let at = self.take_node();
        let previous = self.newest;
        let node = &mut self.nodes[at as usize];
        node.job = Some(job);
        node.previous = previous;
        node.next = NONE;
        node.turn = node.turn.wrapping_add(1);
        let key = JobKey(u64::from(node.turn) << 32 | u64::from(at));
        match previous {
            NONE => self.oldest = at,
            _ => self.nodes[previous as usize].next = at,
        }
        self.newest = at;
        self.len += 1;
        key
    }

    /// Removes and returns the oldest job.
    pub fn pop_front(&mut self) -> Option<Job> {
        self.unlink(self.oldest)
    }

    /// Removes and returns the newest job.
    pub fn pop_back(&mut self) -> Option<Job> {
        self.unlink(self.newest)
    }

    /// Removes and returns the job with this key.
    pub fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.get(key)?;
        self.unlink(key.0 as u32)
    }

    /// Returns the job with this key.
    pub(crate) fn get(&self, key: JobKey) -> Option<&Job> {
        let (turn, at) = ((key.0 >> 32) as u32, key.0 as u32);
        let node = self.nodes.get(at as usize)?;
        node.job.as_ref().filter(|_| node.turn == turn)
    }

    /// Returns the number of jobs in the list.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn take_node(&mut self) -> u32 {
        if self.free == NONE {
            let at = u32::try_from(self.nodes.len()).expect("a pool's bound is below 2^32");
            self.nodes.push(Node {
                job: None,
                previous: NONE,
                next: NONE,
                turn: 0,
            });
            return at;
        }
        let at = self.free;
        self.free = self.nodes[at as usize].next;
        at
    }

    fn unlink(&mut self, at: u32) -> Option<Job> {
        let node = self.nodes.get_mut(at as usize)?;
        let job = node.job.take()?;
        let (previous, next) = (node.previous, node.next);
        node.next = self.free;
        self.free = at;
        match previous {
            NONE => self.oldest = next,
            _ => self.nodes[previous as usize].next = next,
        }
        match next {
            NONE => self.newest = previous,
            _ => self.nodes[next as usize].previous = previous,
        }
        self.len -= 1;
        Some(job)
    }
}

impl Default for JobList {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            len: 0,
        }
    }
}

impl JobQueue for JobList {
    fn push(&mut self, job: Job) -> JobKey {
        self.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        self.pop_front().map(Popped::Run)
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.remove(key)
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        self.pop_front()
    }
}

impl fmt::Debug for JobList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobList").field("len", &self.len).finish()
    }
}

#[cfg(test)]
mod tests {
    //! The list keeps its order and its keys when jobs are removed.

    use std::collections::VecDeque;

    use tidegate_core::Task;

    use super::*;

    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    #[test]
    fn agrees_with_a_plain_deque() {
        let mut random = 7_u64;
        let mut dice = |below: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) as usize % below
        };
        let (mut list, mut plain) = (JobList::default(), VecDeque::new());
        let mut gone = Vec::new();
        for _ in 0..20_000 {
            match dice(5) {
                0 | 1 => {
                    let name = NAMES[dice(NAMES.len())];
                    let key = list.push_back(Job::new(Task::named(name, || ())));
                    plain.push_back((key, name));
                }
                2 => {
                    let expected = plain.pop_front();
                    assert_eq!(
                        list.pop_front().map(|job| job.name()),
                        expected.map(|(_, name)| name)
                    );
                    gone.extend(expected);
                }
                3 => {
                    let expected = plain.pop_back();
                    assert_eq!(
                        list.pop_back().map(|job| job.name()),
                        expected.map(|(_, name)| name)
                    );
                    gone.extend(expected);
                }
                _ if !plain.is_empty() => {
                    let (key, name) = plain.remove(dice(plain.len())).expect("it is there");
                    assert_eq!(list.remove(key).map(|job| job.name()), Some(name));
                    gone.push((key, name));
                }
                _ => {}
            }
            assert_eq!(list.len(), plain.len());
        }
        assert!(gone.iter().all(|(key, _)| list.remove(*key).is_none()));
    }

    #[test]
    fn a_removed_job_leaves_no_trace() {
        let mut list = JobList::default();
        let _first = list.push_back(Job::new(Task::new(|| ())));
        let mut last = list.push_back(Job::new(Task::new(|| ())));
        for _ in 0..1000 {
            let next = list.push_back(Job::new(Task::new(|| ())));
            assert!(list.remove(last).is_some());
            last = next;
        }
        assert!(list.nodes.len() <= 3, "{}", list.nodes.len());
    }
}

//! Going to sleep without a lost wake-up: doorbell, lanes and parker together.

use super::*;

/// The parts by which a loop sleeps and is woken.
struct Door {
    bell: Doorbell,
    signals: SignalLane,
    parker: Parker,
}

impl Door {
    fn new() -> StdArc<Self> {
        StdArc::new(Self {
            bell: Doorbell::new(),
            signals: SignalLane::new(),
            parker: Parker::new(),
        })
    }

    fn ring(&self) {
        if self.bell.ring() {
            self.parker.unpark();
        }
    }

    /// Arms, checks the lanes once more, sleeps, disarms: what a loop does when it found nothing.
    fn sleep(&self, end: &TaskLaneReceiver) {
        self.bell.arm(u64::MAX);
        if end.is_empty() && self.signals.is_empty() {
            self.parker.park(None);
        } else {
            thread::yield_now();
        }
        self.bell.disarm();
    }
}

/// Three threads, one task each from two. A lost wakeup is a deadlock, which loom reports.
/// Fails when: `arm` or `TaskLane::push` has no fence.
#[test]
fn a_task_is_never_slept_over() {
    loom::model(|| {
        let (lane, mut end) = TaskLane::new(2);
        let (door, log) = (Door::new(), Arc::new(Log::default()));
        let producers: Vec<_> = (0..2)
            .map(|what| {
                let (lane, door) = (StdArc::clone(&lane), StdArc::clone(&door));
                let log = Arc::clone(&log);
                thread::spawn(move || {
                    lane.push(note(&log, what)).expect("there is room");
                    door.ring();
                })
            })
            .collect();
        let mut ran = 0;
        while ran < 2 {
            match end.pop() {
                Some(task) => {
                    task.run();
                    ran += 1;
                }
                None => door.sleep(&end),
            }
        }
        for producer in producers {
            producer.join().expect("it does not panic");
        }
        assert_eq!(log.get().len(), 2);
    });
}

/// Three threads, one task and one signal, each from its own thread.
/// Fails when: `arm` or `SignalLane::push` has no fence.
#[test]
fn neither_lane_is_slept_over() {
    loom::model(|| {
        let (lane, mut end) = TaskLane::new(1);
        let (door, log) = (Door::new(), Arc::new(Log::default()));
        let block = SignalBlock::new(News::default());
        let tasks = {
            let (door, log) = (StdArc::clone(&door), Arc::clone(&log));
            thread::spawn(move || {
                lane.push(note(&log, 1)).expect("there is room");
                door.ring();
            })
        };
        let signals = {
            let (door, block) = (StdArc::clone(&door), StdArc::clone(&block));
            thread::spawn(move || {
                let signal = block.raise().expect("not raised yet");
                door.signals.push(signal).expect("the lane is open");
                door.ring();
            })
        };
        let (mut ran, mut notified) = (false, false);
        while !ran || !notified {
            let task = end.pop();
            let mut idle = task.is_none();
            ran |= task.map(Task::run).is_some();
            for signal in door.signals.take() {
                signal.deliver();
                (notified, idle) = (true, false);
            }
            if idle {
                door.sleep(&end);
            }
        }
        tasks.join().expect("it does not panic");
        signals.join().expect("it does not panic");
        assert_eq!((log.get(), block.notified.load(Relaxed)), (vec![1], 1));
    });
}

/// Three threads: if two producers ring while the loop sleeps, exactly one of them wakes it.
#[test]
fn one_ringer_of_two_wakes() {
    loom::model(|| {
        let bell = StdArc::new(Doorbell::new());
        bell.arm(u64::MAX);
        let ringers: Vec<_> = (0..2)
            .map(|_| {
                let bell = StdArc::clone(&bell);
                thread::spawn(move || u32::from(bell.ring()))
            })
            .collect();
        let own = u32::from(bell.disarm());
        let rung: u32 = ringers
            .into_iter()
            .map(|ringer| ringer.join().expect("it does not panic"))
            .sum();
        assert_eq!(own + rung, 1);
        assert!(!bell.is_armed());
    });
}

/// Three threads: each of two wakers writes first, and the woken thread sees what its waker wrote.
/// Fails when: `park` consumes a pending wakeup without acquiring it.
#[test]
fn a_wakeup_publishes_the_writes_before_it() {
    loom::model(|| {
        let (parker, message) = (Parker::new(), Arc::new(AtomicUsize::new(0)));
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let (parker, message) = (parker.clone(), Arc::clone(&message));
                thread::spawn(move || {
                    message.fetch_add(1, Relaxed);
                    parker.unpark();
                })
            })
            .collect();
        while message.load(Relaxed) < 2 {
            parker.park(None);
        }
        for waker in wakers {
            waker.join().expect("it does not panic");
        }
        assert_eq!(parker.wakes(), 2);
    });
}

/// Two threads: a wakeup before, during or after going to sleep ends that sleep, and the woken
/// thread can read what the waker wrote without a lock.
/// Fails when: `unpark` or `park` is relaxed.
#[test]
fn one_wakeup_ends_one_sleep() {
    loom::model(|| {
        let (parker, log) = (Parker::new(), Arc::new(Log::default()));
        let waker = {
            let (parker, log) = (parker.clone(), Arc::clone(&log));
            thread::spawn(move || {
                log.note(1);
                parker.unpark();
            })
        };
        assert!(parker.park(None));
        assert_eq!(log.get(), [1]);
        waker.join().expect("it does not panic");
        assert!(!parker.is_notified());
    });
}

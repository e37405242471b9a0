//! A strategy of a user drives the loops of a server: what happens to connections if it drops tasks or
//! its producer.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_core::{Executor, OnUnhandled, Rejected, Task};
use tidegate_loop::{LoopProducer, Quiet, ShutdownError};
use tidegate_pool::strategy::{Producer, Strategy};
use tidegate_promise::WaitError;
use tidegate_testkit::Log;

use super::*;
use crate::{Echo, dial, round_trip, serve};

/// Runs tasks where they were produced.
struct Own {
    producer: Mutex<Option<LoopProducer>>,
    wanted: AtomicBool,
    /// Every task whose number is a multiple of this is dropped instead; 0 for none.
    drops: u64,
    tasks: AtomicU64,
    /// The next task makes it panic, with the producer on its stack.
    panics: AtomicBool,
    pool: Arc<dyn Executor>,
}

struct Handle(Arc<Own>);

impl Own {
    fn consume(&self, task: Task) {
        let number = self.tasks.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(!self.panics.load(Ordering::SeqCst), "as planned");
        match self.drops {
            0 => task.run(),
            drops if number.is_multiple_of(drops) => drop(task),
            _ => task.run(),
        }
    }
}

impl Strategy for Handle {
    fn produce(&self) {
        let own = &*self.0;
        own.wanted.store(true, Ordering::SeqCst);
        while own.wanted.load(Ordering::SeqCst) {
            let held = own.producer.lock().unwrap().take();
            let Some(mut producer) = held else { return };
            own.wanted.store(false, Ordering::SeqCst);
            while let Some(task) = producer.produce() {
                own.consume(task);
            }
            *own.producer.lock().unwrap() = Some(producer);
        }
    }

    fn dispatch(&self) -> Result<(), Rejected<()>> {
        let own = Self(Arc::clone(&self.0));
        let task = Task::new(move || own.produce());
        let dispatched = self.0.pool.execute_internal(task);
        dispatched.map_err(|refused| refused.map(drop))
    }

    fn shutdown(&self) -> bool {
        let producer = self.0.producer.lock().unwrap().take();
        producer.is_some()
    }

    fn is_idle(&self) -> bool {
        self.0.producer.lock().unwrap().is_some()
    }

    fn is_shutdown(&self) -> bool {
        !self.is_idle()
    }

    fn name(&self) -> &'static str {
        "Own"
    }
}

/// Creates two loops that such strategies drive, and returns the strategies.
fn own(drops: u64, hook: &OnUnhandled) -> (NetGroup<Roaming>, Log<Arc<Own>>) {
    let pool = WorkerPool::builder("workers").core(6).max(6);
    let pool = pool.build().unwrap();
    let (made, log) = Log::pair();
    let builder = NetGroup::builder("io").loops(2).report_to(hook.clone());
    let builder = builder.strategy(move |producer, pool| {
        let own = Arc::new(Own {
            producer: Mutex::new(Some(producer)),
            wanted: AtomicBool::new(false),
            drops,
            tasks: AtomicU64::new(0),
            panics: AtomicBool::new(false),
            pool,
        });
        log.push(Arc::clone(&own));
        Handle(own)
    });
    (builder.build_roaming(&pool).unwrap(), made)
}

#[test]
fn a_strategy_of_a_user_drives_a_server() {
    let (group, _made) = own(0, &OnUnhandled::stderr());
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut peers = [dial(&server), dial(&server), dial(&server)];
    for round in 0..90 {
        assert_eq!(round_trip(&mut peers[round % 3], b"hello"), b"hello");
    }
    let over = group.shutdown(Quiet::none(std::time::Duration::from_secs(60)));
    over.wait().unwrap();
}

/// A dropped task of a connection returns the connection to its loop, which offers the event again.
#[test]
fn an_event_whose_task_is_dropped_is_offered_again() {
    let (group, made) = own(3, &OnUnhandled::stderr());
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut peers = [dial(&server), dial(&server)];
    for round in 0..30 {
        assert_eq!(round_trip(&mut peers[round % 2], b"hello"), b"hello");
    }
    let tasks = |own: &Arc<Own>| own.tasks.load(Ordering::SeqCst);
    let tasks: u64 = made.take().iter().map(tasks).sum();
    assert!(tasks > 30, "{tasks}: some were dropped");
}

#[test]
fn a_loop_that_lost_its_strategy_closes_its_connections_and_the_other_loop_goes_on() {
    let (log, told) = Log::pair();
    let hook = OnUnhandled::new(move |who, what| told.push(format!("{who}: {what}")));
    let (group, made) = own(0, &hook);
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut peers: Vec<_> = (0..6).map(|_| dial(&server)).collect();
    for peer in &mut peers {
        assert_eq!(round_trip(peer, b"hello"), b"hello");
    }
    made.take().remove(0).panics.store(true, Ordering::SeqCst);
    let broken = group.iter().next().unwrap();
    // The task that makes it panic.
    let _ = broken.execute(|| ());
    let Err(WaitError::Failed(ShutdownError::BadStrategy { name, strategy, .. })) =
        broken.termination().wait()
    else {
        panic!("it ended with an error");
    };
    assert_eq!((&*name, strategy), ("io-0", "Own"));
    log.wait_for(2);
    let told = log.take();
    assert!(told.iter().all(|one| one.starts_with("io-0: ")), "{told:?}");
    // The connections of the other loop are answered; those of the broken one are closed.
    let mut answered = 0;
    for peer in &mut peers {
        let _ = peer.write_all(b"hello");
        let mut answer = [0; 5];
        answered += u32::from(peer.read_exact(&mut answer).is_ok());
    }
    assert!((1..6).contains(&answered), "{answered}");
    assert_eq!(group.submit(|| 7).unwrap().wait().unwrap(), 7);
}

//! The order of a start: what may take long comes before the question whether it should go on.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::isolate::{Isolation, Properties};
use tidegate::promise::Completion;
use tidegate::{Clock, ManualClock};

use super::operation::Operation;
use super::parts::OperationParts;
use crate::config::{ConfigFile, Disk};
use crate::notify::Notifier;
use crate::{Reports, Resolver};

const FILE: &str = "[listen]\nhttp = \"gateway.internal:0\"\n\
    admin = { at = \"operators.internal:0\", token = \"file:/token\" }\n\
    [log]\nfile = \"/dev/null\"\n[route.r]\nrespond = 200\n";

/// What a start has done, in order.
type Steps = Arc<Mutex<Vec<String>>>;

/// A disk with the configuration, and a token that is another one after some reads.
struct Files {
    steps: Steps,
    /// How many reads still find the old token.
    old: AtomicUsize,
}

impl Disk for Files {
    fn read(&self, path: &Path) -> io::Result<String> {
        let is_token = path == Path::new("/token");
        let count = |left: usize| left.checked_sub(1);
        let text = match is_token {
            false => FILE,
            true if self
                .old
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, count)
                .is_ok() =>
            {
                "old-token-of-the-test"
            }
            true => "new-token-of-the-test",
        };
        let step = format!(
            "reads {}: {}",
            path.display(),
            if is_token { text } else { "" }
        );
        self.steps.lock().unwrap().push(step);
        Ok(text.to_owned())
    }
}

/// Starts a gateway. The token is another one after `old` reads.
fn start(old: usize) -> (Operation, Steps, Arc<Files>) {
    let steps = Steps::default();
    let disk = Arc::new(Files {
        steps: Arc::clone(&steps),
        old: AtomicUsize::new(old),
    });
    let clock = Clock::from(&ManualClock::new());
    let reports = Reports::new(clock.clone());
    let properties = Properties::new();
    let group = |name: &str| {
        let group = tidegate::net::NetGroup::builder(name).clock(&clock);
        group.build().unwrap()
    };
    let looked = Arc::clone(&steps);
    let parts = OperationParts {
        group: group("gateway"),
        own: group("operate"),
        isolation: Isolation::builder()
            .properties(properties.clone())
            .clock(&clock)
            .build()
            .unwrap(),
        properties,
        reports,
        resolver: Resolver::new(move |host, port| {
            looked.lock().unwrap().push(format!("looks up {host}"));
            Completion::succeeded(vec![([127, 0, 0, 1], port).into()])
        }),
        notifier: Arc::new(Notifier::new(None)),
    };
    let file = ConfigFile::new(
        "/tidegate.toml",
        Arc::clone(&disk) as Arc<_>,
        Arc::new(|_| None),
    );
    let asked = Arc::clone(&steps);
    let goes_on = move || {
        asked.lock().unwrap().push("asks".to_owned());
        true
    };
    let started = Operation::start_if(file, parts, goes_on);
    (started.unwrap().unwrap(), steps, disk)
}

#[test]
fn no_file_is_read_and_no_name_looked_up_after_the_question() {
    let (operation, steps, _) = start(0);
    let steps = std::mem::take(&mut *steps.lock().unwrap());
    for name in ["gateway.internal", "operators.internal"] {
        let looked = format!("looks up {name}");
        assert_eq!(
            steps.iter().filter(|step| **step == looked).count(),
            1,
            "{steps:?}"
        );
    }
    assert_eq!(steps.last().map(String::as_str), Some("asks"), "{steps:?}");
    let addresses = operation.addresses();
    assert!(
        addresses.iter().all(|(_, at)| at.starts_with("127.0.0.1:")),
        "{addresses:?}"
    );
    operation.cut();
}

#[test]
fn a_token_that_is_replaced_during_the_start_is_used_or_noticed() {
    for old in 0..6 {
        let (operation, steps, disk) = start(old);
        let steps = std::mem::take(&mut *steps.lock().unwrap());
        let mut reads = steps.iter().rev();
        let used = reads.find(|step| step.starts_with("reads /token")).unwrap();
        // Long enough after one another that a change counts.
        let is_noticed = [0, 1, 2, 3]
            .map(|hours| operation.has_changed(Duration::from_secs(hours * 3600), &*disk))
            .contains(&true);
        assert!(
            used.contains("new-token") || is_noticed,
            "after {old} reads: {steps:?}"
        );
        operation.cut();
    }
}

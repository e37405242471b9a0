//! Properties without effect, or with another effect than intended, are reported.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};

use tidegate_core::Unhandled;
use tidegate_isolate::{
    Collapser, CollapserConfig, CollapserScope, Command, ConfigError, Isolation, Properties,
    PropertySource,
};

use crate::support::{builder, pool_of};

const LIMIT: &str = "execution.isolation.semaphore.maxConcurrentRequests";

/// Builds an isolation with these sources, and a receiver of its reports.
fn reporting(sources: &[&Properties]) -> (Isolation, Receiver<String>) {
    let (sender, receiver) = channel();
    let mut isolation = Isolation::builder().on_unhandled(move |_, what| {
        if let Unhandled::Setting { message } = what {
            sender.send((*message).to_owned()).unwrap();
        }
    });
    for source in sources {
        isolation = isolation.properties((*source).clone());
    }
    (isolation.build().unwrap(), receiver)
}

#[test]
fn a_change_that_another_level_hides_says_so() {
    let properties = Properties::new();
    let (isolation, receiver) = reporting(&[&properties]);
    let coded = builder("coded").permits(7).build(&isolation).unwrap();
    let plain = builder("plain").build(&isolation).unwrap();
    let all = format!("hystrix.command.default.{LIMIT}");
    properties.set(&all, "5").unwrap();
    assert_eq!(
        (coded.config().permits.limit, plain.config().permits.limit),
        (7, 5)
    );
    let message = receiver.recv().unwrap();
    assert_eq!(
        message,
        format!("`{all}` = 5: not in force for command `coded` (the code says 7)")
    );
    let mine = format!("hystrix.command.plain.{LIMIT}");
    properties.set(&mine, "3").unwrap();
    properties.set(&all, "6").unwrap();
    let message = receiver.recv().unwrap();
    assert!(message.contains("`coded` (the code says 7)"), "{message}");
    let other = format!("`plain` (`{mine}` says 3)");
    assert!(message.contains(&other), "{message}");
    // The code is a level, too.
    plain.configure(|c| c.permits.limit = 20).unwrap();
    assert_eq!(plain.config().permits.limit, 3);
    let message = receiver.recv().unwrap();
    assert!(
        message.starts_with(&format!("command `plain`: {LIMIT} 20: ")),
        "{message}"
    );
    properties.remove(&mine).unwrap();
    assert_eq!(plain.config().permits.limit, 20);
    assert!(receiver.try_recv().is_err(), "nothing else was hidden");
}

#[test]
fn a_change_that_another_setting_overrules_says_so() {
    let properties = Properties::new();
    let (isolation, receiver) = reporting(&[&properties]);
    let command = builder("a").build(&isolation).unwrap();
    let set = |name: &str, value: &str| {
        properties
            .set(&format!("hystrix.command.{name}"), value)
            .unwrap();
    };
    set("default.execution.timeout.enabled", "false");
    set("a.execution.isolation.thread.timeoutInMilliseconds", "80");
    assert_eq!(command.config().timeout, None);
    let overruled = "not in force for command `a` (another setting overrules it)";
    assert!(receiver.recv().unwrap().ends_with(overruled));
    set("default.circuitBreaker.forceOpen", "true");
    set("a.circuitBreaker.forceClosed", "true");
    assert!(receiver.recv().unwrap().ends_with(overruled));
    set("default.metrics.rollingStats.numBuckets", "5");
    let message = receiver.recv().unwrap();
    assert!(
        message.ends_with("`a` (it was read when the key was built)"),
        "{message}"
    );
    set("default.threadPoolKeyOverride", "all");
    let message = receiver.recv().unwrap();
    assert!(
        message.ends_with("`a` (it has no form for all commands)"),
        "{message}"
    );
    set("default.metrics.rollingPercentile.bucketSize", "100");
    let message = receiver.recv().unwrap();
    assert!(
        message.ends_with("100: Hystrix has it, and it has no use here"),
        "{message}"
    );
}

#[test]
fn a_change_that_another_source_hides_says_so() {
    let (first, second) = (Properties::new(), Properties::new());
    let (isolation, receiver) = reporting(&[&first, &second]);
    let command = builder("a").build(&isolation).unwrap();
    let name = format!("hystrix.command.a.{LIMIT}");
    second.set(&name, "3").unwrap();
    first.set(&name, "4").unwrap();
    assert!(
        receiver.try_recv().is_err(),
        "both were in force when they were set"
    );
    second.set(&name, "5").unwrap();
    let message = format!("`{name}` = 5: an earlier source has it, too; change it there");
    assert_eq!(receiver.recv().unwrap(), message);
    assert_eq!(command.config().permits.limit, 4);
}

#[test]
fn a_hidden_change_of_a_pool_or_a_collapser_says_so() {
    let properties = Properties::new();
    let (isolation, receiver) = reporting(&[&properties]);
    let _pools = ["a", "b"].map(|key| {
        let command = builder(key).pool("shared").threads(pool_of(2, 0));
        command.build(&isolation).unwrap()
    });
    properties
        .set("hystrix.threadpool.default.coreSize", "3")
        .unwrap();
    let message = "`hystrix.threadpool.default.coreSize` = 3: not in force for threadpool `shared` \
                   (the code says 2)";
    assert_eq!(receiver.recv().unwrap(), message, "a pool is reported once");
    let command = Command::<HashMap<u32, u32>, ()>::builder("names").group("tests");
    let command = command.build(&isolation).unwrap();
    let config = CollapserConfig {
        scope: CollapserScope::Global,
        max_batch: 2,
        ..CollapserConfig::default()
    };
    let _names = Collapser::new(&command, config, |_: &[u32], _| Ok(HashMap::new()));
    let name = "hystrix.collapser.default.maxRequestsInBatch";
    properties.set(name, "9").unwrap();
    let message =
        format!("`{name}` = 9: not in force for collapser `names` (the code says otherwise)");
    assert_eq!(receiver.recv().unwrap(), message);
}

/// A source like a file: its contents are fixed, and it cannot reject a name.
struct File {
    name: &'static str,
    accepts_unknown: bool,
}

impl PropertySource for File {
    fn get(&self, name: &str) -> Option<String> {
        (name == self.name).then(|| "5".to_owned())
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.to_owned()]
    }

    fn accepts_unknown(&self) -> bool {
        self.accepts_unknown
    }
}

#[test]
fn a_misspelt_name_in_a_source_refuses_the_isolation() {
    let build = |name, accepts_unknown| {
        let source = File {
            name,
            accepts_unknown,
        };
        Isolation::builder().properties(source).build()
    };
    let wrong = "hystrix.threadpool.catalog.coresize";
    let error: ConfigError = build(wrong, false).unwrap_err();
    let meant = "did you mean `hystrix.threadpool.catalog.coreSize`?";
    assert!(error.reason().starts_with(meant), "{error}");
    assert!(build(wrong, true).is_ok());
    assert!(build("spring.name", false).is_ok(), "another program's");
    assert!(build("hystrix.threadpool.catalog.coreSize", false).is_ok());
}

#[test]
fn a_misspelt_name_that_a_source_reports_later_is_an_error() {
    let (properties, lenient) = (Properties::new(), Properties::new().accept_unknown());
    let (_isolation, receiver) = reporting(&[&properties, &lenient]);
    let wrong = "hystrix.command.a.fallback.enable";
    let error = properties.set(wrong, "false").unwrap_err();
    assert!(
        error
            .reason()
            .contains("`hystrix.command.a.fallback.enabled`"),
        "{error}"
    );
    lenient.set(wrong, "false").unwrap();
    lenient.set("spring.name", "x").unwrap();
    assert!(receiver.try_recv().is_err());
}

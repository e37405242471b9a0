//! Reports the certificates of listeners and upstreams that expire soon, and those that have expired: each once,
//! as a change and as a problem.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use tidegate_core::internal::lock;

use super::operator::Operator;
use crate::tls::Expiry;

/// How long before its end a certificate is reported.
const SOON: Duration = Duration::from_secs(14 * DAY);
/// The longest time between two looks.
const LONGEST_LOOK: Duration = Duration::from_secs(3600);
const DAY: u64 = 86_400;

/// What was reported, by the setting that names a certificate.
#[derive(Debug, Default)]
pub(super) struct Expiries(Mutex<HashMap<String, Reported>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reported {
    /// The end of the certificate: a new one has another end.
    of: SystemTime,
    has_expired: bool,
}

impl Expiries {
    /// Returns what has to be reported about these certificates, and the time until the next look.
    fn look(&self, known: &[(String, Expiry)], now: SystemTime) -> (Vec<String>, Duration) {
        let mut before = lock(&self.0);
        let (mut reports, mut next) = (Vec::new(), LONGEST_LOOK);
        let mut reported = HashMap::new();
        for (setting, expiry) in known {
            let left = expiry.at.duration_since(now).ok();
            if let Some(left) = left {
                let until = left.checked_sub(SOON).unwrap_or(left);
                // The last second of a certificate belongs to it.
                next = next.min(until + Duration::from_secs(1));
            }
            if left.is_some_and(|left| left > SOON) {
                continue;
            }
            let state = Reported {
                of: expiry.at,
                has_expired: left.is_none(),
            };
            if before.get(setting) != Some(&state) {
                reports.push(text(setting, expiry, left));
            }
            reported.insert(setting.clone(), state);
        }
        *before = reported;
        (reports, next)
    }
}

fn text(setting: &str, expiry: &Expiry, left: Option<Duration>) -> String {
    let day = &expiry.day;
    match left.map(|left| left.as_secs() / DAY) {
        None => format!("{setting}: the certificate has expired on {day}"),
        Some(0) => format!("{setting}: the certificate expires on {day}, within a day"),
        Some(1) => format!("{setting}: the certificate expires on {day}, in 1 day"),
        Some(days) => format!("{setting}: the certificate expires on {day}, in {days} days"),
    }
}

/// Looks at the certificates now, and again and again until the end of the operation.
pub(super) fn watch(operator: &Arc<Operator>) {
    look(&Arc::downgrade(operator));
}

fn look(weak: &Weak<Operator>) {
    let Some(operator) = weak.upgrade() else {
        return;
    };
    let reports = &operator.parts.reports;
    let listening = operator.gateway.listening();
    let of_listeners = listening.iter().flat_map(|open| open.expiries());
    let known: Vec<_> = of_listeners
        .chain(operator.gateway.live().expiries())
        .collect();
    let (texts, next) = operator.expiries.look(&known, (reports.wall)());
    for text in &texts {
        reports.change("certificates", text);
    }
    if !texts.is_empty() {
        reports.problems.report("certificate", texts.join("; "));
    }
    let home = operator.parts.own.loops().next().clone();
    let weak = Weak::clone(weak);
    // A loop that takes no timers is ending.
    drop(home.schedule_coarse(next, move || look(&weak)));
}

#[cfg(test)]
mod tests {
    //! Certificates at several times.

    use super::*;

    const END: u64 = 20_148 * DAY;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn one(end: u64) -> Vec<(String, Expiry)> {
        let expiry = Expiry {
            at: at(end),
            day: "2025-03-01".to_owned(),
        };
        vec![("listen.a".to_owned(), expiry)]
    }

    #[test]
    fn a_certificate_is_reported_before_its_end_and_after_it() {
        let expiries = Expiries::default();
        let long = expiries.look(&one(END), at(END - 20 * DAY));
        assert_eq!(long, (vec![], LONGEST_LOOK));
        let just_before = expiries.look(&one(END), at(END - 14 * DAY - 10));
        assert_eq!(just_before, (vec![], Duration::from_secs(11)));
        let (soon, _) = expiries.look(&one(END), at(END - 14 * DAY + 1));
        assert_eq!(
            soon,
            ["listen.a: the certificate expires on 2025-03-01, in 13 days"]
        );
        let again = expiries.look(&one(END), at(END - DAY));
        assert_eq!(again, (vec![], LONGEST_LOOK));
        let last = expiries.look(&one(END), at(END - 5));
        assert_eq!(last, (vec![], Duration::from_secs(6)));
        let (late, next) = expiries.look(&one(END), at(END + 1));
        assert_eq!(
            late,
            ["listen.a: the certificate has expired on 2025-03-01"]
        );
        assert_eq!(next, LONGEST_LOOK);
        assert_eq!(expiries.look(&one(END), at(END + DAY)).0, [""; 0]);
    }

    #[test]
    fn a_new_certificate_begins_again() {
        let expiries = Expiries::default();
        assert_eq!(expiries.look(&one(END), at(END - DAY)).0.len(), 1);
        assert_eq!(
            expiries.look(&one(END + 90 * DAY), at(END - DAY)).0.len(),
            0
        );
        let (soon, _) = expiries.look(&one(END + 90 * DAY), at(END + 89 * DAY + 1));
        assert!(soon[0].ends_with("within a day"), "{soon:?}");
        // One that is no longer used is forgotten.
        assert_eq!(expiries.look(&[], at(END)), (vec![], LONGEST_LOOK));
        assert!(lock(&expiries.0).is_empty());
    }
}

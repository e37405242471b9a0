//! One row for each thing that can hold a route back.

use std::time::Duration;

use super::figures::{Counts, Figures};
use super::reports::{ServerReport, UpstreamReport};
use super::sentence::{Around, Level, no_server, sentence, verdict};
use crate::command::Reason;

const SINCE: u64 = 50_531_000;

fn figures(window: Counts) -> Figures {
    Figures {
        key: "catalog".into(),
        window,
        limit: 40,
        in_flight: 12,
        breaker: Some(0),
        timeout: Some(Duration::from_millis(250)),
        ..Figures::default()
    }
}

fn upstream(servers: &[(&str, usize, bool, bool)]) -> UpstreamReport {
    let servers = servers
        .iter()
        .map(|(address, in_flight, up, draining)| ServerReport {
            address: (*address).to_owned(),
            weight: 1,
            in_flight: *in_flight,
            calls: 0,
            is_up: *up,
            is_found: true,
            is_draining: *draining,
        });
    UpstreamReport {
        name: "shop".into(),
        servers: servers.collect(),
    }
}

fn said(figures: &Figures, around: Around<'_>) -> (Level, Option<&'static str>, String) {
    let found = verdict(figures, around.upstream);
    let text = sentence(found, figures, around);
    (found.level, found.reason.map(Reason::word), text)
}

fn since() -> Around<'static> {
    Around {
        since_ms: Some(SINCE),
        ..Around::default()
    }
}

#[test]
fn a_name_that_is_not_found_is_said_apart() {
    let mut shop = upstream(&[("a", 0, false, false), ("b", 0, false, false)]);
    shop.servers[1].is_found = false;
    let says = no_server(Some(&shop), "");
    let expected = "no server of shop takes requests (1 down, 0 drained, 1 not found)";
    assert!(says.ends_with(expected), "{says}");
}

#[test]
fn a_route_without_trouble_says_so() {
    let none = Figures {
        in_flight: 0,
        ..figures(Counts::default())
    };
    assert_eq!(said(&none, since()), (Level::Idle, None, "no calls".into()));
    let ok = figures(Counts {
        ok: 3,
        ..Counts::default()
    });
    let expected = (Level::Ok, None, "nothing holds it back".into());
    assert_eq!(said(&ok, since()), expected);
}

#[test]
fn the_limit_is_named_with_the_server_that_holds_the_requests() {
    let mut full = figures(Counts {
        ok: 88,
        limit: 12,
        ..Counts::default()
    });
    full.in_flight = 40;
    let (level, reason, text) = said(&full, since());
    assert_eq!((level, reason), (Level::Bad, Some("limit")));
    let start = "refusing 12 % since 14:02:11 UTC: the limit is 40 and all 40 are in use";
    assert_eq!(text, start);

    let shop = upstream(&[
        ("10.0.0.1:80", 2, true, false),
        ("10.0.0.2:80", 38, true, false),
    ]);
    let around = Around {
        upstream: Some(&shop),
        moved: Some((60, 40, "slow")),
        ..since()
    };
    full.is_adaptive = true;
    (full.overstaying, full.oldest) = (2, Some(Duration::from_secs(12)));
    let (.., text) = said(&full, around);
    let rest = "; 38 of 40 wait for 10.0.0.2:80; the limit last fell from 60 to 40, slow; \
                2 calls overstay, the oldest for 12.0 s";
    assert_eq!(text, format!("{start}{rest}"));
}

#[test]
fn a_limit_that_is_nearly_reached_is_a_warning() {
    let mut busy = figures(Counts {
        ok: 9,
        ..Counts::default()
    });
    busy.in_flight = 36;
    let (level, reason, text) = said(&busy, Around::default());
    assert_eq!((level, reason), (Level::Busy, Some("limit")));
    assert_eq!(text, "nearly full: 36 of 40 in use");
    (busy.waiting, busy.in_flight) = (7, 40);
    assert_eq!(said(&busy, Around::default()).2, "7 wait: 40 of 40 in use");
}

#[test]
fn each_state_of_the_breaker_has_its_sentence() {
    let window = Counts {
        ok: 20,
        failed: 30,
        breaker: 50,
        ..Counts::default()
    };
    let rows = [
        (
            1,
            0,
            "refusing 50 % since 14:02:11 UTC: the breaker is open, 30 calls of the last seconds failed or timed out",
        ),
        (
            2,
            0,
            "refusing 50 % since 14:02:11 UTC: the breaker probes whether calls work",
        ),
        (
            3,
            0,
            "the breaker lets a rising share of the calls pass since 14:02:11 UTC",
        ),
        (
            0,
            0,
            "refused 50 % until just now: the breaker was open, 30 calls of the last seconds failed or timed out",
        ),
        (
            0,
            1,
            "refusing all requests since 14:02:11 UTC: an operator forces the breaker open",
        ),
    ];
    for (state, forced, text) in rows {
        let mut open = figures(window);
        (open.breaker, open.forced) = (Some(state), forced);
        let (level, reason, said) = said(&open, since());
        // Calls pass again, or a part of them.
        let passes = forced == 0 && matches!(state, 0 | 3);
        let expected = if passes { Level::Busy } else { Level::Bad };
        assert_eq!((level, reason, &*said), (expected, Some("breaker"), text));
    }
    let mut ramps = figures(Counts::default());
    ramps.breaker = Some(3);
    assert_eq!(said(&ramps, since()).0, Level::Busy);
    let mut closed = figures(Counts::default());
    (closed.breaker, closed.forced) = (Some(1), 2);
    let (level, reason, text) = said(&closed, since());
    assert_eq!((level, reason), (Level::Busy, None));
    assert_eq!(text, "an operator forces the breaker closed");
}

#[test]
fn an_upstream_without_servers_is_named() {
    let shop = upstream(&[("a:1", 0, false, false), ("b:1", 0, true, true)]);
    let around = Around {
        upstream: Some(&shop),
        ..since()
    };
    let (level, reason, text) = said(&figures(Counts::default()), around);
    assert_eq!((level, reason), (Level::Bad, Some("no_server")));
    let expected = "refusing all requests since 14:02:11 UTC: \
                    no server of shop takes requests (1 down, 1 drained)";
    assert_eq!(text, expected);
}

#[test]
fn timeouts_failures_and_rates_have_their_share() {
    let counts = |timeout, failed, rate| Counts {
        ok: 90,
        timeout,
        failed,
        rate,
        ..Counts::default()
    };
    let rows = [
        (counts(10, 0, 0), "timeout", "10 % time out after 250 ms"),
        (
            counts(0, 0, 10),
            "rate",
            "refusing 10 %: the rate limit is reached",
        ),
    ];
    for (window, word, text) in rows {
        let (level, reason, said) = said(&figures(window), Around::default());
        assert_eq!((level, reason, &*said), (Level::Bad, Some(word), text));
    }
    let mut failing = figures(counts(0, 10, 0));
    let expected = (Level::Bad, None, "10 % fail".to_owned());
    assert_eq!(said(&failing, Around::default()), expected);
    failing.route.reasons = vec![("no_server", 50), ("connect", 9), ("closed", 2)];
    let expected = (Level::Bad, Some("connect"), "10 % fail: connect".to_owned());
    assert_eq!(said(&failing, Around::default()), expected);
    // A share is never rounded to nothing.
    let rare = Counts {
        ok: 10_000,
        failed: 1,
        ..Counts::default()
    };
    let (level, _, text) = said(&figures(rare), Around::default());
    assert_eq!((level, &*text), (Level::Ok, "less than 1 % fail"));
}

#[test]
fn overstaying_calls_are_named_even_if_nothing_else_is_wrong() {
    let mut held = figures(Counts::default());
    (held.in_flight, held.overstaying) = (1, 1);
    held.oldest = Some(Duration::from_secs(300));
    let (level, _, text) = said(&held, Around::default());
    assert_eq!(
        (level, &*text),
        (Level::Busy, "1 call overstays, the oldest for 5 min")
    );
}

//! The state and the settings of the gateway as JSON.

use std::time::Duration;

use tidegate::isolate::{BreakerState, Isolation};

use super::controls::{Controls, UpstreamReport};
use crate::json::{Object, array, quoted};

/// Returns the state of all routes and servers.
pub(super) fn snapshot(controls: &dyn Controls) -> String {
    Object::new()
        .raw("ready", controls.is_ready())
        .raw("commands", commands(controls.isolation()))
        .raw(
            "upstreams",
            array(controls.upstreams().iter().map(upstream)),
        )
        .end()
}

fn commands(isolation: &Isolation) -> String {
    let commands = isolation.snapshots();
    array(commands.iter().map(|command| {
        let mut window = Object::new();
        for (event, count) in command.window.iter().filter(|(_, count)| *count > 0) {
            window = window.raw(event.name(), count);
        }
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        let latency = &command.latencies.total;
        Object::new()
            .text("key", command.key.as_str())
            .text("group", command.group.as_str())
            .text("breaker", breaker(command.breaker))
            .raw("is_open", command.is_open)
            .raw("active", command.active)
            .raw("waiting", command.waiting)
            .raw("limit", command.limit)
            .optional("adaptive_limit", command.adaptive_limit)
            .raw("error_percent", command.window.error_percent())
            .raw("window", window.end())
            .raw("p50_ms", millis(latency.percentile(50.0)))
            .raw("p99_ms", millis(latency.percentile(99.0)))
            .end()
    }))
}

fn breaker(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open",
        BreakerState::HalfOpen => "half_open",
        BreakerState::Ramping => "ramping",
        _ => "unknown",
    }
}

fn upstream(upstream: &UpstreamReport) -> String {
    let servers = upstream.servers.iter().map(|server| {
        Object::new()
            .text("address", &server.address)
            .raw("weight", server.weight)
            .raw("in_flight", server.in_flight)
            .raw("up", server.is_up)
            .raw("draining", server.is_draining)
            .end()
    });
    Object::new()
        .text("name", &upstream.name)
        .raw("servers", array(servers))
        .end()
}

/// Returns every setting in force of every command, with its origin.
pub(super) fn settings(isolation: &Isolation) -> String {
    let all = isolation.settings();
    array(all.iter().map(|command| {
        let values = command.values.iter().map(|setting| {
            Object::new()
                .text("name", setting.name)
                .optional("property", setting.property.as_deref().map(quoted))
                .text("value", &setting.value)
                .text("origin", &setting.origin.to_string())
                .end()
        });
        Object::new()
            .text("command", command.command.as_str())
            .raw("values", array(values))
            .end()
    }))
}

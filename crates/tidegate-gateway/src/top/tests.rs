//! Tests of the table.

use super::table::lines;

const SNAPSHOT: &str = r#"{ "version": 1, "epoch": "a", "sample": 3, "ready": true,
 "schema": { "series": [ {"name":"new"}, {"name":"rate"}, {"name":"error_percent"},
   {"name":"refused_limit"}, {"name":"refused_breaker"}, {"name":"in_flight"}, {"name":"limit"},
   {"name":"waiting"}, {"name":"breaker"}, {"name":"p50_ms"}, {"name":"p99_ms"} ] },
 "routes": [ {"key":"catalog\u001b[2J","says":"refusing 12 %: the limit is 40","values":[7,399.6,12,3,2,40,40,5,1,0.41,251.2]},
             {"key":"b\u202e","values":[7,null]} ],
 "upstreams": [ {"name":"u","servers":[ {"address":"10.0.0.1:80","in_flight":4,"share":0.5,"up":true,"draining":false},
                                        {"address":"10.0.0.2:80","in_flight":0,"share":null,"up":false,"draining":false},
                                        {"address":"a:80","in_flight":0,"share":null,"up":false,"draining":false,"found":false} ]} ],
 "loops": [ {"name":"gateway-0","busy":0.25,"late_max_ms":1.5,"longest_ms":12,"longest_task":"read","stalls":2} ] }"#;

#[test]
fn a_snapshot_is_a_table_of_routes_servers_and_loops() {
    let lines = lines(SNAPSHOT).unwrap();
    assert_eq!(
        lines,
        [
            "ready; routes: 2, upstreams: 1",
            "",
            "route        req/s  errors  refused  p50     p99     limit  waiting  breaker",
            "catalog?[2J  400    12 %    5        0.4 ms  251 ms  40/40  5        open     refusing 12 %: the limit is 40",
            "b?           -      - %     0        -       -       -/-    -        -",
            "",
            "upstream  server       in flight  share  state",
            "u         10.0.0.1:80  4          50 %   up",
            "u         10.0.0.2:80  0          -      down",
            "u         a:80         0          -      not found",
            "",
            "loop       busy  late (max)  longest task  stalls",
            "gateway-0  25 %  1.5 ms      12 ms read    2",
        ]
    );
}

#[test]
fn another_version_is_a_sentence() {
    for text in ["", "{}", "[1", r#"{"version":2}"#, "<html>"] {
        assert!(
            lines(text)
                .unwrap_err()
                .contains("not a snapshot of this version"),
            "{text}"
        );
    }
}

//! The mistakes of listeners that `tidegate check` finds.

use crate::files::{cases, check, fails};
use crate::mistakes::GOOD;

#[test]
fn the_admin_listener_needs_a_token_on_other_addresses() {
    let text = GOOD.replace("[upstream.a]", "admin = \"0.0.0.0:9090\"\n[upstream.a]");
    let message = "t.toml:3:9: listen.admin.at: other machines can reach";
    fails(&text, [message]);
    let local = text.replace("0.0.0.0:9090", "127.0.0.1:9090");
    assert_eq!(check(&local).1, 0);
}

#[test]
fn the_proxy_protocol_needs_peers_and_tls_needs_certificates() {
    let listener = "http = { at = \"0.0.0.0:80\", proxy_protocol = true, tls = {} }";
    let text = GOOD.replace("http = \"127.0.0.1:8080\"", listener);
    let parts = [
        "listen.http.proxy_protocol: no peer may send",
        "listen.http.tls.certificates: there is none",
    ];
    fails(&text, parts);
}

#[test]
fn listeners_have_addresses_of_their_own_and_limits_that_the_server_has() {
    let rows = r#"
other = "127.0.0.1:8080"
> t.toml:3:9: listen.other.at: the address is that of `listen.http`

admin = "127.0.0.1:8080"
> t.toml:3:9: listen.admin.at: the address is that of `listen.http`

b = { at = "h:1", limits = { fields = 101 } }
> listen.b.limits.fields: no head has so many fields

b = { at = "h:1", proxy_protocol = true, trust = ["10.0.0.0/8"], limits = { connections_per_client = 9 } }
> listen.b.limits.connections_per_client: the connections of all clients come from the

b = { at = "h:1", limits = { memory = "0B" } }
> listen.b.limits.memory: no response could be sent

b = { at = "h:1", limits = { head = "64KiB" } }
> expected 1B to 65535B

b = { at = "h:1", limits = { idle = "0s" } }
> listen.b.limits.idle: nothing happens in no time

b = { at = "h:1", tls = { certificates = [{ cert = "c", key = "k" }], client = "required" } }
> listen.b.tls.client: no certificate of a client can be checked
"#;
    for (line, said) in cases(rows) {
        fails(
            &GOOD.replace("[upstream.a]", &format!("{line}[upstream.a]")),
            said,
        );
    }
    let free = GOOD.replace("8080\"", "0\"\nother = \"127.0.0.1:0\"");
    assert_eq!(check(&free).1, 0);
}

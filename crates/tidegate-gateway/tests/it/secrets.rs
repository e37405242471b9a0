//! No output contains a secret or a text from a variable.

use std::path::Path;

use tidegate_gateway::config::load;

use tidegate_testkit::{has, lacks};

use crate::files::{check, fails, machine, run, says};

/// What must not be printed. The variable `TOKEN` has the same value.
const MARKER: &str = "marker";

const FILE: &str = "\
[listen]
http = \"h:80\"
admin = { at = \"127.0.0.1:9090\", token = \"${TOKEN}\", read_token = \"file:/run/read\" }
[upstream.a]
servers = \"h:1\"
[route.a]
upstream = \"a\"
rewrite = { request = { authorization = \"Bearer ${TOKEN}\" } }
[route.b]
path = \"/${TOKEN}\"
upstream = \"a\"
host = \"${TOKEN}.example\"
header = { x-beta = \"${TOKEN}\" }
rewrite = { request = { authorization = \"literal-marker\", x-a = \"${TOKEN}\" }, response = { set-cookie = \"a=marker\" } }
";

#[test]
fn a_configuration_that_is_printed_shows_no_secret() {
    let machine = machine(&[("t.toml", FILE)]);
    let loaded = load(Path::new("t.toml"), &*machine.disk, &*machine.variables).unwrap();
    let config = loaded.config.as_ref().expect("the file has no mistake");
    assert!(config.admin.as_ref().unwrap().value.token.is_some());
    assert!(config.routes[1].value.header["x-beta"] == MARKER);
    let printed = [
        format!("{loaded:?}"),
        format!("{config:?}"),
        format!("{:?}", config.admin),
        format!("{:?}", config.routes),
        format!("{:?}", config.routes[0].value.rewrite),
        format!("{:?}", config.upstreams),
        format!("{:?}", config.table),
        format!("{:?}", config.table.rules()),
        format!("{:?}", config.origins),
        format!("{:?}", loaded.sources),
    ];
    for text in printed {
        lacks(&text, [MARKER]);
    }
    let requests: [&[&str]; 2] = [
        &["GET", "/"],
        &[
            "GET",
            "http://marker.example/marker",
            "-H",
            "x-beta: marker",
        ],
    ];
    for request in requests {
        let mut arguments = vec!["explain", "t.toml"];
        arguments.extend(request);
        let found = run(&[("t.toml", FILE)], &arguments);
        lacks(says(request[1], found, 0, ["authorization"]), [MARKER]);
    }
}

#[test]
fn a_mistake_shows_no_secret() {
    let rows = [
        "[listen]\nadmin = { at = \"127.0.0.1:1\", token = \"marker\", x = 1 }\n",
        "[listen]\nadmin = { at = \"127.0.0.1:1\", token = [\"marker\"], x = 1 }\n",
        "[listen.admin]\nat = \"127.0.0.1:1\"\ntoken = \"marker\n",
        "[route.a]\nrewrite = { request = { cookie = \"marker\", x = 1 } }\n",
        "[route.a]\nrewrite = { request = { authorization = \"marker\\n\" } }\n",
        "[route.a]\nrewrite.request.authorization = \"marker\n",
        "[route.a]\nredirect = \"/{${TOKEN}}\"\n",
        "[route.a]\ntimeout = \"${TOKEN}\"\nrespond = 200\n",
        "[route.a]\nupstream = \"${TOKEN}\"\n",
        "[route.a]\nrespond = 200\nlimit = { kind = \"${TOKEN}\" }\n",
        "[route.a]\nrespond = 200\npath = \"/${TOKEN}/../x\"\n",
        "include = \"${TOKEN}.toml\"\n",
        "include = \"parts/${TOKEN}*.toml\"\n",
        "[listen.s]\nat = \"h:1\"\ntls = { certificates = [{ cert = \"/d/${TOKEN}.pem\", key = \"/d/k\" }] }\n[route.a]\nrespond = 200\n",
        "[listen.s]\nat = \"h:1\"\ntls = { client = \"required\", client_roots = \"/d/${TOKEN}.pem\" }\n[route.a]\nrespond = 200\n",
        "[listen]\na = \"h:1\"\n[route.a]\nupstream = \"a\"\n[upstream.a]\nservers = \"h:2\"\ntls = { roots = \"/d/${TOKEN}.pem\" }\n",
        "[listen]\na = \"h:1\"\nadmin = { at = \"127.0.0.1:1\", token = \"file:/d/${TOKEN}\" }\n[route.a]\nrespond = 200\n",
        "[route.${TOKEN}]\nrespond = 200\n",
    ];
    for text in rows {
        let (output, status) = check(text);
        assert!(!output.contains(MARKER), "{text}\n{output}");
        assert_eq!(status, 1, "{text}\n{output}");
    }
}

/// The key is unknown or misplaced, or the syntax is wrong: what it names is a secret all the same.
#[test]
fn a_secret_with_a_wrong_key_is_not_shown() {
    let admin = "[listen.admin]\nat = \"127.0.0.1:1\"\n";
    let rows = [
        "[route.a]\nrewrit = { request = { authorization = \"Bearer marker\" } }\n".to_owned(),
        "[route.a]\nrewrite = { requst = { authorization = \"Bearer marker\" } }\n".to_owned(),
        "[route.a]\nrewrite = { request = \"authorization: marker\" }\n".to_owned(),
        "[route.a]\nheader = { x-pasword = [\"marker\"] }\n".to_owned(),
        "[listen.admn]\nat = \"127.0.0.1:1\"\ntoken = \"marker\"\n".to_owned(),
        "[listn.admin]\ntoken = \"marker\"\nb = \"x\n".to_owned(),
        "[listen]\ntoken = \"marker\"\n".to_owned(),
        "[route]\ntoken = \"marker\"\n".to_owned(),
        "[listen.admin.token]\nvalue = [{ b = \"marker\" }]\n".to_owned(),
        "[log]\nlisten.admin.token = \"marker\"\n".to_owned(),
        "token = { a = \"marker\", a = 1 }\n".to_owned(),
        format!("{admin}tokens = \"marker\"\n"),
        format!("{admin}read-token = \"marker\"\n"),
        format!("{admin}tokn = \"marker\"\n"),
        format!("{admin}pasword = \"marker\"\n"),
        format!("{admin}token : \"marker\"\n"),
        format!("{admin}token \"marker\"\n"),
        format!("{admin}token = marker\n"),
        format!("{admin}token = \"${{marker is}}\"\n"),
        format!("{admin}token = \"\"\"\nmarker\n"),
        format!("{admin}token\n= \"marker\"\n"),
        format!("{admin}token = \"marker\"\ntoken = \"marker\"\n"),
        format!("{admin}tok en\ntoken = \"marker\"\n"),
        format!("{admin}broken =\ntoken = \"marker\"\n"),
        format!("{admin}\"broken\ntoken = \"marker\"\n"),
        format!("{admin}a = [\ntoken = \"marker\"\n"),
    ];
    for text in rows {
        for command in [&["check", "t.toml"][..], &["explain", "t.toml", "GET", "/"]] {
            let (output, status) = run(&[("t.toml", &text)], command);
            assert!(!output.contains(MARKER), "{text}\n{output}");
            assert_eq!(status, 1, "{text}\n{output}");
        }
    }
}

/// Names that users choose are no names of secrets.
#[test]
fn the_settings_of_a_route_with_the_name_of_a_secret_are_shown() {
    let text = "[listen]\nhttp = \"h:1\"\n[route.token]\nrespond = 200\ntimeout = \"soon\"\n";
    let (output, _) = check(text);
    has(
        &output,
        ["`soon` is not a duration", "5 | timeout = \"soon\""],
    );
}

/// A secret in the file itself is a mistake, and the only one here.
#[test]
fn a_literal_token_is_refused_and_not_shown() {
    for setting in ["token", "read_token"] {
        let literal = format!(
            "[listen]\nhttp = \"h:80\"\n[listen.admin]\nat = \"127.0.0.1:1\"\n{setting} = \"marker\"\n\
             [route.a]\nrespond = 200\n"
        );
        let expected = "expected a secret from a variable or a file, such as `\"${TOKEN}\"` or \
                        `\"file:/run/token\"`";
        let output = fails(&literal, [expected, "t.toml:5:", "1 error, 0 warnings"]);
        lacks(output, [MARKER]);
        let good = literal.replace("\"marker\"", "\"${TOKEN}\"");
        says(setting, check(&good), 0, [""]);
    }
}

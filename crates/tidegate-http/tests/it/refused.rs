//! One row for each shape that is refused. A valid request follows each refused message: it is never
//! parsed.

use tidegate_http::codec::RefusalReason as Refuse;

use crate::events::{Event, requests, split_everywhere};

/// A request that must not be seen.
const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Checks that `message` is refused for `reason` and that nothing after it is parsed. `heads` is the
/// number of heads before the refusal.
#[track_caller]
fn refused_after(heads: usize, message: &[u8], reason: Refuse) {
    let input = [message, SMUGGLED].concat();
    let events = split_everywhere(&input, |pieces| requests(pieces.iter().copied()));
    let text = message.escape_ascii();
    assert_eq!(events.last(), Some(&Event::Refused(reason)), "{text}");
    let seen = events
        .iter()
        .filter(|event| matches!(event, Event::Head(..)));
    assert_eq!(seen.count(), heads, "{text}: {events:?}");
}

#[track_caller]
fn refused(message: impl AsRef<[u8]>, reason: Refuse) {
    refused_after(0, message.as_ref(), reason);
}

/// A request with these lines after a valid `Host`.
#[track_caller]
fn refused_fields(lines: impl AsRef<[u8]>, reason: Refuse) {
    let message = [b"POST / HTTP/1.1\r\nHost: a\r\n", lines.as_ref(), b"\r\n"].concat();
    refused(message, reason);
}

/// A request with this host and without anything else.
#[track_caller]
fn refused_host(host: impl AsRef<[u8]>, reason: Refuse) {
    let message = [b"GET / HTTP/1.1\r\nHost: ", host.as_ref(), b"\r\n\r\n"].concat();
    refused(message, reason);
}

/// A request line with a `Host`.
#[track_caller]
fn refused_line(line: impl AsRef<[u8]>, reason: Refuse) {
    refused([line.as_ref(), b"\r\nHost: a\r\n\r\n"].concat(), reason);
}

/// A chunked request with this body.
#[track_caller]
fn refused_chunks(body: impl AsRef<[u8]>, reason: Refuse) {
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    refused_after(1, &[head, body.as_ref()].concat(), reason);
}

#[test]
fn what_httparse_accepts_and_we_do_not() {
    refused("GET / HTTP/1.1\nHost: a\n\n", Refuse::BareLf);
    refused("GET / HTTP/1.1\r\nHost: a\n\r\n", Refuse::BareLf);
    refused("GET / HTTP/1.1\nHost: a\r\n\r\n", Refuse::BareLf);
    refused_line("\r\n\r\nGET / HTTP/1.1", Refuse::EmptyLine);
    refused_line("\r\n\nGET / HTTP/1.1", Refuse::EmptyLine);
    refused_line("\rGET / HTTP/1.1", Refuse::EmptyLine);
    refused_line("\r\r\nGET / HTTP/1.1", Refuse::EmptyLine);
    refused_line("\r\n GET / HTTP/1.1", Refuse::Method);
    refused_line("\nGET / HTTP/1.1", Refuse::EmptyLine);
    refused_line(b"GET /\x80 HTTP/1.1", Refuse::Target);
    refused_line(b"GET /\xc3\xa4 HTTP/1.1", Refuse::Target);
    refused_line(b"GET /?\xc3\xa4 HTTP/1.1", Refuse::Target);
    for target in [
        "/\"", "/<", "/>", "/#", "/\\", "/`", "/?\"", "/?<", "/?>", "/?#",
    ] {
        let message = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        refused(message, Refuse::Target);
    }
    for target in ["http://a|b/", "http://a\\@b/", "http://{a}?x"] {
        let message = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        refused(message, Refuse::Target);
    }
}

#[test]
fn start_lines() {
    refused_line("GET", Refuse::RequestLine);
    refused_line("GET /", Refuse::RequestLine);
    refused_line("GET  / HTTP/1.1", Refuse::RequestLine);
    refused_line("GET /  HTTP/1.1", Refuse::RequestLine);
    refused_line("GET / HTTP/1.1 ", Refuse::RequestLine);
    refused_line("GET / x HTTP/1.1", Refuse::RequestLine);
    refused_line("GET / ", Refuse::RequestLine);
    refused_line("GET\t/ HTTP/1.1", Refuse::Method);
    refused_line("GET /\tHTTP/1.1", Refuse::Target);
    refused_line(" GET / HTTP/1.1", Refuse::Method);
    refused_line("G(T / HTTP/1.1", Refuse::Method);
    refused_line(b"G\x80T / HTTP/1.1", Refuse::Method);
    refused_line(b"G\0T / HTTP/1.1", Refuse::Method);
    refused(b"\x16\x03\x01\x02\x00", Refuse::Method);
    refused_line("GET a HTTP/1.1", Refuse::Target);
    refused_line("GET * HTTP/1.1", Refuse::Target);
    refused_line("GET ?x HTTP/1.1", Refuse::Target);
    refused_line("CONNECT / HTTP/1.1", Refuse::Target);
    refused_line("CONNECT a HTTP/1.1", Refuse::Target);
    refused_line("GET ftp://a/ HTTP/1.1", Refuse::Target);
    refused_line("GET http://u@a/ HTTP/1.1", Refuse::Target);
    refused_line(b"GET /\0 HTTP/1.1", Refuse::ControlByte);
    refused_line(b"GET /\x7f HTTP/1.1", Refuse::ControlByte);
    refused_line("GET /\r HTTP/1.1", Refuse::BareCr);
    refused_line("GET / HTTP/1.1\r", Refuse::BareCr);
    refused_line(b"GET / HTTP/1.1\0", Refuse::ControlByte);
}

#[test]
fn versions() {
    for version in [
        "HTTP/1.10",
        "HTTP/1.01",
        "HTTP/01.1",
        "HTTP/11.1",
        "HTTP/1",
        "HTTP/1.",
        "HTTP/.1",
        "HTTP/1,1",
        "http/1.1",
        "HTTP 1.1",
        "HTTPS/1.1",
        "HTTP/1.1x",
        "HTTP/1.x",
        "HTTP/-1.1",
        "ICY",
        "HTTP/1.1\t",
    ] {
        let reason = if version.contains(' ') {
            Refuse::RequestLine
        } else {
            Refuse::Version
        };
        refused(format!("GET / {version}\r\nHost: a\r\n\r\n"), reason);
    }
    for version in [
        "HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3.0", "HTTP/9.9", "HTTP/0.0",
    ] {
        refused_line(format!("GET / {version}"), Refuse::VersionNotSupported);
    }
    // The start of a connection of HTTP/2.
    refused(
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        Refuse::VersionNotSupported,
    );
}

#[test]
fn content_lengths() {
    for other in ["Content-Length: 5", "content-length: 6"] {
        let lines = format!("Content-Length: 5\r\n{other}\r\n");
        refused_fields(lines, Refuse::ContentLengthRepeated);
    }
    for value in [
        "",
        " ",
        "5, 5",
        "5,5",
        "5,",
        ",5",
        "+5",
        "-5",
        "-0",
        "0x5",
        "5h",
        "05",
        "00",
        "5 5",
        "5.0",
        "5e1",
        "1_0",
        "\"5\"",
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999999",
        "\u{665}",
        "5;x",
        "NaN",
    ] {
        let line = format!("Content-Length: {value}\r\n");
        refused_fields(line, Refuse::ContentLengthInvalid);
    }
    refused_fields(b"Content-Length: 5\x0b\r\n", Refuse::ControlByte);
    refused_fields(b"Content-Length: \xa05\r\n", Refuse::ContentLengthInvalid);
}

#[test]
fn a_length_together_with_a_coding() {
    let (length, coding) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
    let other = "Content-Length: 0\r\nTransfer-Encoding: gzip\r\n";
    for lines in [
        &(length.to_owned() + coding),
        &(coding.to_owned() + length),
        other,
    ] {
        refused_fields(lines, Refuse::LengthWithCoding);
    }
}

#[test]
fn transfer_encodings() {
    let twice = b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    refused_fields(twice, Refuse::TransferEncodingRepeated);
    let other = b"Transfer-Encoding: chunked\r\nTransfer-encoding: identity\r\n";
    refused_fields(other, Refuse::TransferEncodingRepeated);
    let rows: [(&[u8], _); 19] = [
        (b"gzip", Refuse::NotChunked),
        (b"identity", Refuse::NotChunked),
        (b"chunked, gzip", Refuse::NotChunked),
        (b"chunked, identity", Refuse::NotChunked),
        (b"xchunked", Refuse::NotChunked),
        (b"chunke", Refuse::NotChunked),
        (b",chunked", Refuse::TransferEncodingInvalid),
        (b"chunked,", Refuse::TransferEncodingInvalid),
        (b", chunked", Refuse::TransferEncodingInvalid),
        (b"chunked, chunked", Refuse::TransferEncodingInvalid),
        (b"", Refuse::TransferEncodingInvalid),
        (b"\x80chunked", Refuse::TransferEncodingInvalid),
        (b"chunked\xa0", Refuse::TransferEncodingInvalid),
        (b"\xc2\xa0chunked", Refuse::TransferEncodingInvalid),
        (b"chunked;a=b", Refuse::TransferEncodingInvalid),
        (b"\"chunked\"", Refuse::TransferEncodingInvalid),
        (b"chunked chunked", Refuse::TransferEncodingInvalid),
        (b"gzip, chunked", Refuse::UnknownCoding),
        (b"identity, chunked", Refuse::UnknownCoding),
    ];
    for (value, reason) in rows {
        refused_fields([b"Transfer-Encoding: ", value, b"\r\n"].concat(), reason);
    }
    refused_fields(b"Transfer-Encoding: \x0bchunked\r\n", Refuse::ControlByte);
    refused_fields(b"Transfer-Encoding: chunked\0\r\n", Refuse::ControlByte);
    refused_fields(b"Transfer-Encoding : chunked\r\n", Refuse::SpaceBeforeColon);
    refused_fields(b"Transfer-Encoding\r\n : chunked\r\n", Refuse::MissingColon);
    refused_fields(b"Transfer-Encoding:\r\n chunked\r\n", Refuse::FoldedLine);
    let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    refused(old, Refuse::CodingInHttp10);
    for framing in ["Transfer-Encoding: chunked", "Content-Length: 5"] {
        let message = format!("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
        refused(message, Refuse::ConnectWithBody);
    }
}

#[test]
fn chunk_sizes() {
    for size in [
        "", "+5", "-5", "0x5", "_5", " 5", "\t5", "5_0", "x", "5g", "5 ", "5\t", "5 ;a", "5,5",
        "5.", "5h", "\u{665}", "\"5\"", "5\0", "\0",
    ] {
        refused_chunks(format!("{size}\r\nhello\r\n0\r\n\r\n"), Refuse::ChunkSize);
    }
    for size in [
        "00000000000000005",
        "10000000000000000",
        "8000000000000000",
        "ffffffffffffffff",
    ] {
        let body = format!("{size}\r\nhello\r\n0\r\n\r\n");
        refused_chunks(body, Refuse::ChunkSizeTooLong);
    }
    refused_chunks(b"5\nhello\r\n0\r\n\r\n", Refuse::BareLf);
    refused_chunks(b"5\rXhello\r\n0\r\n\r\n", Refuse::BareCr);
    refused_chunks(b"5\r\rhello\r\n0\r\n\r\n", Refuse::BareCr);
    refused_chunks(b"0\n\n", Refuse::BareLf);
    refused_chunks(b"0\rX\r\n", Refuse::BareCr);
}

#[test]
fn chunk_extensions() {
    refused_chunks(b"5;a\nhello\r\n0\r\n\r\n", Refuse::BareLf);
    refused_chunks(b"5;a\rb\r\nhello\r\n0\r\n\r\n", Refuse::BareCr);
    refused_chunks(b"5;a\0\r\nhello\r\n0\r\n\r\n", Refuse::ChunkExtension);
    refused_chunks(b"5;a\x7f\r\nhello\r\n0\r\n\r\n", Refuse::ChunkExtension);
    refused_chunks(b"5;a=\"\nb\"\r\nhello\r\n0\r\n\r\n", Refuse::BareLf);
    refused_chunks(b"0;\n\r\n", Refuse::BareLf);
}

#[test]
fn chunk_ends() {
    refused_chunks(b"5\r\nhelloX\r\n0\r\n\r\n", Refuse::ChunkEnd);
    refused_chunks(b"5\r\nhello\n0\r\n\r\n", Refuse::ChunkEnd);
    refused_chunks(b"5\r\nhello\rX0\r\n\r\n", Refuse::ChunkEnd);
    refused_chunks(b"5\r\nhello0\r\n\r\n", Refuse::ChunkEnd);
    refused_chunks(b"5\r\nhello!\r\n0\r\n\r\n", Refuse::ChunkEnd);
    refused_chunks(b"6\r\nhello\r\n0\r\n\r\n", Refuse::ChunkEnd);
    refused_chunks(b"0\r\n\n", Refuse::BareLf);
    refused_chunks(b"0\r\n\rX", Refuse::BareCr);
}

#[test]
fn trailers() {
    for name in [
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Trailer",
        "TE",
        "Upgrade",
        "Expect",
        "Content-Encoding",
        "Content-Type",
        "content-range",
        "Keep-Alive",
        "Proxy-Connection",
    ] {
        refused_chunks(
            format!("0\r\nA: 1\r\n{name}: 5\r\n\r\n"),
            Refuse::ForbiddenTrailer,
        );
    }
    refused_chunks(b"0\r\nA: 1\nB: 2\r\n\r\n", Refuse::BareLf);
    refused_chunks(b"0\r\nA: 1\rB: 2\r\n\r\n", Refuse::BareCr);
    refused_chunks(b"0\r\nA: \0\r\n\r\n", Refuse::ControlByte);
    refused_chunks(b"0\r\nA\0: 1\r\n\r\n", Refuse::ControlByte);
    refused_chunks(b"0\r\nA : 1\r\n\r\n", Refuse::SpaceBeforeColon);
    refused_chunks(b"0\r\n: 1\r\n\r\n", Refuse::EmptyName);
    refused_chunks(b"0\r\n A: 1\r\n\r\n", Refuse::FoldedLine);
    refused_chunks(b"0\r\nA: 1\r\n B\r\n\r\n", Refuse::FoldedLine);
    refused_chunks(b"0\r\nA\r\n\r\n", Refuse::MissingColon);
    refused_chunks(b"0\r\nA(: 1\r\n\r\n", Refuse::FieldName);
    // The next request instead of the empty line.
    refused_chunks(b"0\r\n", Refuse::MissingColon);
}

#[test]
fn field_lines() {
    refused_fields(b"X: a\rb\r\n", Refuse::BareCr);
    refused_fields(b"X: a\nb\r\n", Refuse::BareLf);
    refused_fields(b"X: a\0b\r\n", Refuse::ControlByte);
    refused_fields(b"X: a\x01\r\n", Refuse::ControlByte);
    refused_fields(b"X: a\x7f\r\n", Refuse::ControlByte);
    refused_fields(b"X: a\r\r\n", Refuse::BareCr);
    refused_fields(b"X\r: a\r\n", Refuse::BareCr);
    refused_fields(b"X\n: a\r\n", Refuse::BareLf);
    refused_fields(b"X\0: a\r\n", Refuse::ControlByte);
    refused_fields(b"X : a\r\n", Refuse::SpaceBeforeColon);
    refused_fields(b"X\t: a\r\n", Refuse::SpaceBeforeColon);
    refused_fields(b": a\r\n", Refuse::EmptyName);
    refused_fields(b":\r\n", Refuse::EmptyName);
    refused_fields(b"X\r\n", Refuse::MissingColon);
    refused_fields(b"X y\r\n", Refuse::MissingColon);
    refused_fields(b"X: a\r\n b\r\n", Refuse::FoldedLine);
    refused_fields(b"X: a\r\n\tb\r\n", Refuse::FoldedLine);
    refused_fields(b"X: a\r\n : b\r\n", Refuse::FoldedLine);
    refused("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Refuse::FoldedLine);
    refused_fields(b"X Y: a\r\n", Refuse::FieldName);
    for byte in b"\"(),/;<=>?@[\\]{}\x80\xff" {
        refused_fields([b"X", &[*byte][..], b": a\r\n"].concat(), Refuse::FieldName);
        refused_fields([&[*byte][..], b"X: a\r\n"].concat(), Refuse::FieldName);
    }
}

#[test]
fn hosts() {
    refused("GET / HTTP/1.1\r\n\r\n", Refuse::HostMissing);
    refused("GET / HTTP/1.1\r\nX: a\r\n\r\n", Refuse::HostMissing);
    refused("GET http://a/ HTTP/1.1\r\n\r\n", Refuse::HostMissing);
    refused_host("a\r\nHost: a", Refuse::HostRepeated);
    refused_host("a\r\nhOST: b", Refuse::HostRepeated);
    refused(
        "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
        Refuse::HostRepeated,
    );
    for host in [
        "", "u@a", "u:p@a", "a/b", "a/", "/a", "a?b", "a#b", "a b", "a,b", "a, b", "http://a",
        "a:", "a:b", "a:99999", ":80", "[::1", "::1", "a\tb", "a\\b", "a%2fb", "\u{e4}",
    ] {
        refused_host(host, Refuse::HostInvalid);
    }
    refused_host(b"a\x01", Refuse::ControlByte);
    refused_host(b"a\0b", Refuse::ControlByte);
    for (line, host) in [
        ("GET http://a/", "b"),
        ("GET http://a/", "a:81"),
        ("GET http://a:81/", "a"),
        ("GET https://a/", "a:80"),
        ("GET http://a:443/", "a"),
        ("GET http://[::1]/", "[::2]"),
        ("CONNECT a:443", "b:443"),
        ("CONNECT a:443", "a:80"),
    ] {
        let message = format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        refused(message, Refuse::HostMismatch);
    }
}

#[test]
fn connection_and_expect() {
    refused_fields(b"Connection: a b\r\n", Refuse::ConnectionInvalid);
    let long = format!("Connection: {}\r\n", "a,".repeat(129));
    refused_fields(long, Refuse::ConnectionInvalid);
    let many = format!("Connection: {}\r\n", "a,".repeat(43)).repeat(3);
    refused_fields(many, Refuse::ConnectionInvalid);
    refused_fields(b"Connection: close\xa0\r\n", Refuse::ConnectionInvalid);
    refused_fields(
        b"Connection: close\r\nConnection: (\r\n",
        Refuse::ConnectionInvalid,
    );
    refused_fields(b"Expect: 200-ok\r\n", Refuse::ExpectationFailed);
    refused_fields(b"Expect:\r\n", Refuse::ExpectationFailed);
    refused_fields(b"Expect: 100-continue, x\r\n", Refuse::ExpectationFailed);
    let twice = b"Expect: 100-continue\r\nExpect: 100-continue\r\n";
    refused_fields(twice, Refuse::ExpectationFailed);
}

#[test]
fn the_end_of_the_input_inside_a_message() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\n";
    for rest in [
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: 1\r\n\r\n",
        "Content-Length: 5\r\n\r\nhello",
    ] {
        let whole = format!("{post}{rest}");
        for end in 1..whole.len() {
            let events = requests([&whole.as_bytes()[..end]]);
            let refused = Event::Refused(Refuse::UnexpectedEnd);
            assert_eq!(events.last(), Some(&refused), "{end}");
        }
        assert_eq!(requests([whole.as_bytes()]).last(), Some(&Event::End));
    }
}

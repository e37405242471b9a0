//! Decodes requests from standard input and prints what they say, so that `compare_h11.py` can compare it
//! with another parser.
//!
//! The input is a sequence of connections: a length of four bytes, big-endian, and so many bytes.
//! The output has a line for each event of the first request of a connection, and a line with a
//! dot. Texts are hexadecimal.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};

use tidegate_http::codec::{
    BodyEvent, BodyLimits, HeadLimits, HeadTable, RefusalReason, RequestDecoder, Trailers,
};

fn main() -> io::Result<()> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    let mut rest = &input[..];
    let mut out = io::BufWriter::new(io::stdout().lock());
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((connection, after)) = after.split_at_checked(length) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let mut lines = String::new();
        if let Err(reason) = decode(connection, &mut lines) {
            lines.push_str(&format!("refused {}\n", reason.word()));
        }
        writeln!(out, "{lines}.")?;
        rest = after;
    }
    out.flush()
}

/// Adds the events of the first request to `lines`.
fn decode(mut input: &[u8], lines: &mut String) -> Result<(), RefusalReason> {
    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let Some(head) = decoder.head(input, &mut table)? else {
        return decoder.end_of_input();
    };
    let (method, target) = (head.method().as_str(), head.target());
    let line = format!("head {} {} {}\n", hex(method), hex(target), head.version());
    lines.push_str(&line);
    for field in head.fields().iter() {
        lines.push_str(&format!("field {} {}\n", hex(field.name), hex(field.value)));
    }
    input = &input[head.len()..];
    let mut data = Vec::new();
    loop {
        let step = decoder.body(input)?;
        match step.event {
            BodyEvent::Data(range) => data.extend_from_slice(&input[range]),
            BodyEvent::Trailers(range) => {
                for field in Trailers::new(&input[range]) {
                    lines.push_str(&format!(
                        "trailer {} {}\n",
                        hex(field.name),
                        hex(field.value)
                    ));
                }
            }
            BodyEvent::More => return decoder.end_of_input(),
            BodyEvent::End => break,
        }
        input = &input[step.consumed..];
    }
    lines.push_str(&format!("body {}\n", hex(data)));
    Ok(())
}

/// Returns `text` in hexadecimal digits, or a hyphen if it is empty.
fn hex(text: impl AsRef<[u8]>) -> String {
    let digits: String = text
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    match digits.is_empty() {
        true => "-".to_string(),
        false => digits,
    }
}

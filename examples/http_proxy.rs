//! A small reverse proxy: `http_proxy UPSTREAM [ADDRESS]`, for example
//! `http_proxy http://127.0.0.1:8080 0.0.0.0:80`. Bodies stream in both directions, and each side is
//! read only as fast as the other one takes. Without arguments it shows one request.

use tidegate::http::client::{Client, RequestBuilder};
use tidegate::http::{Body, DeferredResponse};
use tidegate::signal;

/// Returns `true` for fields that neither the client nor the server sets by itself.
fn passes(name: &str) -> bool {
    let own = ["content-length", "date", "expect", "host", "trailer"];
    let is_own = |own: &&str| name.eq_ignore_ascii_case(own);
    !own.iter().any(is_own) && !name.eq_ignore_ascii_case("transfer-encoding")
}

/// Sends a request on, and its response back. Returns `None` if one side leaves: dropping the
/// streams then ends the call, and resets the connection of a client that has got a part.
async fn forward(
    request: RequestBuilder,
    length: Option<u64>,
    mut body: Body,
    back: DeferredResponse,
) -> Option<()> {
    let response = match length {
        Some(0) => request.send(),
        length => {
            let (mut out, response) = request.send_stream(length);
            while let Some(piece) = body.next().await {
                if !matches!(out.write(piece.ok()?).await, Ok(true)) {
                    break; // the server has responded already
                }
            }
            let _ = out.finish().await; // if a part is missing, the call fails
            response
        }
    };
    let Ok(response) = response.await else {
        back.status(502).body("");
        return None;
    };
    let mut back = back.status(response.status());
    for field in response.head().end_to_end() {
        if passes(field.name) {
            back = back.field(field.name, field.value);
        }
    }
    let (mut out, mut body) = (back.stream(), response.into_body());
    while let Some(piece) = body.next().await {
        out.write(piece.ok()?);
        out.writable().await.ok()?;
    }
    out.finish();
    Some(())
}

fn main() -> tidegate::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let group = tidegate::net::pinned("proxy", 2)?;
    let own = tidegate::http::serve(&group, "127.0.0.1:0", |_, response| response.body("behind"));
    let own = own.wait()?;
    let upstream = arguments.next();
    let upstream = upstream.unwrap_or_else(|| format!("http://{}", own.local_addr()));
    let address = arguments.next();
    let client = Client::builder(&group).build();
    let (calls, loops) = (client.clone(), group.clone());
    let listen = address.as_deref().unwrap_or("127.0.0.1:0");
    let server = tidegate::http::serve(&group, listen, move |request, response| {
        let query = request.query().map(|query| format!("?{query}"));
        let query = query.unwrap_or_default();
        let url = format!("{upstream}{}{query}", request.path());
        let mut call = calls.request(request.method(), url);
        for field in request.head().end_to_end() {
            if passes(field.name) {
                call = call.field(field.name, field.value);
            }
        }
        let length = request.content_length();
        let (body, back) = (request.into_body(), response.defer());
        // If the loops are ending, the response is dropped: status 500.
        drop(loops.spawn(forward(call, length, body, back)));
    })
    .wait()?;
    let terminated = signal::terminate();
    println!("http://{}/", server.local_addr());
    if address.is_some() {
        terminated.wait()?;
        return Ok(());
    }
    let url = format!("http://{}/", server.local_addr());
    let response = client.get(url).send().wait()?;
    println!("through the proxy: {:?}", response.collect(1024).wait()?);
    Ok(())
}

//! Responds to the requests of operators.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tidegate::http::{DeferredResponse, Request, Response, Service};
use tidegate::metrics::Exporter;
use tidegate::pool::WorkerPool;
use tidegate::promise::Outcome;
use tidegate_core::internal::lock;

use super::change::{Changes, error};
use super::controls::SettingReport;
use super::door::{AdminAccess, Door, Refusal, SEVERAL_TOKENS};
use super::guests::Guests;
use super::pages::Pages;
use super::place::{Need, Place, decoded};
use super::streams::{Streams, delay};
use super::token::presented;
use crate::json::array;
use crate::page::{History, PAGE, POLICY};
use crate::problem::Problems;

/// The largest body: the value of a setting.
const LARGEST_BODY: usize = 4096;

/// Responds to requests on a loop.
pub(super) struct AdminService {
    pub(super) door: AdminAccess,
    /// The connections. One that waits for its response, or reads a stream, is kept.
    pub(super) guests: Arc<Guests>,
    pub(super) changes: Changes,
    pub(super) exporter: Exporter,
    pub(super) streams: Arc<Streams>,
    pub(super) pages: Arc<Pages>,
    pub(super) problems: Arc<Problems>,
    /// For what may block.
    pub(super) workers: WorkerPool,
}

/// The service of one connection.
pub(super) struct Session(pub(super) Arc<AdminService>);

impl Service for Session {
    fn call(&mut self, request: Request<'_>, response: Response<'_>) {
        self.0.respond(request, response);
    }
}

impl AdminService {
    /// Responds to a request.
    fn respond(&self, request: Request<'_>, response: Response<'_>) {
        self.guests.asks(request.channel());
        let Some(place) = Place::find(request.path()) else {
            return response.status(404).body("there is no such endpoint\n");
        };
        if !place.allows(request.method().as_str()) {
            let response = response.status(405).field("Allow", place.methods());
            return response.body("the endpoint has other methods\n");
        }
        let token = token(&request, &place);
        let host = request.field("Host");
        let allowed = match has_several_tokens(&request) {
            true => Err(SEVERAL_TOKENS),
            false => self.door.door().check(place.need(), host, token.as_deref()),
        };
        let allowed = allowed.and_then(|()| match place.is_for_own_origin() {
            true => {
                let site = request.field("Sec-Fetch-Site");
                Door::check_origin(host, request.field("Origin"), site)
            }
            false => Ok(()),
        });
        if let Err(refusal) = allowed {
            return self.refuse(refusal, request.peer_addr(), response);
        }
        match place {
            Place::Live => response.body("live\n"),
            Place::Ready => match self.changes.controls.is_ready() {
                true => response.body("ready\n"),
                false => response.status(503).body("not ready\n"),
            },
            Place::Stream => self.stream(&request, response),
            Place::Page => page(response),
            Place::PageEvents => {
                let id = request.field("Last-Event-ID");
                let id = id.map(|id| String::from_utf8_lossy(id).into_owned());
                let id = id.or_else(|| parameter(&request, "since"));
                let kept = self.guests.keep(request.channel());
                self.pages.begin(id, response, kept);
            }
            place if place.need() == Need::Change => self.change(place, request, response),
            place => self.read(place, &request, response),
        }
    }

    fn refuse(&self, refusal: Refusal, peer: Option<SocketAddr>, response: Response<'_>) {
        let Refusal { status, text } = refusal;
        let peer = peer.map_or("a local client".to_owned(), |peer| peer.ip().to_string());
        let report = format!("a request of {peer} to the admin listener was refused: {text}");
        self.problems.report(refusal.kind(), report);
        let response = response.status(status);
        let response = match status {
            401 => response.field("WWW-Authenticate", "Bearer"),
            _ => response,
        };
        response.body(format!("{text}\n"));
    }

    fn stream(&self, request: &Request<'_>, response: Response<'_>) {
        match parameter(request, "delay")
            .map(|text| delay(&text))
            .transpose()
        {
            Ok(delay) => {
                let kept = self.guests.keep(request.channel());
                self.streams.begin(delay, response, kept);
            }
            Err(why) => response.status(400).body(format!("{why}\n")),
        }
    }

    /// Reads the state, on a thread that may block.
    fn read(&self, place: Place, request: &Request<'_>, response: Response<'_>) {
        let accept = request.field("Accept").unwrap_or_default();
        let accept = String::from_utf8_lossy(accept).into_owned();
        let (changes, exporter) = (self.changes.clone(), self.exporter.clone());
        let pages = Arc::clone(&self.pages);
        let key = parameter(request, "key");
        let kept = self.guests.keep(request.channel());
        later(&self.workers, response.defer(), move |response| {
            let _kept = kept;
            let controls = &*changes.controls;
            let json = |text: String| ("application/json", text);
            let (kind, text) = match place {
                Place::Metrics if accept.contains("application/openmetrics-text") => {
                    (Exporter::CONTENT_TYPE, exporter.encode())
                }
                Place::Metrics => (Exporter::PLAIN_CONTENT_TYPE, exporter.encode_plain()),
                Place::Snapshot => json(pages.read_now(History::snapshot)),
                Place::PageSave => json(pages.read(History::saved)),
                Place::PageRoute => {
                    let key = key.unwrap_or_default();
                    match pages.read(|history| history.route(&key)) {
                        Some(history) => json(history),
                        None => {
                            let response = plain(response.status(404), "application/json");
                            return response.body(error("there is no such route"));
                        }
                    }
                }
                Place::Settings => {
                    let all = controls.settings(key.as_deref());
                    json(array(all.iter().map(SettingReport::to_json)))
                }
                Place::Events => json(changes.events.to_json()),
                _ => (
                    "text/plain; charset=utf-8",
                    format!("{}\n", controls.dump()),
                ),
            };
            plain(response, kind).body(text);
        });
    }

    /// Changes the state, on a thread that may block.
    fn change(&self, place: Place, request: Request<'_>, response: Response<'_>) {
        let (peer, is_delete) = (request.peer_addr(), request.method().as_str() == "DELETE");
        let (changes, workers, response) =
            (self.changes.clone(), self.workers.clone(), response.defer());
        let kept = self.guests.keep(request.channel());
        request.collect(LARGEST_BODY).finally(move |body| {
            let body = match body {
                Outcome::Success(body) => str::from_utf8(body).map(str::to_owned),
                _ => {
                    return plain(response.status(413), "application/json")
                        .body(error("the body is too large"));
                }
            };
            let Ok(body) = body else {
                return plain(response.status(400), "application/json")
                    .body(error("the body is not a text"));
            };
            later(&workers, response, move |response| {
                let _kept = kept;
                let value = (!is_delete).then_some(body.as_str());
                let (status, text) = changes.make(&place, value, peer);
                plain(response.status(status), "application/json").body(text);
            });
        });
    }
}

/// Responds on a thread that may block. If the threads are busy, nothing is done: status 503.
fn later(
    workers: &WorkerPool,
    response: DeferredResponse,
    respond: impl FnOnce(DeferredResponse) + Send + 'static,
) {
    // The response of a task that is refused is needed for the refusal.
    let slot = Arc::new(Mutex::new(Some(response)));
    let take = |slot: &Mutex<Option<DeferredResponse>>| lock(slot).take();
    let own = Arc::clone(&slot);
    let work = move || {
        if let Some(response) = take(&own) {
            respond(response);
        }
    };
    if workers.execute(work).is_err()
        && let Some(response) = take(&slot)
    {
        let response = plain(response.status(503), "application/json");
        let response = response.field("Retry-After", "1");
        response.body(error("too many requests of operators wait"));
    }
}

/// Responds with the page. It contains no data.
fn page(response: Response<'_>) {
    response
        .field("Content-Type", "text/html; charset=utf-8")
        .field("Content-Security-Policy", POLICY)
        .field("Cache-Control", "no-store")
        .field("X-Content-Type-Options", "nosniff")
        .field("Referrer-Policy", "no-referrer")
        .body(PAGE);
}

/// Adds the fields of a response that no cache keeps and no browser interprets.
fn plain(response: DeferredResponse, kind: &str) -> DeferredResponse {
    response
        .field("Content-Type", kind)
        .field("Cache-Control", "no-store")
        .field("X-Content-Type-Options", "nosniff")
}

/// Returns the token of a request: its field `Authorization`. A page cannot set fields of a stream,
/// so there the parameter `authorization` has the same value.
fn token(request: &Request<'_>, place: &Place) -> Option<Vec<u8>> {
    if let Some(field) = request.field("Authorization") {
        // A field that is no token is a wrong one.
        return Some(presented(field).unwrap_or_default());
    }
    match place {
        Place::Stream | Place::PageEvents => {
            let field = parameter(request, "authorization")?;
            Some(presented(field.as_bytes()).unwrap_or_default())
        }
        _ => None,
    }
}

/// Returns `true` if a request has several fields `Authorization`: another program on its way may have looked
/// at another one.
fn has_several_tokens(request: &Request<'_>) -> bool {
    request.fields().get_all("Authorization").count() > 1
}

/// Returns a parameter of the query.
fn parameter(request: &Request<'_>, name: &str) -> Option<String> {
    let mut pairs = request
        .query()?
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    decoded(&value.replace('+', " ")).map(|value| value.into_owned())
}

//! The service that sends files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tidegate_core::permits::{Permit, Permits};
use tidegate_pool::WorkerPool;

use super::answer::{Answer, Done};
use super::builder::{FilesBuilder, FilesError};
use super::directory::{Directory, Opened};
use super::path::{Wanted, below, below_root};
use super::reply;
use crate::codec::{Method, OwnedRequestHead};
use crate::server::{Request, Response, Service};

/// Sends the files of a directory. Clones share the directory and its threads.
///
/// It is a [`Service`]; with other routes, [mount](crate::RouterBuilder::mount) it and call
/// [`Files::respond`].
///
/// # What is sent
///
/// `GET` and `HEAD` send a file with its content type, `ETag` and `Last-Modified`. Conditional
/// requests and ranges work as in RFC 9110: status 304, 412, 206 and 416. If a request asks for
/// several ranges that exist, the whole file is sent. The tag of a file that was changed less than
/// two seconds ago is a weak one, because the file may change again within the resolution of its
/// time. A path that ends with a slash stands for the index file of a directory. A directory without
/// the slash is redirected. There are no lists of directories.
///
/// # What is not sent
///
/// No path leads out of the directory. `.` and `..`, encoded slashes, backslashes, control characters
/// and empty segments are refused with status 404 before a file is looked for. A symbolic link that
/// leads out is refused as well: on Linux by the kernel, where a link to a place inside must be
/// relative. Elsewhere the path is made canonical and compared; there, nobody else may change links
/// in the directory. Hidden files, whose names begin with a dot, are refused, except in
/// `/.well-known/`. Pipes, sockets and devices are refused.
///
/// # Threads
///
/// Files are looked for and opened on threads of the service's own pool. If all are busy and the
/// queue is full, for example because a disk hangs, the client gets status 503 with a field
/// `Retry-After`, and other services are unaffected. The content is sent by the connection: see
/// [`FileRange`](tidegate_net::FileRange).
///
/// ```
/// use tidegate_http::{Files, Router, serve};
///
/// # let public = std::env::temp_dir();
/// let files = Files::builder(&public).prefix("/static").build()?;
/// let router = Router::builder()
///     .get("/", |_, response| response.body("home\n"))
///     .mount("/static", move |request, response| files.respond(request, response))
///     .build()?;
/// let group = tidegate_net::pinned("web", 1)?;
/// let server = serve(&group, "127.0.0.1:0", move |request, response| {
///     router.respond(request, response);
/// })
/// .wait()?;
/// # server.drain(std::time::Duration::from_secs(1)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Files {
    shared: Arc<Shared>,
}

/// The settings of a service.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) prefix: String,
    pub(super) index: String,
    pub(super) cache_control: Option<String>,
}

struct Shared {
    directory: Directory,
    settings: Settings,
    pool: WorkerPool,
    /// One for each request that the pool may run or queue.
    permits: Permits,
}

impl Files {
    /// Creates a service for the files of a directory.
    ///
    /// # Errors
    ///
    /// As for [`FilesBuilder::build`].
    pub fn new(directory: impl AsRef<Path>) -> Result<Self, FilesError> {
        Self::builder(directory).build()
    }

    /// Begins the description of a service for the files of a directory.
    pub fn builder(directory: impl AsRef<Path>) -> FilesBuilder {
        FilesBuilder::new(directory.as_ref())
    }

    pub(super) fn of(
        directory: Directory,
        settings: Settings,
        pool: WorkerPool,
        most: usize,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                directory,
                settings,
                pool,
                permits: Permits::new(most),
            }),
        }
    }

    /// Responds to a request with a file, and with the fields that were set so far. Never blocks.
    pub fn respond(&self, request: Request<'_>, response: Response<'_>) {
        self.respond_with(None, request, response, None);
    }

    /// Does the same with the file of another path than that of the request, for example its normal
    /// form. The first `before` bytes of `path` stand before the files, in place of
    /// [`FilesBuilder::prefix`]. A directory without a slash is redirected to `path` with one.
    ///
    /// Calls `done` with the status of the response, the length of its body, and the error of the file
    /// system if that is the reason of the status, when the response is handed to the connection, for a
    /// log. The status is 0 if the client has left before. A status of 503 without an error means that
    /// too many requests wait.
    ///
    /// # Threads
    ///
    /// `done` runs on the thread of the connection, or on one of the service's pool.
    pub fn respond_at(
        &self,
        (path, before): (&str, usize),
        request: Request<'_>,
        response: Response<'_>,
        done: impl FnOnce(u16, u64, Option<&io::Error>) + Send + 'static,
    ) {
        self.respond_with(
            Some((path, before)),
            request,
            response,
            Some(Box::new(done)),
        );
    }

    fn respond_with(
        &self,
        other: Option<(&str, usize)>,
        request: Request<'_>,
        response: Response<'_>,
        done: Option<Done>,
    ) {
        let settings = &self.shared.settings;
        let is_head = request.method() == Method::Head;
        let at_once = |response: Response<'_>, status, text: &'static str, done: Option<Done>| {
            response.status(status).body(text);
            if let Some(done) = done {
                let length = if is_head { 0 } else { text.len() as u64 };
                done(status, length, None);
            }
        };
        match request.method() {
            Method::Get | Method::Head => {}
            Method::Options => return at_once(allow(response), 204, "", done),
            _ => return at_once(allow(response), 405, "only GET and HEAD\n", done),
        }
        let wanted = match other {
            // It would be taken for the name of a host in a redirect.
            Some((path, _)) if path.starts_with("//") => None,
            Some((path, before)) => below(path, before),
            None => below_root(request.path(), &settings.prefix),
        };
        let Some(wanted) = wanted else {
            return at_once(response, 404, "not found\n", done);
        };
        let Some(permit) = self.shared.permits.try_acquire() else {
            let response = response.field("Retry-After", "1");
            return at_once(response, 503, "too many requests for files\n", done);
        };
        let head = request.head().to_owned();
        let place = other.filter(|(path, _)| *path != request.path());
        let place = place.map(|(path, _)| path.to_owned());
        let response = Answer::new(response.defer_with_fields(), is_head, done);
        self.respond_later((wanted, place), permit, head, response);
    }

    /// Takes the place of a request, for a test.
    #[cfg(test)]
    pub(super) fn take_place(&self) -> Option<Permit> {
        self.shared.permits.try_acquire()
    }

    fn respond_later(
        &self,
        (wanted, place): (Wanted, Option<String>),
        permit: Permit,
        head: OwnedRequestHead,
        response: Answer,
    ) {
        let shared = Arc::clone(&self.shared);
        let job = move || {
            if !response.is_closed() {
                shared.run(wanted, place, &head, response);
            }
            drop(permit);
        };
        // Each permit has a place in the pool, so this is refused only at the end of the process.
        // Then the response is dropped, which is status 500.
        let _ = self.shared.pool.execute(job);
    }
}

impl Shared {
    /// Opens the file that is wanted, and responds. `place` is its path if that is not the path of the
    /// request. Runs on a thread of the pool.
    fn run(
        &self,
        wanted: Wanted,
        place: Option<String>,
        head: &OwnedRequestHead,
        response: Answer,
    ) {
        let (path, may_redirect) = match wanted {
            Wanted::Entry(path) => (path, true),
            Wanted::Directory(path) if path.is_empty() => (self.settings.index.clone(), false),
            Wanted::Directory(path) => (format!("{path}/{}", self.settings.index), false),
        };
        match self.directory.get(&path) {
            Ok(opened) if opened.metadata.is_file() => {
                reply::send(&path, opened, head, &self.settings, response);
            }
            Ok(opened) if opened.metadata.is_dir() && may_redirect => {
                redirect(place.as_deref(), head, response);
            }
            Ok(Opened { .. }) => refuse(404, response),
            Err(why) => refuse(status_of(&why), response.error(why)),
        }
    }
}

impl Service for Files {
    fn call(&mut self, request: Request<'_>, response: Response<'_>) {
        self.respond(request, response);
    }
}

tidegate_core::debug_fields!(Files, this => directory: this.shared.directory);

fn allow(response: Response<'_>) -> Response<'_> {
    response.field("Allow", "GET, HEAD, OPTIONS")
}

/// Redirects to `place`, or to the path of the request, with a slash at its end. A path that has one, or
/// that could be taken for the name of a host, is not found.
fn redirect(place: Option<&str>, head: &OwnedRequestHead, response: Answer) {
    let head = head.as_head();
    let query = head.query();
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    let path = place.unwrap_or(head.path());
    if path.starts_with("//") || path.ends_with('/') {
        return refuse(404, response);
    }
    let location = format!("{path}/{query}");
    response.status(301).field("Location", location).body("");
}

fn status_of(why: &io::Error) -> u16 {
    match why.kind() {
        io::ErrorKind::PermissionDenied => 403,
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::InvalidFilename => 404,
        _ if is_temporary(why) => 503,
        _ if is_special(why) => 404,
        _ => 500,
    }
}

/// Returns `true` if no descriptors are left, or a rename came in between again and again.
#[cfg(unix)]
fn is_temporary(why: &io::Error) -> bool {
    use rustix::io::Errno;
    let why = Errno::from_io_error(why);
    matches!(why, Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE))
}

#[cfg(not(unix))]
fn is_temporary(_: &io::Error) -> bool {
    false
}

/// Returns `true` for a socket, or a device without a driver: they cannot be opened.
#[cfg(unix)]
fn is_special(why: &io::Error) -> bool {
    use rustix::io::Errno;
    let why = Errno::from_io_error(why);
    matches!(why, Some(Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP))
}

#[cfg(not(unix))]
fn is_special(_: &io::Error) -> bool {
    false
}

fn refuse(status: u16, response: Answer) {
    let response = response.status(status);
    match status {
        404 => response.body("not found\n"),
        403 => response.body("forbidden\n"),
        503 => response.field("Retry-After", "1").body(""),
        _ => response.body(""),
    }
}

//! The response to one request for a file, and the caller that is told how it ended.

use std::io;

use tidegate_core::internal::contain;
use tidegate_net::FileRange;

use crate::server::DeferredResponse;

/// Is told the status of a response, the length of its body, and the error of the file system if that
/// is the reason.
pub(super) type Done = Box<dyn FnOnce(u16, u64, Option<&io::Error>) + Send>;

/// A response that has not begun. If it is dropped, the client gets status 500, unless it has left.
pub(super) struct Answer {
    response: Option<DeferredResponse>,
    status: u16,
    is_head: bool,
    /// The error of the file system that is the reason of the response.
    error: Option<io::Error>,
    done: Option<Done>,
}

impl Answer {
    pub(super) fn new(response: DeferredResponse, is_head: bool, done: Option<Done>) -> Self {
        Self {
            response: Some(response),
            status: 200,
            is_head,
            error: None,
            done,
        }
    }

    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self.response = self.response.take().map(|response| response.status(status));
        self
    }

    /// Notes the error that is the reason of the response.
    pub(super) fn error(mut self, error: io::Error) -> Self {
        self.error = Some(error);
        self
    }

    pub(super) fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let response = self.response.take();
        self.response = response.map(|response| response.field(name, value));
        self
    }

    pub(super) fn body(mut self, text: &'static str) {
        if let Some(response) = self.response.take() {
            response.body(text);
        }
        self.ended(self.status, text.len() as u64);
    }

    pub(super) fn file(mut self, range: FileRange) {
        let length = range.len();
        if let Some(response) = self.response.take() {
            response.file(range);
        }
        self.ended(self.status, length);
    }

    pub(super) fn is_closed(&self) -> bool {
        let response = self.response.as_ref();
        response.is_none_or(DeferredResponse::is_closed)
    }

    fn ended(&mut self, status: u16, length: u64) {
        let has_body = !self.is_head && status != 304;
        if let Some(done) = self.done.take() {
            let length = if has_body { length } else { 0 };
            done(status, length, self.error.as_ref());
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.response.is_none() {
            return;
        }
        let status = if self.is_closed() { 0 } else { 500 };
        drop(self.response.take());
        // A thread of the pool may be unwinding.
        drop(contain(|| self.ended(status, 0)));
    }
}

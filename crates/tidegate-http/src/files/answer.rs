//! The response to one request for a file, and who is told how it ended.

use tidegate_core::internal::contain;
use tidegate_net::FileRange;

use crate::server::DeferredResponse;

/// Is told the status of a response and the length of its body.
pub(super) type Done = Box<dyn FnOnce(u16, u64) + Send>;

/// A response that has not begun. If it is dropped, the client gets status 500, unless it has left.
pub(super) struct Answer {
    response: Option<DeferredResponse>,
    status: u16,
    is_head: bool,
    done: Option<Done>,
}

impl Answer {
    pub(super) fn new(response: DeferredResponse, is_head: bool, done: Option<Done>) -> Self {
        Self {
            response: Some(response),
            status: 200,
            is_head,
            done,
        }
    }

    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self.response = self.response.take().map(|response| response.status(status));
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
            done(status, if has_body { length } else { 0 });
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

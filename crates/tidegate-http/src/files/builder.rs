//! The description of a service for files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_pool::WorkerPool;

use super::directory::Directory;
use super::service::{Files, Settings};
use crate::codec::{EncodeError, FieldLines};

/// The default number of threads that look for files.
const THREADS: usize = 8;
/// The default number of requests that wait for a thread.
const QUEUE: usize = 1024;

/// The builder of a [`Files`] service.
#[must_use = "a service exists when its builder builds it"]
#[derive(Debug)]
pub struct FilesBuilder {
    directory: PathBuf,
    settings: Settings,
    threads: usize,
    queue: usize,
}

/// The error for a [`Files`] service that cannot be built.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The directory cannot be opened.
    #[error("the directory `{}` cannot be served: {why}; name one that exists", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        why: io::Error,
    },
    /// A value of a field cannot be sent.
    #[error("the field `{name}` cannot have the value `{value}`: {why}")]
    Field {
        /// The name of the field.
        name: &'static str,
        /// The value.
        value: String,
        /// The reason.
        #[source]
        why: EncodeError,
    },
    /// The service would have no thread, or too many.
    #[error("a service for files cannot have {threads} threads and {queue} requests that wait")]
    Limits {
        /// The number of threads.
        threads: usize,
        /// The number of requests that wait.
        queue: usize,
    },
}

tidegate_core::debug_as_display!(FilesError);

impl FilesBuilder {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            settings: Settings {
                prefix: String::new(),
                index: "index.html".to_owned(),
                cache_control: None,
            },
            threads: THREADS,
            queue: QUEUE,
        }
    }

    /// Sets the part of the path before the files, such as `/static`. Other paths get status 404.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.settings.prefix = prefix.trim_end_matches('/').to_owned();
        self
    }

    /// Sets the name of the file that is sent for a directory. It is `index.html` unless it is set.
    pub fn index(mut self, name: &str) -> Self {
        self.settings.index = name.to_owned();
        self
    }

    /// Sets the field `Cache-Control` of all files, such as `max-age=3600`.
    pub fn cache_control(mut self, value: &str) -> Self {
        self.settings.cache_control = Some(value.to_owned());
        self
    }

    /// Sets how many threads look for files and open them, and how many requests may wait for one.
    /// Above that, requests get status 503. The threads end when they are idle.
    pub fn threads(mut self, threads: usize, queue: usize) -> Self {
        (self.threads, self.queue) = (threads, queue);
        self
    }

    /// Builds the service. Opens the directory.
    ///
    /// # Errors
    ///
    /// [`FilesError`] if the directory cannot be opened, a value cannot be sent, or there is no
    /// thread.
    pub fn build(self) -> Result<Files, FilesError> {
        if let Some(value) = &self.settings.cache_control {
            let name = "Cache-Control";
            FieldLines::new(name, value.as_bytes()).map_err(|why| FilesError::Field {
                name,
                value: value.clone(),
                why,
            })?;
        }
        let directory = Directory::open(&self.directory).map_err(|why| FilesError::Directory {
            path: self.directory.clone(),
            why,
        })?;
        self.build_for(directory)
    }

    pub(super) fn build_for(self, directory: Directory) -> Result<Files, FilesError> {
        let (threads, queue) = (self.threads, self.queue);
        let most = threads.checked_add(queue);
        let pool = WorkerPool::builder("files")
            .core(0)
            .max(threads)
            .reserved(0)
            .queue(most.unwrap_or(usize::MAX))
            .keep_alive(Duration::from_secs(10))
            .build();
        match (pool, most) {
            (Ok(pool), Some(most)) => Ok(Files::of(directory, self.settings, pool, most)),
            _ => Err(FilesError::Limits { threads, queue }),
        }
    }
}

//! The configuration of a process: its file, the disk and the variables that it is read with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::include::Disk;
use super::load::{Config, Loaded, Tree};
use super::set::SetValues;
use super::source::Sources;

/// Returns the value of a variable.
pub type VariableReader = dyn Fn(&str) -> Option<String> + Send + Sync;

/// A file with a configuration, which can be read again.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_gateway::config::{ConfigFile, RealDisk};
///
/// let file = ConfigFile::new("/no/such/file.toml", Arc::new(RealDisk), Arc::new(|_| None));
/// let message = file.read().unwrap_err();
/// assert!(message.starts_with("/no/such/file.toml: cannot be read: "));
/// ```
#[derive(Clone)]
pub struct ConfigFile {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    variables: Arc<VariableReader>,
}

impl ConfigFile {
    /// Creates the handle of a file. Nothing is read yet.
    pub fn new(
        path: impl Into<PathBuf>,
        disk: Arc<dyn Disk>,
        variables: Arc<VariableReader>,
    ) -> Self {
        Self {
            path: path.into(),
            disk,
            variables,
        }
    }

    /// Reads the file and those that it includes.
    ///
    /// # Errors
    ///
    /// The message that the file itself cannot be read.
    pub(crate) fn tree(&self) -> Result<Tree, String> {
        Tree::read(&self.path, &*self.disk, &*self.variables)
            .map_err(|error| format!("{}: cannot be read: {error}\n", self.path.display()))
    }

    /// Reads the file, and all mistakes in it.
    ///
    /// # Errors
    ///
    /// The message that the file itself cannot be read.
    pub fn load(&self) -> Result<Loaded, String> {
        Ok(self.tree()?.load(&SetValues::new()))
    }

    /// Reads a configuration that can be used, and the texts that it was read from.
    ///
    /// # Errors
    ///
    /// All mistakes as a text, without secrets.
    pub fn read(&self) -> Result<(Config, Sources), String> {
        let loaded = self.load()?;
        match loaded.config {
            Some(config) => Ok((config, loaded.sources)),
            None => Err(loaded.mistakes.render(&loaded.sources)),
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the disk.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }
}

// Prints no variable: they are secrets.
tidegate_core::debug_fields!(ConfigFile, this => path: this.path);

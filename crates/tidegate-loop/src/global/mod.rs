//! The default loop of the process.

pub(crate) mod default_loop;

#[cfg(test)]
mod tests;

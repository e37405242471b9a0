//! The error type for a program's `main`.

use std::error::Error as StdError;
use std::fmt;

/// Any error, for `main` to return. An error returned from `main` is printed with `Debug`, which
/// prints a sentence here.
///
/// `?` converts any error that is `Send` and `Sync` into this type, and also a string. A refusal
/// that gives a task or a value back is such an error. It is not one itself, as no type with such a
/// conversion can be. In a function that returns a `Box<dyn Error + Send + Sync>`, write
/// `.map_err(tidegate::Error::into_inner)?`; `anyhow` takes the result of
/// [`into_inner`](Error::into_inner) with `anyhow::Error::from_boxed`.
///
/// ```
/// fn port(text: &str) -> tidegate::Result<u16> {
///     match text.parse()? {
///         0 => Err("port 0 is no port; use 1 to 65535".into()),
///         port => Ok(port),
///     }
/// }
///
/// assert_eq!(port("80").unwrap(), 80);
/// assert_eq!(format!("{:?}", port("0").unwrap_err()), "port 0 is no port; use 1 to 65535");
/// assert!(port("eighty").unwrap_err().downcast_ref::<std::num::ParseIntError>().is_some());
/// ```
pub struct Error(Box<dyn StdError + Send + Sync>);

impl Error {
    /// Returns the inner error if it is an `E`.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// Returns the inner error.
    pub fn into_inner(self) -> Box<dyn StdError + Send + Sync> {
        self.0
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Prints the error's text, then each cause that the text does not mention.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut cause = self.0.source();
        while let Some(why) = cause {
            let text = why.to_string();
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said = text;
            }
            cause = why.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! What `main` prints for an error.

    use super::*;
    use std::cell::Cell;
    use std::time::Duration;
    use tidegate_loop::{EventLoop, Quiet};
    use tidegate_promise::{Failure, promise};

    fn shown(error: impl Into<Error>) -> String {
        format!("{:?}", error.into())
    }

    /// Compiles only if values of the type may go to other threads, and be seen by them.
    fn crosses_threads<T: Send + Sync>() {}

    #[test]
    fn a_result_may_cross_threads() {
        crosses_threads::<crate::Result<()>>();
        crosses_threads::<Error>();
    }

    #[test]
    fn a_refusal_becomes_an_error_also_with_what_it_gives_back() {
        let task = Cell::new(7); // can go to another thread, but not be shared
        let home = EventLoop::builder("home").build().unwrap();
        let quiet = Quiet::none(Duration::from_secs(60));
        home.shutdown(quiet).wait().unwrap();
        let refused = home.schedule(Duration::ZERO, move || task.set(8));
        let why = refused.map(drop).map_err(Error::from).unwrap_err();
        assert!(shown(why).starts_with("rejected: "));

        let (promise, answer) = promise::<Cell<u32>>();
        assert!(answer.cancel());
        let why = Error::from(promise.succeed(Cell::new(7)).unwrap_err());
        assert!(!shown(why).is_empty());
    }

    #[test]
    fn an_error_of_main_is_printed_as_a_sentence() {
        let (promise, answer) = promise::<u32>();
        let why = std::io::Error::other("the disk is full");
        promise.fail(Failure::new(why)).unwrap();
        let why = answer.wait().unwrap_err();
        let boxed: Box<dyn StdError> = Box::new(why.clone());
        assert_eq!(format!("{boxed:?}"), "the disk is full");
        assert_eq!(shown(why), "the disk is full");
        assert_eq!(shown("a text"), "a text");
    }

    #[cfg(feature = "net")]
    #[test]
    fn an_error_of_the_network_is_printed_as_a_sentence() {
        let group = tidegate_net::pinned("io", 1).unwrap();
        let bound = tidegate_net::Server::builder(&group).bind("nowhere").wait();
        let why = bound.unwrap_err();
        assert_eq!(format!("{why:?}"), why.to_string());
        assert!(shown(why).starts_with("`nowhere` is no address"));
    }

    #[test]
    fn a_cause_that_the_sentence_does_not_mention_is_printed_too() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("cannot save")
            }
        }
        impl StdError for Outer {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&self.0)
            }
        }
        let outer = Outer(std::io::Error::other("the disk is full"));
        assert_eq!(shown(outer), "cannot save: the disk is full");
    }
}

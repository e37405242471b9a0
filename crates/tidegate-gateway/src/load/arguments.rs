//! The options of the command `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::schedule::Shape;
use crate::config::duration;

/// The options of the command `bench`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchArguments {
    /// The URL, such as `http://127.0.0.1:8080/`.
    pub(crate) url: String,
    /// The requests per second. Without a rate, each connection sends the next request after the
    /// response.
    #[arg(short, long, value_name = "N", conflicts_with = "ramp", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// The requests per second of the first stage. The rate grows until goodput falls.
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) ramp: Option<f64>,
    /// The length of a stage of the ramp.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    pub(crate) stage: Duration,
    /// The number of connections.
    #[arg(short, long, value_name = "N", default_value = "50", value_parser = connections)]
    pub(crate) connections: usize,
    /// How long requests are sent; of a ramp, at most.
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) duration: Duration,
    /// How long a request may take, and how long it may wait for a connection.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) timeout: Duration,
    /// How long a good response may take.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub(crate) within: Duration,
    /// The number of threads of the load generator.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = threads)]
    pub(crate) threads: usize,
    /// The method of the requests.
    #[arg(short, long, default_value = "GET")]
    pub(crate) method: String,
    /// A field of the requests, such as `accept: text/html`.
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub(crate) headers: Vec<String>,
    /// The body of the requests.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub(crate) body: String,
    /// Writes a picture of the times and rates to a file, in SVG.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Writes the result to a file as JSON; `-` prints it instead of the summary.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl BenchArguments {
    /// Returns how requests follow each other.
    pub(super) fn shape(&self) -> Shape {
        match (self.rate, self.ramp) {
            (Some(rate), _) => Shape::Rate(rate),
            (None, Some(from)) => Shape::Ramp {
                from,
                stage: self.stage,
            },
            (None, None) => Shape::Closed,
        }
    }
}

/// Parses a rate.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.01..=10_000_000.0).contains(&rate) => Ok(rate),
        _ => Err("it is not a number from 0.01 to 10000000".to_owned()),
    }
}

fn connections(text: &str) -> Result<usize, String> {
    count(text, 50_000)
}

fn threads(text: &str) -> Result<usize, String> {
    count(text, 64)
}

fn count(text: &str, most: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => Err(format!("it is not a number from 1 to {most}")),
    }
}

/// Parses a duration that is neither zero nor longer than a day.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < Duration::from_millis(1) => Err("it is shorter than 1ms".to_owned()),
        time if time > Duration::from_secs(86_400) => Err("it is longer than a day".to_owned()),
        time => Ok(time),
    }
}

//! Requests at a fixed rate, whether earlier ones have ended or not, sent by the load generator of the
//! gateway. A wait begins when its request was due, so that a stall counts for every request that it
//! delays.
//!
//! A hypervisor that takes the CPUs away delays every request of that moment, whatever the gateway
//! does. The run notes the seconds in which that happened.

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tidegate_gateway::internal::{Counts, Dispatch, Lane, LaneSettings, Shape, Target};
use tidegate_loop::Quiet;

use crate::machine::stolen_time;

/// After how long a client leaves.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the loop of the clients may take to end.
const END: Duration = Duration::from_secs(1);

/// What is asked for, and how often in a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) path: &'static str,
    pub(super) rate: f64,
    /// The connections. Each is replaced after a request.
    pub(super) connections: usize,
}

/// A run.
#[derive(Debug)]
pub(super) struct Outcome {
    /// What became of the requests that ended in each second, by stream.
    pub(super) seconds: Vec<Vec<Counts>>,
    /// For each second whether the hypervisor left the CPUs to this machine.
    pub(super) undisturbed: Vec<bool>,
}

/// Sends all streams for this time.
pub(super) fn run(
    address: SocketAddr,
    streams: &[Stream],
    time: Duration,
) -> Result<Outcome, String> {
    let group = tidegate_net::pinned("clients", 1).map_err(|why| why.to_string())?;
    let home = group.loops().next().clone();
    let start = home.clock().nanos();
    let end = start + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2);
    let (send, ended) = channel();
    let fields = ["connection: close".to_owned()];
    let mut lanes = Vec::new();
    for stream in streams {
        let url = format!("http://{address}{}", stream.path);
        let settings = LaneSettings {
            targets: vec![Target::new(&url, "GET", &fields, b"")?],
            address,
            connections: stream.connections,
            timeout: PATIENCE,
            within: PATIENCE,
        };
        let dispatch = Dispatch::new(Shape::Rate(stream.rate), (0, 1), start, end, PATIENCE);
        let send = send.clone();
        let done = Box::new(move || {
            let _ = send.send(());
        });
        lanes.push(Lane::start(settings, dispatch, &group, &home, done));
    }
    let began = Instant::now();
    let (mut seconds, mut stolen) = (Vec::new(), vec![stolen_time()]);
    while seconds.len() < usize::try_from(time.as_secs()).unwrap_or(1).max(1) {
        let next = Duration::from_secs(seconds.len() as u64 + 1);
        std::thread::sleep(next.saturating_sub(began.elapsed()));
        let recent = |lane: &std::sync::Arc<Lane>| lane.take_recent().remove(0);
        seconds.push(lanes.iter().map(recent).collect::<Vec<Counts>>());
        stolen.push(stolen_time());
    }
    // The last second also has what ended later.
    for _ in &lanes {
        let _ = ended.recv_timeout(2 * PATIENCE);
    }
    for (lane, counts) in lanes.iter().zip(seconds.last_mut().into_iter().flatten()) {
        lane.take_recent().iter().for_each(|late| counts.add(late));
        lane.close();
    }
    let _ = group.loops().shutdown(Quiet::none(END)).wait();
    Ok(Outcome {
        seconds,
        undisturbed: equal_neighbours(&stolen),
    })
}

/// Returns for each value but the last whether the next one is the same.
fn equal_neighbours(values: &[Duration]) -> Vec<bool> {
    values.windows(2).map(|two| two[0] == two[1]).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::equal_neighbours;

    #[test]
    fn a_second_is_disturbed_if_time_was_stolen_before_the_next_one() {
        let stolen = [5, 5, 7, 7].map(Duration::from_millis);
        assert_eq!(equal_neighbours(&stolen), [true, false, true]);
    }
}

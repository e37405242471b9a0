//! What pages read: the snapshot, changes since a sample, the history of a route; as JSON.

use tidegate_isolate::LatencyTotals;

use super::history::{EVENTS, Entry, History, LoopNow, PERIOD};
use super::reports::Knob;
use super::series::{SERIES, described, millis, number};
use super::track::{Heat, SAMPLES, SPARK, Track};
use super::watch::{Seen, What};
use crate::json::{Object, array, quoted};

/// The version of the format. A page shows files of its own version only.
pub(crate) const VERSION: u32 = 1;
/// The entries of the log in a snapshot.
const LOG_SHOWN: usize = 256;

impl History {
    /// Returns the id of the last sample, with which a page comes back.
    pub(crate) fn id(&self) -> String {
        format!("{}-{}", self.epoch, self.sample)
    }

    /// Returns the sample of an id, if a page with it can go on without a gap: it is of this process,
    /// the history reaches back that far, and no route was added or removed since.
    pub(crate) fn resume(&self, id: &str) -> Option<u64> {
        let (epoch, sample) = id.rsplit_once('-')?;
        let sample: u64 = sample.parse().ok()?;
        let kept = super::track::BUCKETS as u64 * SAMPLES;
        let is_kept = sample <= self.sample && self.sample - sample <= kept;
        let is_whole = self.log.len() < super::history::LOGGED
            || self.log.front().is_some_and(|first| first.sample <= sample);
        let can = epoch == self.epoch && is_kept && is_whole && sample >= self.keys_changed;
        can.then_some(sample)
    }

    /// Returns everything but the history of routes.
    pub(crate) fn snapshot(&self) -> String {
        let routes = self.tracks.iter().map(|(key, track)| route(key, track));
        let events = EVENTS.iter().map(|(name, title)| {
            let event = Object::new().text("name", name);
            event.text("title", title).end()
        });
        let schema = Object::new()
            .raw("series", described())
            .raw("events", array(events));
        Object::new()
            .raw("version", VERSION)
            .text("epoch", &self.epoch)
            .raw("sample", self.sample)
            .raw("time_ms", self.time_ms)
            .raw("period_ms", PERIOD.as_millis())
            .raw("bucket_ms", PERIOD.as_millis() * u128::from(SAMPLES))
            .raw("ready", self.is_ready)
            .raw("schema", schema.end())
            .raw("routes", array(routes))
            .raw("upstreams", &self.servers.shown)
            .raw("loops", array(self.loops.iter().map(event_loop)))
            .raw("knobs", array(self.knobs.iter().map(knob)))
            .raw("log", log(self.log.iter().rev().take(LOG_SHOWN)))
            .end()
    }

    /// Returns what has changed since a sample.
    pub(crate) fn changes(&self, since: u64) -> String {
        let rows = self.tracks.values().enumerate();
        let rows = rows.filter(|(_, track)| track.changed > since);
        let rows = rows.map(|(at, track)| row(at, track));
        let new = self.log.iter().rev();
        let new = new.take_while(|entry| entry.sample > since);
        let mut frame = Object::new()
            .raw("sample", self.sample)
            .raw("time_ms", self.time_ms)
            .raw("ready", self.is_ready)
            .raw("rows", array(rows))
            .raw("loops", array(self.loops.iter().map(event_loop)))
            .raw("log", log(new.take(LOG_SHOWN)));
        if self.servers_changed > since {
            frame = frame.raw("upstreams", &self.servers.shown);
        }
        if self.knobs_changed > since {
            frame = frame.raw("knobs", array(self.knobs.iter().map(knob)));
        }
        // A page that has missed a bucket gets all lines.
        if self.closed[0] > since {
            frame = match self.closed[1] > since {
                true => frame.raw("sparks", array(self.tracks.values().map(spark))),
                false => frame.raw("bucket", self.closed[0]),
            };
        }
        frame.end()
    }

    /// Returns the history of a route, if there is one.
    pub(crate) fn route(&self, key: &str) -> Option<String> {
        let track = self.tracks.get(key)?;
        let skipped = track.first.saturating_sub(self.first) as usize;
        let times = self.times.iter().skip(skipped);
        let kept = SERIES.iter().enumerate();
        let kept = kept.filter(|(_, series)| series.is_kept());
        let mut series = Object::new();
        for (at, one) in kept {
            let values = track.buckets.iter();
            let values = values.map(|bucket| number(f64::from(bucket[at])));
            series = series.raw(one.name, array(values));
        }
        Some(
            Object::new()
                .text("key", key)
                .raw("times", array(times.map(u64::to_string)))
                .raw("series", series.end())
                .raw("heat", self.heat(track))
                .raw("moves", array(track.moves.iter().map(seen)))
                .raw("transitions", array(track.transitions.iter().map(seen)))
                .end(),
        )
    }

    fn heat(&self, track: &Track) -> String {
        let skipped = self.columns.len().saturating_sub(track.heat.len());
        let times = self.columns.iter().skip(skipped);
        let bounds = LatencyTotals::BOUNDS_NANOS.iter();
        let bounds = bounds.map(|nanos| number(*nanos as f64 / 1e6));
        let part = |at: usize| {
            let column = |heat: &Option<Box<Heat>>| match heat {
                Some(heat) => array(heat[at].iter().map(u16::to_string)),
                None => "0".to_owned(),
            };
            array(track.heat.iter().map(column))
        };
        Object::new()
            .raw("times", array(times.map(u64::to_string)))
            .raw("bounds_ms", array(bounds))
            .raw("wait", part(0))
            .raw("run", part(1))
            .raw("total", part(2))
            .end()
    }

    /// Returns everything, for a file.
    pub(crate) fn saved(&self) -> String {
        let routes = self.tracks.keys().filter_map(|key| self.route(key));
        Object::new()
            .raw("version", VERSION)
            .raw("snapshot", self.snapshot())
            .raw("histories", array(routes))
            .end()
    }
}

fn route(key: &str, track: &Track) -> String {
    Object::new()
        .text("key", key)
        .text("group", &track.group)
        .optional("upstream", track.upstream.as_deref().map(quoted))
        .raw("values", values(track))
        .text("level", track.verdict.level.word())
        .text("says", &track.says)
        .optional("reason", reason(track))
        .raw("spark", spark(track))
        .end()
}

fn row(at: usize, track: &Track) -> String {
    array([
        at.to_string(),
        values(track),
        quoted(track.verdict.level.word()),
        quoted(&track.says),
        reason(track).unwrap_or_else(|| "null".to_owned()),
    ])
}

fn values(track: &Track) -> String {
    array(track.values.iter().map(|value| number(*value)))
}

fn reason(track: &Track) -> Option<String> {
    track.verdict.reason.map(|reason| quoted(reason.word()))
}

/// Returns the small line of a route: its calls in each bucket.
fn spark(track: &Track) -> String {
    let calls = SERIES.iter().position(|series| series.name == "calls");
    let values = track.latest(calls.unwrap_or(0), SPARK);
    array(values.map(|value| number(f64::from(value))))
}

fn event_loop(now: &LoopNow) -> String {
    let report = &now.report;
    Object::new()
        .text("name", &report.name)
        .raw("busy", number(now.busy))
        .raw("late_mean_ms", number(millis(report.late_mean)))
        .raw("late_max_ms", number(millis(report.late_max)))
        .raw("longest_ms", number(millis(report.longest)))
        .optional("longest_task", report.longest_task.as_deref().map(quoted))
        .raw("stalls", report.stalls)
        .end()
}

fn knob(knob: &Knob) -> String {
    Object::new()
        .text("name", &knob.name)
        .text("title", &knob.title)
        .raw("choices", array(knob.choices.iter().map(|one| quoted(one))))
        .text("value", &knob.value)
        .end()
}

fn log<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    array(entries.map(|entry| {
        Object::new()
            .raw("time_ms", entry.time_ms)
            .text("kind", entry.kind)
            .text("origin", &entry.origin)
            .text("what", &entry.what)
            .optional("route", entry.route.as_deref().map(quoted))
            .end()
    }))
}

fn seen(seen: &Seen) -> String {
    let (from, to, why) = match seen.what {
        What::Breaker { from, to } => (from, to, ""),
        What::Limit { from, to, why } => (from, to, why),
    };
    Object::new()
        .raw("time_ms", seen.time_ms)
        .raw("from", from)
        .raw("to", to)
        .text("why", why)
        .end()
}

//! The clients of the page: a full snapshot, then changes, twice a second.
//!
//! A sample is taken on a thread that may block, whether or not a page is open, so that a page has a
//! history when it opens. Frames are made there, too, once for all pages that are equally far, and
//! sent on the loop. What a page gets follows from the last sample that it has: a page that does not
//! take a frame gets a larger one later, and none is kept for it.
//!
//! ```text
//!   loop:    tick ──▶ (busy? then the next one samples) ──▶ submit ┐         ┌─▶ send, again if wanted
//!   worker:                                                       └▶ sample, make frames ┘
//! ```

use std::sync::{Arc, Mutex, MutexGuard};

use tidegate::http::{Response, ResponseStream};
use tidegate::loops::EventLoop;
use tidegate::net::Bytes;
use tidegate::pool::WorkerPool;
use tidegate_core::internal::lock;
use tidegate_core::permits::{Permit, Permits};

use super::controls::Controls;
use super::event::{Events, WallTime};
use super::gather::Gather;
use super::guests::Kept;
use crate::page::{History, PERIOD, millis};

/// The pages of a listener, and the history that they show.
pub(super) struct Pages {
    home: EventLoop,
    workers: WorkerPool,
    controls: Arc<dyn Controls>,
    events: Arc<Events>,
    wall: WallTime,
    places: Permits,
    max: usize,
    history: Mutex<History>,
    /// Held while a sample is taken. Readers of the history do not wait for it.
    gather: Mutex<Gather>,
    /// Used on the loop only, but for the end.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clients: Vec<Client>,
    /// A worker takes a sample or makes frames.
    is_busy: bool,
    /// What is to be done after that.
    wants: Option<Job>,
    is_closed: bool,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    /// Makes frames for clients that have none.
    Frames,
    /// Takes a sample and makes frames.
    Sample,
}

struct Client {
    stream: ResponseStream,
    /// Where it is.
    at: Position,
    _place: Permit,
    _kept: Kept,
}

/// What a client has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Position {
    /// What it says that it has.
    Claims(Option<String>),
    /// All up to a sample.
    Has(u64),
}

/// A frame for all clients at a position, and the sample up to which it reaches. They share its bytes.
struct Frame {
    from: Position,
    text: Bytes,
    to: u64,
}

impl Pages {
    pub(super) fn new(
        home: EventLoop,
        workers: WorkerPool,
        (controls, events): (Arc<dyn Controls>, Arc<Events>),
        wall: WallTime,
        max: usize,
    ) -> Arc<Self> {
        let history = History::new(millis(wall()));
        Arc::new(Self {
            home,
            workers,
            controls,
            events,
            wall,
            places: Permits::new(max),
            max,
            history: Mutex::new(history),
            gather: Mutex::default(),
            state: Mutex::default(),
        })
    }

    /// Takes a sample now and then each period, until the end.
    pub(super) fn start(self: &Arc<Self>) {
        let pages = Arc::clone(self);
        // If the loop is ending, there is nothing to show.
        let _ = self.home.execute(move || pages.tick());
    }

    /// Begins a page. `id` is the last sample that it has. A page too many is told so.
    pub(super) fn begin(self: &Arc<Self>, id: Option<String>, response: Response<'_>, kept: Kept) {
        let mut stream = response
            .field("Content-Type", "text/event-stream")
            .field("Cache-Control", "no-store")
            .field("X-Content-Type-Options", "nosniff")
            .stream();
        // A page that has left gives its place back at once.
        let gone = self.state().take_closed();
        drop(gone);
        let mut state = self.state();
        let place = match state.is_closed {
            true => None,
            false => self.places.try_acquire(),
        };
        let Some(place) = place else {
            drop(state);
            let why = format!(
                "at most {} pages are open at once; close one of them",
                self.max
            );
            let why = crate::json::Object::new().text("why", &why).end();
            stream.write(format!("event: refused\ndata: {why}\n\n"));
            return stream.finish();
        };
        state.clients.push(Client {
            stream,
            at: Position::Claims(id),
            _place: place,
            _kept: kept,
        });
        drop(state);
        self.want(Job::Frames);
    }

    /// Returns what a reader makes of the history, which has at least one sample. May block.
    pub(super) fn read<R>(&self, read: impl FnOnce(&History) -> R) -> R {
        if self.history().sample == 0 {
            self.sample(false);
        }
        read(&self.history())
    }

    /// Returns what a reader makes of the present. May block.
    pub(super) fn read_now<R>(&self, read: impl FnOnce(&History) -> R) -> R {
        self.sample(false);
        read(&self.history())
    }

    /// Ends all pages. Later ones are refused.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let clients = std::mem::take(&mut state.clients);
        drop(state);
        for client in clients {
            client.stream.finish();
        }
    }

    /// Asks for a sample, and comes back. Runs on the loop.
    fn tick(self: &Arc<Self>) {
        if self.state().is_closed {
            return;
        }
        self.want(Job::Sample);
        let pages = Arc::clone(self);
        // If the loop is ending, there is nothing to show.
        let _ = self.home.schedule(PERIOD, move || pages.tick());
    }

    /// Has a job done, now or after the one that is being done.
    fn want(self: &Arc<Self>, job: Job) {
        let mut state = self.state();
        if state.is_busy {
            state.wants = state.wants.max(Some(job));
            return;
        }
        let positions = state.positions();
        if job == Job::Frames && positions.is_empty() {
            return;
        }
        state.is_busy = true;
        drop(state);
        // If all threads are busy, this sample is left out.
        let working = Working(Some(Arc::clone(self)));
        let _ = self.workers.submit(move || working.run(job, positions));
    }

    /// Takes a sample, that of a period or another one. May block.
    fn sample(&self, is_tick: bool) {
        let mut gather = lock(&self.gather);
        let kind = (is_tick, is_tick && self.history().wants_latencies());
        let sample = gather.sample(&*self.controls, &self.events, (self.wall)(), kind);
        self.history().add(sample);
    }

    /// Sends frames to the clients that can take them. Runs on the loop.
    fn send(self: &Arc<Self>, frames: &[Frame]) {
        let mut state = self.state();
        let gone = state.take_closed();
        for client in &mut state.clients {
            let mut frames = frames.iter();
            let Some(frame) = frames.find(|frame| frame.from == client.at) else {
                continue;
            };
            if client.stream.is_writable() {
                client.stream.write(frame.text.clone());
                client.at = Position::Has(frame.to);
            }
        }
        drop(state);
        drop(gone);
    }

    /// Ends the job, and begins the next one if there is one.
    fn rest(self: &Arc<Self>) {
        let mut state = self.state();
        state.is_busy = false;
        let wants = state.wants.take();
        drop(state);
        if let Some(job) = wants {
            self.want(job);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }
}

/// The job that is being done. It ends even if a part of the gateway panics.
struct Working(Option<Arc<Pages>>);

impl Working {
    /// Takes a sample and makes frames. Runs on a worker.
    fn run(self, job: Job, positions: Vec<Position>) {
        let Some(pages) = self.0.clone() else {
            return;
        };
        if job == Job::Sample || pages.history().sample == 0 {
            pages.sample(job == Job::Sample);
        }
        let history = pages.history();
        let frames = positions.into_iter();
        let frames = frames.filter_map(|from| frame(&history, from));
        let frames: Vec<Frame> = frames.collect();
        drop(history);
        let home = pages.home.clone();
        // If the loop is ending, nothing is sent.
        let _ = home.execute(move || {
            pages.send(&frames);
            drop(self);
        });
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(pages) = self.0.take() {
            pages.rest();
        }
    }
}

impl State {
    fn take_closed(&mut self) -> Vec<Client> {
        let gone = self.clients.extract_if(.., |one| one.stream.is_closed());
        gone.collect()
    }

    /// Returns the positions of clients that can take a frame, each once.
    fn positions(&self) -> Vec<Position> {
        let mut positions: Vec<Position> = Vec::new();
        for client in self.clients.iter().filter(|one| one.stream.is_writable()) {
            if !positions.contains(&client.at) {
                positions.push(client.at.clone());
            }
        }
        positions
    }
}

/// Makes the frame for clients at a position. A client that has everything gets none.
fn frame(history: &History, from: Position) -> Option<Frame> {
    let since = match &from {
        Position::Has(sample) if *sample == history.sample => return None,
        // Routes were added or removed.
        Position::Has(sample) if *sample < history.keys_changed => None,
        Position::Has(sample) => Some(*sample),
        Position::Claims(id) => id.as_deref().and_then(|id| history.resume(id)),
    };
    let (event, data) = match since {
        Some(since) => ("change", history.changes(since)),
        None => ("full", history.snapshot()),
    };
    let id = history.id();
    // The time after which a browser comes back.
    let retry = match from {
        Position::Claims(_) => "retry: 1000\n",
        Position::Has(_) => "",
    };
    Some(Frame {
        from,
        text: format!("{retry}id: {id}\nevent: {event}\ndata: {data}\n\n").into(),
        to: history.sample,
    })
}

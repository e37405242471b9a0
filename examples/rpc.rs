//! A client for remote calls: frames with a length, a number for each call, a promise for each
//! answer and a limit for each wait. Answers may come in any order.

use std::collections::HashMap;
use std::io::{Error, ErrorKind};

use tidegate::net::handlers::{LengthField, LengthFrames, LengthPrefix};
use tidegate::net::{Message, PipelineBuilder, pinned};
use tidegate::prelude::*;

const LIMIT: Duration = Duration::from_secs(5);

/// A call on its way through the pipeline, with the promise of its answer.
struct Call(Bytes, Promise<Bytes>);

/// How much the call counts against the limits of the channel while it waits to be sent.
impl Message for Call {
    fn size(&self) -> usize {
        self.0.len()
    }

    /// The connection is closed, or too much waits to be sent.
    fn refused(self, why: Failure) {
        let _ = self.1.fail(why);
    }
}

/// Numbers the calls of one connection, and completes each with the answer of the same number.
#[derive(Default)]
struct Calls {
    last: u64,
    /// The promise of each answer, and the timer that limits the wait.
    open: HashMap<u64, (Promise<Bytes>, Option<Completion<()>>)>,
}

impl Outbound for Calls {
    type Take = Call;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, Call(question, promise): Call, ctx: &mut OutboundContext<'_, Self>) {
        self.last += 1;
        let limit = ctx.schedule(LIMIT, self.last);
        self.open.insert(self.last, (promise, limit));
        ctx.write([&self.last.to_be_bytes()[..], &question].concat());
    }
}

impl Inbound for Calls {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn read(&mut self, mut frame: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let Some(number) = frame.get(..8).and_then(|head| head.try_into().ok()) else {
            return ctx.fire_error(Failure::new(Error::other("a frame without a number")));
        };
        if let Some((promise, limit)) = self.open.remove(&u64::from_be_bytes(number)) {
            limit.map(|limit| limit.cancel());
            // Fails if the caller has cancelled and no longer wants the answer.
            let _ = promise.succeed(frame.split_off(8));
        }
    }

    fn timer(&mut self, number: u64, _: &mut InboundContext<'_, Self>) {
        if let Some((promise, _)) = self.open.remove(&number) {
            let _ = promise.fail(Failure::new(Error::from(ErrorKind::TimedOut)));
        }
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        for (_, (promise, _)) in self.open.drain() {
            let _ = promise.fail(Failure::new(Error::from(ErrorKind::ConnectionReset)));
        }
        ctx.fire_inactive();
    }
}

/// The server: answers each call with the same number and its question in upper case.
struct Shout;

impl Inbound for Shout {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn read(&mut self, frame: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let (number, question) = frame.split_at(frame.len().min(8));
        ctx.write([number, &question.to_ascii_uppercase()].concat());
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

/// Frames of at most 64 KiB, each behind its length in four bytes. Both sides use them.
fn framed(pipeline: PipelineBuilder) -> PipelineBuilder {
    let frames = LengthFrames::new(LengthField::u32(), 64 * 1024).expect("the field is valid");
    let prefix = LengthPrefix::new(LengthField::u32()).expect("the field is valid");
    pipeline
        .add("frames", frames)
        .add_outbound("prefix", prefix)
}

fn main() -> tidegate::Result<()> {
    let group = pinned("rpc", 2)?;
    let server = Server::builder(&group)
        .pipeline(|p| framed(p).add("shout", Shout))
        .bind("127.0.0.1:0")
        .wait()?;
    let channel = Client::builder(&group)
        .pipeline(|p| framed(p).add_duplex("calls", Calls::default()))
        .connect(server.local_addr())
        .wait()?;

    let ask = |question: &'static str| {
        let (promise, answer) = tidegate::promise::promise::<Bytes>();
        channel.write_and_flush(Call(Bytes::from(question), promise));
        answer
    };
    let answers = ["one", "two", "three"].map(ask);
    for answer in answers {
        println!("{}", String::from_utf8_lossy(&answer.wait()?));
    }
    channel.close().wait()?;
    let late = ask("four").wait().expect_err("the connection is closed");
    println!("after the end: {late}");
    Ok(())
}

//! A chat room: `chat [ADDRESS]`. Each message goes to all other guests. With an address it is open
//! until `SIGTERM` or Ctrl-C.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::net::handlers::{LineFrames, Strings};
use tidegate::net::{Channel, Draining, Inbound, InboundContext, Nothing, Server, UserEvent};
use tidegate::promise::Completion;
use tidegate::signal;

/// All guests of the room, on any event loop.
type Room = Arc<Mutex<Vec<Channel>>>;

struct Guest {
    room: Room,
}

impl Guest {
    fn tell_others(&self, me: &Channel, text: &str) {
        let others = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        for other in others.iter().filter(|other| *other != me) {
            // A guest that does not read misses messages, instead of filling our memory.
            if other.is_writable() {
                other.write(format!("{text}\n"));
                other.flush();
            }
        }
    }
}

impl Inbound for Guest {
    type In = String;
    type Out = Nothing;
    type Write = String;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let me = ctx.channel();
        self.tell_others(&me, "a guest joined");
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        room.push(me);
        ctx.write(format!("welcome, you are number {}\n", room.len()));
        ctx.flush();
    }

    fn read(&mut self, line: String, ctx: &mut InboundContext<'_, Self>) {
        if line == "/quit" {
            return ctx.close();
        }
        self.tell_others(&ctx.channel(), &line);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Draining>().is_some() {
            ctx.write("the room closes\n".to_owned());
            ctx.close_when_flushed();
        }
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let me = ctx.channel();
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        room.retain(|other| *other != me);
    }
}

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    let group = tidegate::net::pinned("chat", 2)?;
    let room = Room::default();
    let server = Server::builder(&group)
        .pipeline(move |p| {
            let room = Arc::clone(&room);
            p.add("lines", LineFrames::max(1024))
                .add_duplex("text", Strings::lossy())
                .add("guest", Guest { room })
        })
        .bind(address.as_deref().unwrap_or("127.0.0.1:0"))
        .wait()?;
    let drained = server.drain_on(Completion::any([signal::terminate(), signal::interrupt()]));
    println!("chat on {}", server.local_addr());
    if address.is_some() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    let enter = || -> std::io::Result<_> {
        let mut guest = BufReader::new(TcpStream::connect(server.local_addr())?);
        let mut welcome = String::new();
        guest.read_line(&mut welcome)?;
        print!("{welcome}");
        Ok(guest)
    };
    let (mut anna, mut bert) = (enter()?, enter()?);
    bert.get_mut().write_all(b"hello, Anna\n")?;
    let mut heard = String::new();
    for _ in 0..2 {
        anna.read_line(&mut heard)?;
    }
    print!("{heard}");
    Ok(())
}

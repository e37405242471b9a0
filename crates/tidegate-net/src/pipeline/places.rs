//! Putting handlers into a chain, and taking them out again.

use super::change::{Place, What};
use super::handler::{Held, Own, Shape};
use super::lodged::Lodged;
use super::parts::{Action, Meta, Parts};
use super::{Name, Pipeline};

impl<E: ?Sized + Held> Pipeline<E> {
    /// Tells every handler that it was added, first to last.
    pub(crate) fn begin(&mut self) {
        let ids: Vec<_> = self.parts.metas.iter().map(|meta| meta.id).collect();
        for id in ids {
            let what = Own::Added;
            self.start(Action::Own { id, what });
        }
    }

    /// Takes every handler out, last to first.
    pub(crate) fn end(&mut self) {
        while let Some(meta) = self.parts.metas.last() {
            let id = meta.id;
            self.remove(id);
            self.run();
            if self.parts.metas.last().is_some_and(|meta| meta.id == id) {
                // Its end panicked: it goes all the same.
                self.drop_handler(id);
            }
        }
    }

    pub(super) fn apply(&mut self, what: What<Lodged>) {
        match what {
            What::Insert {
                place,
                name,
                handler,
            } => {
                let named = |name: &Name| self.position(name);
                let at = match &place {
                    Place::First => Some(0),
                    Place::Last => Some(self.handlers.len()),
                    Place::Before(other) => named(other),
                    Place::After(other) => named(other).map(|at| at + 1),
                };
                if let Some(at) = at {
                    self.insert(at, name, handler);
                }
            }
            What::Remove { name } => {
                if let Some(at) = self.position(&name) {
                    self.remove(self.parts.metas[at].id);
                }
            }
            What::Replace { old, name, handler } => {
                if let Some(at) = self.position(&old) {
                    let id = self.parts.metas[at].id;
                    // The new one stands behind the old one, so that it gets what the old one
                    // passes on at its end; and is told before it.
                    self.remove(id);
                    self.insert(at + 1, name, handler);
                }
            }
        }
    }

    fn position(&self, name: &Name) -> Option<usize> {
        self.parts.metas.iter().position(|meta| meta.name == *name)
    }

    fn insert(&mut self, at: usize, name: Name, handler: Lodged) {
        let Some(made) = handler.take() else { return };
        let shape = made.shape();
        let Some(handler) = E::hold(made) else { return };
        let meta = meta(&mut self.parts, name, shape);
        let id = meta.id;
        self.parts.metas.insert(at, meta);
        self.parts.sum_up();
        self.handlers.insert(at, handler);
        self.make_way(at);
        let what = Own::Added;
        self.parts.stack.push(Action::Own { id, what });
    }

    /// Begins to take a handler out: nothing reaches it any more but the news of its removal.
    pub(super) fn remove(&mut self, id: u32) {
        let Some(at) = self.find(id) else { return };
        let lingers = self.handlers[at].lingers();
        let meta = &mut self.parts.metas[at];
        meta.name = Name::Borrowed("");
        if !lingers {
            meta.mask = 0;
            self.parts.sum_up();
            self.parts.stack.push(Action::Drop { id });
        }
        let what = Own::Removed;
        self.parts.stack.push(Action::Own { id, what });
    }

    pub(super) fn drop_handler(&mut self, id: u32) {
        let Some(at) = self.find(id) else { return };
        self.parts.metas.remove(at);
        self.parts.sum_up();
        let handler = self.handlers.remove(at);
        self.each_place(|place, _| *place -= u32::from(*place as usize > at));
        drop(handler);
    }

    /// Corrects the places of everything on the stack after a handler was put in at `new`. What goes
    /// in from there reaches it first; what goes out from who stood there, and stands behind it now,
    /// passes it.
    fn make_way(&mut self, new: usize) {
        self.each_place(|place, out| {
            let behind = *place as usize + usize::from(out) > new;
            *place += u32::from(behind);
        });
    }

    /// Shows the places of everything on the stack, and whether it goes out.
    fn each_place(&mut self, mut look: impl FnMut(&mut u32, bool)) {
        for action in &mut self.parts.stack {
            match action {
                Action::Read { at, .. } | Action::In { at, .. } => look(at, false),
                Action::Write { at, .. } | Action::Out { at, .. } => look(at, true),
                _ => {}
            }
        }
    }
}

pub(super) fn meta(parts: &mut Parts, name: Name, shape: &'static Shape) -> Meta {
    Meta {
        name,
        shape,
        id: parts.take_id(),
        mask: shape.mask(),
    }
}

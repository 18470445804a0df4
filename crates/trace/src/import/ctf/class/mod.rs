//! Event classes of another tracer as Kestrel's: structures are taken apart, and what has no type here (arrays of structures, variants, sequences of numbers)
//! becomes the text that people read.
//!
//! | room | what it does |
//! |---|---|
//! | `fields` | types of TSDL as fields of a layout, and where each value goes |
//! | `value` | reads values: numbers that later lengths refer to, strings, and anything as people read it |

mod fields;
pub(super) mod value;

use super::super::draft::Draft;
use super::bits::{Bits, Stop};
use super::names;
use super::types::Type;
use crate::event::{EventClass, EventId};
use crate::layout::Layout;
use fields::{Destination, Fields, element_size, unique};
use value::{Scope, characters, number, plain, shown, text_of};

/// An event class, and how records of it are read.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) event: EventClass,
    /// The event's context and its fields.
    parts: Vec<Node>,
    /// Targets of the fields of the stream's context, in its own order.
    stream_context: Option<Node>,
}

/// A part of an event, in the order in which its bits lie.
#[derive(Debug)]
enum Node {
    Struct(u64, Vec<(String, Self)>),
    Leaf(Type, Destination),
}

/// Rank of a process number among several: the one of the machine, not that of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    #[default]
    None,
    Container,
    Machine,
}

/// Thread of a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    /// The name; empty where the record does not say.
    pub(super) name: Vec<u8>,
    pid: (Rank, u32),
    tid: (Rank, u32),
}

impl Thread {
    /// Whether the record says which thread it is of.
    pub(super) fn is_known(&self) -> bool {
        self.tid.0 != Rank::None
    }

    /// The numbers; `running` is the thread that was last seen to run there, `process` the one that all records are of, or 0.
    pub(super) fn numbers(&self, running: u32, process: u32) -> (u32, u32) {
        let tid = match self.tid {
            (Rank::None, _) => running,
            (_, tid) => tid,
        };
        match self.pid {
            (Rank::None, _) if process != 0 => (process, tid),
            (Rank::None, _) => (tid, tid),
            (_, pid) => (pid, tid),
        }
    }
}

impl Class {
    pub(super) fn new(
        name: &str,
        id: EventId,
        contexts: [Option<&Type>; 2],
        payload: Option<&Type>,
        is_kernel: bool,
    ) -> Self {
        let name = if is_kernel {
            names::event(name)
        } else {
            name.to_owned()
        };
        let mut fields = Fields::new(name.contains("syscalls:"));
        // The fields stand first; contexts follow.
        let payload = payload.map(|ty| fields.node(ty, ""));
        let own = fields.names.len();
        fields.is_context = true;
        let [stream_context, context] = contexts.map(|ty| ty.map(|ty| fields.node(ty, "")));
        let mut all = fields.names;
        if is_kernel {
            names::fields(&name, &mut all[..own]);
        }
        let layout = Layout::new(unique(all).into_iter().zip(fields.types));
        Self {
            event: EventClass {
                id,
                name,
                kind: "tracepoint".to_owned(),
                layout,
                action: None,
                print: None,
            },
            parts: context.into_iter().chain(payload).collect(),
            stream_context,
        }
    }

    /// Reads the stream's context and what follows into a record that was begun. `true` where all of it had room.
    pub(super) fn read<'t>(
        &'t self,
        bits: &mut Bits<'_>,
        scope: &mut Scope<'t>,
        draft: &mut Draft,
        thread: &mut Thread,
    ) -> Result<(), Stop> {
        for node in self.stream_context.iter().chain(&self.parts) {
            self.node(node, "", bits, scope, draft, thread)?;
        }
        Ok(())
    }

    fn node<'t>(
        &'t self,
        node: &'t Node,
        name: &'t str,
        bits: &mut Bits<'_>,
        scope: &mut Scope<'t>,
        draft: &mut Draft,
        thread: &mut Thread,
    ) -> Result<(), Stop> {
        match node {
            Node::Struct(align, fields) => {
                bits.align(*align);
                for (name, node) in fields {
                    self.node(node, name, bits, scope, draft, thread)?;
                }
                Ok(())
            }
            Node::Leaf(ty, to) => self.leaf(ty, *to, name, bits, scope, draft, thread),
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "what a record is made of and where it goes"
    )]
    fn leaf<'t>(
        &'t self,
        ty: &'t Type,
        to: Destination,
        name: &'t str,
        bits: &mut Bits<'_>,
        scope: &mut Scope<'t>,
        draft: &mut Draft,
        thread: &mut Thread,
    ) -> Result<(), Stop> {
        let fields = self.event.layout.fields();
        match to {
            Destination::Text(index) => {
                let mut text = Vec::new();
                match text_of(ty, scope)? {
                    Some(ty) => text = characters(ty, bits, scope)?,
                    None => shown(ty, name, bits, scope, &mut text)?,
                }
                draft.hold(index, &text);
            }
            Destination::Name(index) => {
                thread.name = characters(ty, bits, scope)?;
                if let Some(index) = index {
                    draft.hold(index, &thread.name);
                }
            }
            Destination::Nowhere => shown(ty, name, bits, scope, &mut Vec::new())?,
            Destination::Pid(rank) => {
                let value = number(ty, name, bits, scope)?;
                // Several fields may say which process it was: the one of the highest rank is believed.
                if rank >= thread.pid.0 {
                    thread.pid = (rank, value as u32);
                }
            }
            Destination::Tid(rank) => {
                let value = number(ty, name, bits, scope)?;
                if rank >= thread.tid.0 {
                    thread.tid = (rank, value as u32);
                }
            }
            Destination::Field(index) => match ty {
                Type::Text => draft.hold(index, bits.text()?),
                Type::Sequence(..) => draft.hold(index, &characters(ty, bits, scope)?),
                Type::Array(element, count) => {
                    let mut all = Vec::new();
                    let size = element_size(element).unwrap_or(1);
                    for _ in 0..*count {
                        let value = plain(element, "", bits, scope)?;
                        all.extend_from_slice(&value.to_le_bytes()[..size]);
                    }
                    if let Some(field) = fields.get(index) {
                        draft.set(field, &all);
                    }
                }
                ty => {
                    let value = plain(ty, name, bits, scope)?;
                    if let Some(field) = fields.get(index) {
                        draft.set(field, &(value as u64).to_le_bytes());
                    }
                }
            },
        }
        Ok(())
    }
}

//! System calls of a recording as events: records of `raw_syscalls:sys_enter` and `sys_exit` answer programs as the tracepoints of all calls, and as those
//! of single ones (`syscalls:sys_enter_openat`), with the names and types that these have.

use crate::plan::whole_name;
use kestrel_catalog::arch;
use kestrel_catalog::catalog::tracepoint::call_arguments::{self, recorded_type};
use kestrel_catalog::catalog::{Catalog, Glob};
use kestrel_compiler::context::{Context, EventField, ProgramKind, Source, ValueType};
use kestrel_replay::call::{ARGUMENTS, CallPlaces, FIRST, NUMBER, Side, is_of_call};
use kestrel_replay::event;
use kestrel_trace::calls::{Abi, Kept, Parameter, Signature, Signatures};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::{Base, FieldType, Layout};
use kestrel_trace::syscall::{Set, usual_name};

/// The group of the tracepoints of single calls.
const GROUP: &str = "syscalls:";

/// The calls of a recording.
#[derive(Debug, Default)]
pub(super) struct Calls<'e> {
    /// The event classes of each side that have records of all calls.
    entries: Vec<&'e EventClass>,
    returns: Vec<&'e EventClass>,
    pub(super) signatures: Signatures,
    /// The calls that were asked for, where the recording says it.
    set: Option<Set>,
    /// Source of the calls' names.
    by: KnownBy,
}

/// Source of the names of a recording's calls.
#[derive(Clone, Debug, Default, PartialEq)]
enum KnownBy {
    /// The recording, which has its kernel's calls beside its records; those of 32-bit programs are kept separately.
    #[default]
    Recording,
    /// The running kernel, which is the recorded one.
    Kernel,
    /// The numbers of this architecture: names alone.
    Numbers,
    /// No names: the calls are of another architecture (`uname -m`).
    Nothing { machine: String },
}

/// System calls as an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CallEvent<'e> {
    /// The event as its own tracepoint would have recorded it.
    pub(super) class: EventClass,
    side: Side,
    /// Event classes of its records.
    pub(super) events: Vec<&'e EventClass>,
    /// The call, if it is one.
    pub(super) call: Option<(u64, Signature)>,
    /// Number of known words of the records' calls.
    words: usize,
    /// Whether only the call's name is known.
    is_named_only: bool,
}

impl<'e> Calls<'e> {
    /// The calls of a recording of these events on a machine (`uname -m`); `kernel` is that of the recording, where it runs here.
    pub(super) fn of(
        events: &'e [EventClass],
        kept: Option<&Kept>,
        kernel: Option<&Catalog>,
        machine: &str,
    ) -> Self {
        let of = |side: Side| -> Vec<&EventClass> {
            let places = |event: &&EventClass| CallPlaces::of(event).is_some_and(|it| it.side() == side);
            events.iter().filter(places).collect()
        };
        let (entries, returns) = (of(Side::Entry), of(Side::Exit));
        let (signatures, by) = match kept {
            Some(kept) => (kept.signatures(), KnownBy::Recording),
            None if entries.is_empty() && returns.is_empty() => Default::default(),
            None if machine != arch::current().name => {
                let machine = machine.to_owned();
                (Signatures::default(), KnownBy::Nothing { machine })
            }
            None => match kernel.and_then(of_kernel) {
                Some(signatures) => (signatures, KnownBy::Kernel),
                None => (by_numbers(), KnownBy::Numbers),
            },
        };
        Self {
            entries,
            returns,
            signatures,
            set: kept.map(|kept| Set::parse(&kept.set)),
            by,
        }
    }

    fn events(&self, side: Side) -> &[&'e EventClass] {
        match side {
            Side::Entry => &self.entries,
            Side::Exit => &self.returns,
        }
    }

    /// The tracepoint of all calls, where its records are of several classes: the fields in common are those of that tracepoint.
    pub(super) fn all(&self, name: &str) -> Option<CallEvent<'e>> {
        let side = Side::ALL.into_iter().find(|side| side.event() == name)?;
        let events = self.events(side);
        (events.len() > 1).then(|| CallEvent::new(side, events.to_vec(), None))
    }

    /// The calls whose tracepoints match a pattern, except those that were recorded by these; in the order of their names.
    pub(super) fn matching(&self, pattern: &str, recorded: &[&EventClass]) -> Vec<CallEvent<'e>> {
        if !pattern.starts_with(GROUP) {
            return Vec::new();
        }
        let glob = Glob::new(pattern);
        let mut found = Vec::new();
        for side in Side::ALL {
            let native =
                |event: &&EventClass| CallPlaces::of(event).is_some_and(|it| it.abi() == Abi::Native);
            let events: Vec<_> = self.events(side).iter().copied().filter(native).collect();
            if events.is_empty() {
                continue;
            }
            for (number, signature) in self.asked() {
                let name = format!("{}{}", side.prefix(), signature.call);
                if glob.matches(&name) && !recorded.iter().any(|event| event.name == name) {
                    let call = Some((number, signature.clone()));
                    found.push(CallEvent {
                        is_named_only: self.by == KnownBy::Numbers,
                        ..CallEvent::new(side, events.clone(), call)
                    });
                }
            }
        }
        found.sort_by(|a, b| a.class.name.cmp(&b.class.name));
        found
    }

    /// The calls that were recorded because they were asked for.
    fn asked(&self) -> impl Iterator<Item = (u64, &Signature)> {
        let of_set = |it: &Signature| self.set.as_ref().is_none_or(|set| it.is_in(set));
        self.signatures.of(Abi::Native).filter(move |(_, it)| of_set(it))
    }

    /// The names of all events of calls.
    pub(super) fn names(&self) -> Vec<String> {
        let sides = Side::ALL
            .into_iter()
            .filter(|side| !self.events(*side).is_empty());
        sides
            .flat_map(|side| {
                let calls = self.asked();
                calls.map(move |(_, it)| format!("{}{}", side.prefix(), it.call))
            })
            .collect()
    }

    /// A warning where single calls cannot be distinguished in the records.
    pub(super) fn warning(&self, event: &CallEvent<'_>) -> Option<String> {
        event.call.as_ref()?;
        let all = event.side.event();
        let several = match event.events.len() {
            1 => String::new(),
            count => {
                format!(", and a call that several of their {count} record()s hold counts several times")
            }
        };
        (self.by != KnownBy::Recording).then(|| {
            format!(
                "calls are taken by their numbers from {all}: those of 32-bit programs are among them, under what their numbers mean to others{several}"
            )
        })
    }

    /// Why no name of a call is known, where a pattern asks for some and the recording has all calls.
    pub(super) fn unnamed(&self, pattern: &str) -> Option<String> {
        let KnownBy::Nothing { machine } = &self.by else {
            return None;
        };
        let is_asked = |side: &Side| {
            pattern.starts_with(GROUP) && !self.events(*side).is_empty() && {
                let name = pattern.strip_prefix(side.prefix());
                name.is_some() || !Glob::new(pattern).is_plain()
            }
        };
        let side = Side::ALL.into_iter().find(is_asked)?;
        let machine = match machine.as_str() {
            "" => "a machine that the recording does not name",
            machine => machine,
        };
        Some(format!(
            "{} has the numbers of all calls: which calls these are on {machine} is not known here",
            side.event()
        ))
    }

    /// A hint at how to record a call that was not among the requested ones.
    pub(super) fn left_out(&self, name: &str) -> Option<String> {
        let call = Side::ALL.into_iter().find_map(|side| {
            name.strip_prefix(side.prefix())
                .filter(|_| !self.events(side).is_empty())
        })?;
        let (_, signature) = self.signatures.named(call)?;
        Some(format!(
            "record it: kestrel record --syscalls={}",
            signature.shown()
        ))
    }

    /// The message about a name that none of the calls has, which are known and were recorded: the call that is usually called so.
    pub(super) fn unknown(&self, name: &str) -> Option<Option<String>> {
        let (side, call) = Side::ALL
            .into_iter()
            .find_map(|side| Some((side, name.strip_prefix(side.prefix())?)))?;
        if self.events(side).is_empty() || !Glob::new(name).is_plain() {
            return None;
        }
        let mut calls = self.signatures.of(Abi::Native);
        let meant = calls.find(|(_, it)| usual_name(&it.call) == usual_name(call));
        Some(meant.map(|(_, it)| format!("the kernel's name for it: {}{}", side.prefix(), it.call)))
    }

    /// The types that the fields of a call's entry have, where it was recorded by its own tracepoint.
    pub(super) fn declare(&self, event: &EventClass, context: &mut Context) {
        let Some(call) = event.name.strip_prefix(Side::Entry.prefix()) else {
            return;
        };
        let own = Signature::of_event(call, event);
        let known = self.signatures.named(call).map(|(_, known)| known);
        for parameter in own.parameters.iter() {
            let same = known.and_then(|it| it.parameters.iter().find(|it| it.name == parameter.name));
            if let (FieldType::Pointer { .. }, Some(ty)) =
                (&parameter.ty, recorded_type(same.unwrap_or(parameter)))
                && let Some(field) = context.fields.iter_mut().find(|it| it.name == parameter.name)
            {
                field.ty = ty;
            }
        }
    }
}

/// The calls of the running kernel.
fn of_kernel(catalog: &Catalog) -> Option<Signatures> {
    let mut signatures = Signatures::default();
    for (number, signature) in call_arguments::signatures(catalog).ok()? {
        signatures.insert(number.into(), signature);
    }
    Some(signatures)
}

/// The names of this architecture's calls, which are those of their tracepoints.
fn by_numbers() -> Signatures {
    let mut signatures = Signatures::default();
    for number in 0..=arch::HIGHEST_SYSCALL {
        if let Some(name) = (arch::current().traced_name)(number) {
            signatures.insert(number.into(), Signature::new(name, []));
        }
    }
    signatures
}

fn long(signed: bool, base: Base) -> ValueType {
    ValueType::Integer {
        size: 8,
        signed,
        base,
    }
}

/// Bytes of a value at the beginning of its word.
fn size(ty: &ValueType) -> u8 {
    match ty {
        ValueType::Integer { size, .. } => *size,
        _ => 8,
    }
}

fn field(name: &str, ty: ValueType, offset: u32) -> EventField {
    EventField {
        name: name.to_owned(),
        source: Source::Context {
            offset,
            size: size(&ty),
        },
        ty,
        recorded: true,
    }
}

impl<'e> CallEvent<'e> {
    fn new(side: Side, events: Vec<&'e EventClass>, call: Option<(u64, Signature)>) -> Self {
        let places = events.iter().filter_map(|event| CallPlaces::of(event));
        let words = places.map(|it| it.words()).min().unwrap_or(0);
        let name = match &call {
            Some((_, signature)) => format!("{}{}", side.prefix(), signature.call),
            None => side.event().to_owned(),
        };
        let parameters = call.iter().flat_map(|(_, signature)| &signature.parameters);
        // Words that lie where programs find them, so that messages have their names.
        let arguments = parameters.take(words).map(|it| {
            let ty = FieldType::Pointer { symbolic: false };
            (it.name.clone(), ty)
        });
        let arguments: Vec<_> = arguments.filter(|_| side == Side::Entry).collect();
        let class = EventClass {
            id: EventId(0),
            name,
            kind: "tracepoint".to_owned(),
            layout: Layout::new(arguments.into_iter().chain(common(&events))),
            action: None,
            print: None,
        };
        Self {
            class,
            side,
            events,
            call,
            words,
            is_named_only: false,
        }
    }

    /// The number of the call, if it is one.
    pub(super) fn number(&self) -> Option<u64> {
        self.call.as_ref().map(|(number, _)| *number)
    }

    /// The reason why it has no field of a name, where records are complete.
    pub(super) fn lacks(&self, name: &str) -> Option<String> {
        let (_, signature) = self.call.as_ref()?;
        if self.is_named_only && self.side == Side::Entry {
            return Some(format!(
                "names of arguments are those of the recorded kernel, which is not the running one, or cannot be asked: {} has them as args.args[0] to args.args[5]",
                self.side.event()
            ));
        }
        let known = match self.side {
            Side::Entry => signature.parameters.len() <= self.words && !signature.parameters.is_empty(),
            Side::Exit => self.words > 0,
        };
        let has = signature.parameters.iter().any(|it| it.name == name);
        (known && !(has && self.side == Side::Entry)).then(|| format!("{} has none", self.class.name))
    }

    /// The event as the compiler's context.
    pub(super) fn context(&self) -> Context {
        let returned = || (self.words > 0).then(|| field("ret", long(true, Base::Decimal), FIRST));
        let number = |name: &str, size| {
            let ty = ValueType::Integer {
                size,
                signed: true,
                base: Base::Decimal,
            };
            field(name, ty, NUMBER)
        };
        // Names and sizes are those of the tracepoints' `format` files.
        let fields: Vec<EventField> = match (&self.call, self.side) {
            (Some((_, signature)), Side::Entry) => {
                let known = signature.parameters.iter().take(self.words.min(ARGUMENTS));
                let argument = |(place, it): (u32, &Parameter)| {
                    Some(field(&it.name, recorded_type(it)?, FIRST + 8 * place))
                };
                let arguments = (0..).zip(known).filter_map(argument);
                std::iter::once(number("__syscall_nr", 4))
                    .chain(arguments)
                    .collect()
            }
            (Some(_), Side::Exit) => std::iter::once(number("__syscall_nr", 4))
                .chain(returned())
                .collect(),
            (None, Side::Entry) => {
                let count = self.words as u32;
                let array = || EventField {
                    name: "args".to_owned(),
                    ty: ValueType::Array {
                        element: Box::new(long(false, Base::Hexadecimal)),
                        count,
                    },
                    source: Source::ContextArray {
                        offset: FIRST,
                        bytes: 8 * count,
                    },
                    recorded: true,
                };
                let arguments = (count > 0).then(array);
                std::iter::once(number("id", 8)).chain(arguments).collect()
            }
            (None, Side::Exit) => std::iter::once(number("id", 8)).chain(returned()).collect(),
        };
        Context {
            return_value: fields.iter().find(|field| field.name == "ret").cloned(),
            fields,
            features: event::features(),
            ..Context::new(
                whole_name(&self.class.kind, &self.class.name),
                ProgramKind::Tracepoint,
            )
        }
    }
}

/// The fields that records of all classes have beside their calls, such as stacks.
fn common(events: &[&EventClass]) -> Vec<(String, FieldType)> {
    let Some((first, rest)) = events.split_first() else {
        return Vec::new();
    };
    let has = |event: &EventClass, name: &str, ty: &FieldType| {
        let mut fields = event.layout.fields().iter();
        fields.any(|field| field.name == name && field.ty == *ty)
    };
    let fields = first.layout.fields().iter();
    fields
        .filter(|field| !is_of_call(&field.name))
        .filter(|field| rest.iter().all(|event| has(event, &field.name, &field.ty)))
        .map(|field| (field.name.clone(), field.ty.clone()))
        .collect()
}

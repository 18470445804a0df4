//! Reads back the `TraceInfo` that metadata was written from, from the parsed tree of TSDL. Metadata of other tracers is refused with a clear message.

use super::cursor::{Entry, Length};
use super::hint::{Hint, decode};
use super::tree::{Block, Integer, Type, blocks};
use crate::action::Action;
use crate::error::{Error, Result};
use crate::event::{EventClass, EventId};
use crate::info::{BufferInfo, BufferMode, ClockOffset, TraceInfo, Uuid};
use crate::layout::{Base, FieldType, Layout};
use crate::stack_pieces::PIECE;
use kestrel_layout::tsdl::{CONTEXT, END, FORMAT, HEADER, identifiers, length_name};

/// Parses metadata text that Kestrel wrote.
///
/// Errors name the line. Text of other tracers is refused even if it is valid CTF.
pub fn parse(text: &str) -> Result<TraceInfo> {
    let blocks = blocks(text)?;
    let one = |name: &str| match blocks.iter().find(|block| block.name == name) {
        Some(block) => Ok(block),
        None => Err(Error::Metadata {
            line: 1,
            why: format!("there is no {name} block"),
        }),
    };
    let env = one("env")?;
    check_tracer(env)?;
    let trace = one("trace")?;
    trace.shape("packet.header", HEADER)?;
    one("stream")?.shape("packet.context", CONTEXT)?;
    let Some(uuid) = Uuid::parse(trace.text("uuid")?) else {
        return trace.fail("the uuid is none");
    };
    let text = |key| env.text(key).map(str::to_owned);
    Ok(TraceInfo {
        uuid,
        clock: clock(one("clock")?)?,
        hostname: text("hostname")?,
        kernel_release: text("kernel_release")?,
        machine: text("machine")?,
        tracer_version: text("tracer_version")?,
        command: text("command")?,
        session: text("session").unwrap_or_default(),
        boot: text("boot_id").unwrap_or_default(),
        buffers: buffers(env)?,
        events: blocks
            .iter()
            .filter(|block| block.name == "event" && block.number("id").ok() != Some(PIECE.0))
            .map(|block| event(block, env))
            .collect::<Result<_>>()?,
    })
}

impl Block {
    fn fail<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Error::Metadata {
            line: self.line,
            why: why.into(),
        })
    }

    fn text(&self, key: &str) -> Result<&str> {
        match self.entries.get(key) {
            Some(Entry::Text(text)) => Ok(text),
            _ => self.fail(format!("{} has no text {key}", self.name)),
        }
    }

    fn number<N: TryFrom<i128>>(&self, key: &str) -> Result<N> {
        let number = match self.entries.get(key) {
            Some(Entry::Number(number)) => N::try_from(*number).ok(),
            _ => None,
        };
        match number {
            Some(number) => Ok(number),
            None => self.fail(format!("{} has no number {key}", self.name)),
        }
    }

    fn fields(&self, key: &str) -> Result<&[(String, Type)]> {
        match self.entries.get(key) {
            Some(Entry::Type(Type::Struct(fields))) => Ok(fields),
            _ => self.fail(format!("{} has no struct {key}", self.name)),
        }
    }

    /// Checks that a struct has the members and widths that Kestrel's pages have.
    fn shape(&self, key: &str, shape: &[(&str, u32)]) -> Result<()> {
        let fields = self.fields(key)?;
        let same = fields.len() == shape.len()
            && fields.iter().zip(shape).all(|((name, ty), (expected, bits))| {
                name == expected && width(ty) == Some(u64::from(*bits))
            });
        if same {
            Ok(())
        } else {
            self.fail(format!("{key} is not laid out as Kestrel's packets are"))
        }
    }
}

fn width(ty: &Type) -> Option<u64> {
    match ty {
        Type::Integer(integer) => Some(integer.bits),
        Type::Float(size) => Some(u64::from(*size) * 8),
        Type::Array(element, Length::Constant(count)) => width(element)?.checked_mul(u64::from(*count)),
        Type::Struct(fields) => fields
            .iter()
            .try_fold(0_u64, |all, (_, ty)| all.checked_add(width(ty)?)),
        Type::Enumeration(integer, _) => Some(integer.bits),
        Type::Array(_, Length::Field(_)) => None,
    }
}

fn check_tracer(env: &Block) -> Result<()> {
    let tracer = env.text("tracer_name").unwrap_or("another tracer");
    if tracer != "kestrel" {
        return env.fail(format!(
            "it was written by {tracer}, not by Kestrel; babeltrace2 reads any CTF trace"
        ));
    }
    let format: u64 = env.number("trace_format")?;
    if format != FORMAT {
        return env.fail(format!(
            "trace format {format} is not known to this version, which reads format {FORMAT}"
        ));
    }
    Ok(())
}

fn clock(block: &Block) -> Result<ClockOffset> {
    let frequency: u64 = block.number("freq")?;
    if frequency != 1_000_000_000 {
        return block.fail("the clock does not count ns");
    }
    Ok(ClockOffset {
        seconds: block.number("offset_s")?,
        nanoseconds: block.number("offset")?,
    })
}

fn buffers(env: &Block) -> Result<Vec<BufferInfo>> {
    let mut all = Vec::new();
    for (key, entry) in &env.entries {
        let (Some(number), Entry::Text(text)) = (key.strip_prefix("buffer_"), entry) else {
            continue;
        };
        match buffer(number, text) {
            Some(buffer) => all.push(buffer),
            None => return env.fail(format!("{key} does not describe a buffer")),
        }
    }
    all.sort_unstable_by_key(|buffer| buffer.number);
    Ok(all)
}

fn buffer(number: &str, text: &str) -> Option<BufferInfo> {
    let mut words = text.split(' ');
    let buffer = BufferInfo {
        number: number.parse().ok()?,
        name: decode(words.next()?)?,
        mode: match words.next()? {
            "overwrite" => BufferMode::Overwrite,
            "discard" => BufferMode::Discard,
            _ => return None,
        },
        bytes_per_cpu: words.next()?.parse().ok()?,
    };
    words.next().is_none().then_some(buffer)
}

fn event(block: &Block, env: &Block) -> Result<EventClass> {
    let id: u16 = block.number("id")?;
    let name = block.text("name")?.to_owned();
    let Ok(hints) = env.text(&format!("event_{id}")) else {
        return block.fail(format!("env says nothing about event {id}, {name}"));
    };
    let Some(Hinted {
        kind,
        action,
        print,
        fields,
    }) = hinted(hints)
    else {
        return block.fail(format!(
            "env's words about event {id}, {name}, are not understood"
        ));
    };
    let declared = block.fields("fields")?;
    let names = identifiers(
        fields
            .iter()
            .map(|(name, hint)| (name.as_str(), hint.as_ref().is_some_and(Hint::is_variable))),
    );
    let mut typed = Vec::new();
    for ((field, hint), identifier) in fields.into_iter().zip(&names) {
        let found = declared
            .iter()
            .find(|(declared, _)| declared.strip_prefix('_') == Some(identifier));
        match found.and_then(|(_, ty)| field_type(ty, hint.as_ref())) {
            Some(ty) => typed.push((field, ty)),
            None => {
                return block.fail(format!(
                    "field {field} of event {name} is not as Kestrel writes it"
                ));
            }
        }
    }
    let layout = match declared.iter().any(|(_, ty)| begins_word(ty)) {
        true if typed.iter().any(|(_, ty)| ty.is_variable()) => {
            return block.fail(format!("the words of event {name} hold what has no fixed size"));
        }
        true => Layout::words(typed),
        false => Layout::new(typed),
    };
    // Records are decoded by this layout, so it must be the one that they were written with.
    if !same_order(&layout, &names, declared) {
        return block.fail(format!(
            "the fields of event {name} do not lie as Kestrel lays them out"
        ));
    }
    Ok(EventClass {
        id: EventId(id),
        name,
        kind,
        layout,
        action,
        print,
    })
}

/// Whether it is a short integer that a word of 8 bytes begins with: all fields have words of their own then.
fn begins_word(ty: &Type) -> bool {
    matches!(ty, Type::Integer(integer) if integer.bits < 64 && integer.align == 64)
}

/// Hints about an event, read from `env`.
struct Hinted {
    kind: String,
    /// Action of the records.
    action: Option<Action>,
    /// Print format.
    print: Option<String>,
    /// Names and hints of the fields, in reading order.
    fields: Vec<(String, Option<Hint>)>,
}

fn hinted(text: &str) -> Option<Hinted> {
    let mut words = text.split(' ').peekable();
    let kind = decode(words.next()?)?;
    let action = match words.next_if(|word| word.starts_with('!')) {
        Some(word) => {
            let (verb, text) = word[1..].split_once(':')?;
            Some(Action {
                verb: decode(verb)?,
                text: decode(text)?,
            })
        }
        None => None,
    };
    let print = match words.next_if(|word| word.starts_with('=')) {
        Some(word) => Some(decode(&word[1..])?),
        None => None,
    };
    let fields = words.map(|word| match word.split_once(':') {
        Some((name, hint)) => Some((decode(name)?, Some(Hint::parse(hint)?))),
        None => Some((decode(word)?, None)),
    });
    Some(Hinted {
        kind,
        action,
        print,
        fields: fields.collect::<Option<_>>()?,
    })
}

fn field_type(ty: &Type, hint: Option<&Hint>) -> Option<FieldType> {
    Some(match (ty, hint) {
        // The declaration is for other readers: its bytes are those of the type.
        (ty, Some(Hint::Type(whole))) if width(ty) == Some(u64::from(whole.fixed_size()) * 8) => {
            (**whole).clone()
        }
        (Type::Array(_, Length::Field(_)), Some(Hint::Stack { space, max })) => FieldType::Stack {
            space: *space,
            max: *max,
        },
        (Type::Array(_, Length::Field(_)), Some(Hint::StackCopy { max })) => FieldType::StackCopy {
            max: *max,
            shown: None,
        },
        (Type::Array(_, Length::Field(_)), Some(Hint::String { max })) => FieldType::String { max: *max },
        (Type::Array(_, Length::Field(_)), Some(Hint::Bytes { max })) => FieldType::Bytes { max: *max },
        (Type::Array(element, Length::Constant(size)), None) if is_text(element) => {
            FieldType::CharArray { size: *size }
        }
        (Type::Array(element, Length::Constant(count)), _) => FieldType::Array {
            element: Box::new(field_type(element, hint)?),
            count: *count,
        },
        (Type::Enumeration(integer, names), None) => FieldType::Enumeration {
            size: size(integer)?,
            signed: integer.signed,
            names: names.as_slice().into(),
        },
        (Type::Integer(integer), _) => number(integer, hint)?,
        (Type::Float(size), None) => FieldType::Float { size: *size },
        _ => return None,
    })
}

fn number(integer: &Integer, hint: Option<&Hint>) -> Option<FieldType> {
    let size = size(integer)?;
    Some(match hint {
        None => FieldType::Integer {
            size,
            signed: integer.signed,
            base: match integer.base {
                10 => Base::Decimal,
                16 => Base::Hexadecimal,
                8 => Base::Octal,
                _ => return None,
            },
        },
        Some(Hint::Call(meaning)) => FieldType::Integer {
            size,
            signed: integer.signed,
            base: Base::Named(*meaning),
        },
        Some(Hint::Float) if size == 8 => FieldType::Integer {
            size,
            signed: integer.signed,
            base: Base::Float,
        },
        Some(Hint::Bool) if size == 1 => FieldType::Bool,
        Some(Hint::Pointer { symbolic }) if size == 8 => FieldType::Pointer { symbolic: *symbolic },
        Some(Hint::Flags(names)) => FieldType::Flags {
            size,
            names: names.clone(),
        },
        Some(Hint::Enumeration(names)) => FieldType::Enumeration {
            size,
            signed: integer.signed,
            names: names.clone(),
        },
        _ => return None,
    })
}

fn size(integer: &Integer) -> Option<u8> {
    matches!(integer.bits, 8 | 16 | 32 | 64).then_some((integer.bits / 8) as u8)
}

fn is_text(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Integer(Integer {
            bits: 8,
            text: true,
            ..
        })
    )
}

/// Whether the declared fields stand in the order in which `layout` lays them out: fixed part, then tail.
fn same_order(layout: &Layout, names: &[String], declared: &[(String, Type)]) -> bool {
    let mut fixed: Vec<_> = layout.fields().iter().zip(names).collect();
    fixed.sort_by_key(|(field, _)| field.memory_order());
    let fixed = fixed.into_iter().map(|(field, name)| {
        if field.ty.is_variable() {
            format!("_{}", length_name(name))
        } else {
            format!("_{name}")
        }
    });
    let tail = layout.tail().filter_map(|wanted| {
        let mut both = layout.fields().iter().zip(names);
        both.find(|(field, _)| std::ptr::eq(*field, wanted))
            .map(|(_, name)| format!("_{name}"))
    });
    let declared = declared
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| name.strip_prefix('_') != Some(END));
    fixed.chain(tail).eq(declared)
}

//! The metadata of other tracers, in the whole of TSDL (CTF 1.8): packetised or plain text, to the blocks that describe a trace.

use super::types::{Integer, Struct, Type};
use crate::ctf::metadata::cursor::{Blocks, Cursor, DEPTH, Entry, Length};
use crate::ctf::metadata::lexer::Token;
use crate::error::Result;
use std::collections::HashMap;
use std::sync::Arc;

/// Parsed metadata.
#[derive(Clone, Debug, Default)]
pub(super) struct Metadata {
    pub(super) little: bool,
    pub(super) packet_header: Option<Type>,
    pub(super) clocks: Vec<Clock>,
    pub(super) streams: Vec<StreamClass>,
    pub(super) events: Vec<EventBlock>,
    pub(super) env: HashMap<String, String>,
    /// Blocks that are not known.
    pub(super) remarks: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    pub(super) name: String,
    pub(super) frequency: u64,
    pub(super) offset_seconds: i128,
    pub(super) offset: i128,
}

#[derive(Clone, Debug, Default)]
pub(super) struct StreamClass {
    pub(super) id: u64,
    pub(super) packet_context: Option<Type>,
    pub(super) event_header: Option<Type>,
    pub(super) event_context: Option<Type>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct EventBlock {
    pub(super) id: u64,
    pub(super) stream: u64,
    pub(super) name: String,
    pub(super) context: Option<Type>,
    pub(super) fields: Option<Type>,
}

/// The first word of a packet of metadata.
const MAGIC: u32 = 0x75d1_1d57;
/// Bytes of the head of such a packet.
const HEAD: usize = 37;

/// The text of metadata.
pub(super) fn text(bytes: &[u8]) -> std::result::Result<String, String> {
    let first = bytes.first_chunk().copied().unwrap_or_default();
    let is_little = u32::from_le_bytes(first) == MAGIC;
    if !is_little && u32::from_be_bytes(first) != MAGIC {
        return Ok(String::from_utf8_lossy(bytes).into_owned());
    }
    let mut text = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let packet = &bytes[at..];
        let word = |at: usize| {
            let word = *packet.get(at..)?.first_chunk()?;
            Some(if is_little {
                u32::from_le_bytes(word)
            } else {
                u32::from_be_bytes(word)
            })
        };
        let cut = || format!("the packet of metadata at byte {at} is cut");
        if word(0) != Some(MAGIC) {
            return Err(format!(
                "what stands at byte {at} of the metadata is no packet of metadata"
            ));
        }
        let (content, size) = (
            word(24).ok_or_else(cut)? as usize / 8,
            word(28).ok_or_else(cut)? as usize / 8,
        );
        if packet.get(32..34).ok_or_else(cut)? != [0, 0] {
            return Err("the metadata are compressed or encrypted, which is not read".to_owned());
        }
        text.extend_from_slice(packet.get(HEAD..content).ok_or_else(cut)?);
        if size < HEAD {
            return Err(cut());
        }
        at += size;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Parses the text.
pub(super) fn parse(text: &str) -> Result<Metadata> {
    let mut parser = Parser {
        cursor: Cursor::new(text)?,
        names: HashMap::new(),
        shadowed: Vec::new(),
        inside: false,
        depth: 0,
        metadata: Metadata {
            little: true,
            ..Metadata::default()
        },
    };
    while parser.cursor.peek().is_some() {
        parser.top()?;
    }
    Ok(parser.metadata)
}

struct Parser {
    cursor: Cursor,
    /// Types by name: `uint32_t`, `struct x`, `unsigned long`.
    names: HashMap<String, Type>,
    /// Meanings that names of the current block had before it.
    shadowed: Vec<(String, Option<Type>)>,
    inside: bool,
    depth: u32,
    metadata: Metadata,
}

/// Most fields of a structure and most names of an enumeration.
const FIELDS: usize = 1 << 12;
const LABELS: usize = 1 << 16;

impl Blocks for Parser {
    type Type = Type;

    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }

    fn depth(&mut self) -> &mut u32 {
        &mut self.depth
    }

    fn type_itself(&mut self) -> Result<Type> {
        self.ty_inside()
    }
}

impl Parser {
    /// A block, or a type with a name.
    fn top(&mut self) -> Result<()> {
        if self.cursor.accept(';') || self.definition()? {
            return Ok(());
        }
        let name = self.cursor.word()?;
        self.cursor.expect('{')?;
        self.inside = name != "trace";
        let entries = self.entries()?;
        self.inside = false;
        self.cursor.accept(';');
        while let Some((name, before)) = self.shadowed.pop() {
            match before {
                Some(ty) => self.names.insert(name, ty),
                None => self.names.remove(&name),
            };
        }
        self.block(&name, entries);
        Ok(())
    }

    /// Reads `typealias`, `typedef`, and structures, variants and enumerations that get a name; false where there is none.
    fn definition(&mut self) -> Result<bool> {
        if self.cursor.accept_word("typealias") {
            let ty = self.ty()?;
            self.cursor.expect('≔')?;
            let name = self.alias()?;
            self.name(name, ty);
            return Ok(true);
        }
        if self.cursor.accept_word("typedef") {
            let (ty, name) = self.declaration()?;
            self.cursor.expect(';')?;
            self.name(name, ty);
            return Ok(true);
        }
        if ["struct", "variant", "enum"]
            .iter()
            .any(|word| self.cursor.is_word(word))
        {
            self.ty()?;
            self.cursor.expect(';')?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Gives a type a name, until the block at hand ends.
    fn name(&mut self, name: String, ty: Type) {
        let before = self.names.insert(name.clone(), ty);
        if self.inside {
            self.shadowed.push((name, before));
        }
    }

    /// The words that a type gets as its name.
    fn alias(&mut self) -> Result<String> {
        let mut words = Vec::new();
        while !self.cursor.accept(';') {
            match self.cursor.accept('*') {
                true => words.push("*".to_owned()),
                false => words.push(self.cursor.word()?),
            }
        }
        Ok(words.join(" "))
    }

    fn entries(&mut self) -> Result<HashMap<String, Entry<Type>>> {
        let mut entries = HashMap::new();
        while !self.cursor.accept('}') {
            if self.cursor.accept(';') || self.definition()? {
                continue;
            }
            let (key, entry) = self.entry()?;
            entries.insert(key, entry);
        }
        Ok(entries)
    }

    fn block(&mut self, name: &str, mut entries: HashMap<String, Entry<Type>>) {
        // Types are moved out of the block; numbers and texts are left in it.
        let mut ty = |key: &str| match entries.remove(key) {
            Some(Entry::Type(ty)) => Some(ty),
            _ => None,
        };
        let types: [Option<Type>; 6] = [
            ty("packet.header"),
            ty("packet.context"),
            ty("event.header"),
            ty("event.context"),
            ty("context"),
            ty("fields"),
        ];
        let [
            packet_header,
            packet_context,
            event_header,
            event_context,
            context,
            fields,
        ] = types;
        let number = |key: &str| match entries.get(key) {
            Some(Entry::Number(number)) => Some(*number),
            _ => None,
        };
        let long = |key: &str| number(key).and_then(|number| u64::try_from(number).ok());
        let text = |key: &str| match entries.get(key) {
            Some(Entry::Text(text) | Entry::Path(text)) => Some(text.clone()),
            _ => None,
        };
        match name {
            "trace" => {
                self.metadata.little = !matches!(text("byte_order").as_deref(), Some("be" | "network"));
                self.metadata.packet_header = packet_header;
            }
            "clock" => self.metadata.clocks.push(Clock {
                name: text("name").unwrap_or_default(),
                frequency: long("freq").filter(|freq| *freq > 0).unwrap_or(1_000_000_000),
                offset_seconds: number("offset_s").unwrap_or(0),
                offset: number("offset").unwrap_or(0),
            }),
            "stream" => self.metadata.streams.push(StreamClass {
                id: long("id").unwrap_or(0),
                packet_context,
                event_header,
                event_context,
            }),
            "event" => self.metadata.events.push(EventBlock {
                id: long("id").unwrap_or(0),
                stream: long("stream_id").unwrap_or(0),
                name: text("name").unwrap_or_else(|| "event".to_owned()),
                context,
                fields,
            }),
            "env" => {
                for (key, entry) in entries {
                    let text = match entry {
                        Entry::Text(text) | Entry::Path(text) => text,
                        Entry::Number(number) => number.to_string(),
                        Entry::Type(_) => continue,
                    };
                    self.metadata.env.insert(key, text);
                }
            }
            "callsite" => {}
            other => self
                .metadata
                .remarks
                .push(format!("metadata: a block {other} is not understood")),
        }
    }

    fn ty_inside(&mut self) -> Result<Type> {
        if let Some(ty) = self.own_type()? {
            return Ok(ty);
        }
        let mut words = vec![self.cursor.word()?];
        while let Some(Token::Word(_)) = self.cursor.peek() {
            words.push(self.cursor.word()?);
        }
        self.named(&words.join(" "))
    }

    fn named(&self, name: &str) -> Result<Type> {
        match self.names.get(name) {
            Some(ty) => Ok(ty.clone()),
            None => self.cursor.fail(format!("{name} is not a type")),
        }
    }

    /// A type that is spelled out, not named; none where there is a name.
    fn own_type(&mut self) -> Result<Option<Type>> {
        Ok(Some(if self.cursor.accept_word("integer") {
            Type::Integer(self.integer()?)
        } else if self.cursor.accept_word("floating_point") {
            self.float()?
        } else if self.cursor.accept_word("string") {
            if self.cursor.accept('{') {
                self.entries()?;
            }
            Type::Text
        } else if self.cursor.accept_word("struct") {
            self.with_name("struct", Self::structure)?
        } else if self.cursor.accept_word("enum") {
            self.with_name("enum", Self::enumeration)?
        } else if self.cursor.accept_word("variant") {
            self.with_name("variant", Self::variant)?
        } else {
            return Ok(None);
        }))
    }

    /// `struct NAME { … }`, `struct { … }`, `struct NAME`.
    fn with_name(&mut self, what: &str, read: fn(&mut Self) -> Result<Type>) -> Result<Type> {
        let name = match self.cursor.peek() {
            Some(Token::Word(_)) => Some(self.cursor.word()?),
            _ => None,
        };
        let follows = matches!(self.cursor.peek(), Some(Token::Mark('{' | ':' | '<')));
        match name {
            Some(name) if !follows => self.named(&format!("{what} {name}")),
            name => {
                let ty = read(self)?;
                if let Some(name) = name {
                    self.name(format!("{what} {name}"), ty.clone());
                }
                Ok(ty)
            }
        }
    }

    fn integer(&mut self) -> Result<Integer> {
        self.cursor.expect('{')?;
        let mut integer = Integer {
            bits: 0,
            align: 0,
            signed: false,
            base: 10,
            text: false,
            little: None,
            clock: None,
        };
        for (key, entry) in self.entries()? {
            match (key.as_str(), entry) {
                ("size", Entry::Number(bits @ 1..=4096)) => integer.bits = bits as u64,
                ("align", Entry::Number(align @ 1..=4096)) => integer.align = align as u64,
                ("signed", Entry::Path(word)) => integer.signed = matches!(word.as_str(), "true" | "TRUE"),
                ("signed", Entry::Number(number)) => integer.signed = number != 0,
                ("base", Entry::Number(base)) => integer.base = base as u64,
                ("base", Entry::Path(word)) => {
                    integer.base = match word.as_str() {
                        "hex" | "hexadecimal" | "x" | "X" | "p" => 16,
                        "oct" | "octal" | "o" => 8,
                        "binary" | "b" => 2,
                        _ => 10,
                    }
                }
                ("encoding", Entry::Path(word)) => {
                    integer.text =
                        matches!(word.as_str(), "UTF8" | "utf8" | "ASCII" | "ascii" | "UTF" | "utf")
                }
                ("byte_order", Entry::Path(word)) => integer.little = order(&word),
                ("map", Entry::Path(path)) => {
                    integer.clock = path.split('.').nth(1).map(Arc::from);
                }
                _ => {}
            }
        }
        if integer.bits == 0 {
            return self.cursor.fail("an integer without a size");
        }
        // The default of CTF 1.8: integers of whole bytes are aligned to bytes.
        if integer.align == 0 {
            integer.align = if integer.bits.is_multiple_of(8) { 8 } else { 1 };
        }
        match integer.align.is_power_of_two() {
            true => Ok(integer),
            false => self.cursor.fail("an alignment that is no power of two"),
        }
    }

    fn float(&mut self) -> Result<Type> {
        self.cursor.expect('{')?;
        let (mut exponent, mut mantissa, mut align, mut little) = (0, 0, 8, None);
        for (key, entry) in self.entries()? {
            match (key.as_str(), entry) {
                ("exp_dig", Entry::Number(digits)) => exponent = digits,
                ("mant_dig", Entry::Number(digits)) => mantissa = digits,
                ("align", Entry::Number(bits @ 1..=4096)) => align = bits as u64,
                ("byte_order", Entry::Path(word)) => little = order(&word),
                _ => {}
            }
        }
        if !align.is_power_of_two() {
            return self.cursor.fail("an alignment that is no power of two");
        }
        Ok(Type::Float {
            bits: u64::from(self.cursor.float_size(exponent, mantissa)?) * 8,
            align,
            little,
        })
    }

    /// A type and a name, perhaps with lengths behind it.
    fn declaration(&mut self) -> Result<(Type, String)> {
        if self.depth >= DEPTH {
            return self.cursor.fail("types are nested too deeply");
        }
        self.depth += 1;
        let own = self.own_type();
        self.depth -= 1;
        let (ty, name) = match own? {
            Some(ty) => (ty, self.cursor.word()?),
            None => {
                let mut words = vec![self.cursor.word()?];
                while let Some(Token::Word(_)) = self.cursor.peek() {
                    words.push(self.cursor.word()?);
                }
                let Some(name) = words.pop().filter(|_| !words.is_empty()) else {
                    return self.cursor.fail("expected a type and a name");
                };
                (self.named(&words.join(" "))?, name)
            }
        };
        let arrays = self.cursor.lengths()?.into_iter().rev();
        let ty = arrays.fold(ty, |ty, length| match length {
            Length::Constant(count) => Type::Array(Arc::new(ty), count.into()),
            Length::Field(path) => Type::Sequence(Arc::new(ty), path),
        });
        Ok((ty, name))
    }

    fn structure(&mut self) -> Result<Type> {
        let fields = self.members()?;
        let own = fields.iter().map(|(_, ty)| ty.align()).max().unwrap_or(1);
        let mut align = own.max(1);
        if self.cursor.accept_word("align") {
            self.cursor.expect('(')?;
            let least = self.cursor.number()?;
            self.cursor.expect(')')?;
            match u64::try_from(least) {
                Ok(least @ 1..=4096) if least.is_power_of_two() => align = align.max(least),
                _ => return self.cursor.fail("an alignment that is no power of two"),
            }
        }
        Ok(Type::Struct(Arc::new(Struct { fields, align })))
    }

    fn members(&mut self) -> Result<Vec<(String, Type)>> {
        self.cursor.expect('{')?;
        let mut fields = Vec::new();
        while !self.cursor.accept('}') {
            if self.cursor.is_word("typealias") || self.cursor.is_word("typedef") {
                self.definition()?;
                continue;
            }
            let (ty, name) = self.declaration()?;
            self.cursor.expect(';')?;
            fields.push((name, ty));
            if fields.len() > FIELDS {
                return self.cursor.fail("a structure with too many fields");
            }
        }
        Ok(fields)
    }

    fn variant(&mut self) -> Result<Type> {
        let mut tag = String::new();
        if self.cursor.accept('<') {
            tag = self.cursor.path()?;
            self.cursor.expect('>')?;
        }
        Ok(Type::Variant(tag, self.members()?.into()))
    }

    fn enumeration(&mut self) -> Result<Type> {
        let container = match self.cursor.accept(':') {
            true => self.ty()?,
            false => self.named("int")?,
        };
        let Type::Integer(container) = container else {
            return self.cursor.fail("an enumeration that is not one of integers");
        };
        self.cursor.expect('{')?;
        let mut labels = Vec::new();
        let mut next = 0;
        while !self.cursor.accept('}') {
            let name = match self.cursor.peek() {
                Some(Token::Text(text)) => text.clone(),
                Some(Token::Word(word)) => word.clone(),
                _ => return self.cursor.fail("expected a name of a value"),
            };
            self.cursor.skip();
            let (mut low, mut high) = (next, next);
            if self.cursor.accept('=') {
                low = self.cursor.number()?;
                high = if self.cursor.accept('…') {
                    self.cursor.number()?
                } else {
                    low
                };
            }
            next = high.saturating_add(1);
            labels.push((low, high, name));
            if labels.len() > LABELS {
                return self.cursor.fail("an enumeration with too many names");
            }
            if !self.cursor.accept(',') {
                self.cursor.expect('}')?;
                break;
            }
        }
        Ok(Type::Enumeration(container, labels.into()))
    }
}

fn order(word: &str) -> Option<bool> {
    match word {
        "le" => Some(true),
        "be" | "network" => Some(false),
        _ => None,
    }
}

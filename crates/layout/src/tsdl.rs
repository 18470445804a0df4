//! The text of metadata (TSDL, CTF 1.8) that all of Kestrel's traces have in common: packets, clock, stream, and what the environment says. The fields of events are said
//! by the two that know them, in the words that stand here.
//!
//! TSDL cannot say in which order people read fields, that a byte is a bool, or how long a string may be: such hints stand in entries of `env`.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// How each metadata file in text begins.
pub const BEGINNING: &str = "/* CTF 1.8 */";
/// How `env` names the tracer that wrote it.
pub const TRACER: &str = "tracer_name = \"kestrel\";";
/// Value of `trace_format` in `env`: raised when the hints change their meaning.
pub const FORMAT: u64 = 1;

/// The packet header, each field with its name and bits, in the order of [`crate::packet::offset`].
pub const HEADER: &[(&str, u32)] = &[("magic", 32), ("uuid", 128), ("stream_id", 32)];
/// The packet context.
pub const CONTEXT: &[(&str, u32)] = &[
    ("timestamp_begin", 64),
    ("timestamp_end", 64),
    ("content_size", 64),
    ("packet_size", 64),
    ("packet_seq_num", 64),
    ("events_discarded", 64),
    ("cpu_id", 32),
    ("buffer", 32),
    ("committed", 64),
];

/// The empty field that stretches an event over its padding; no field is called so.
pub const END: &str = "_end";

/// Alignment of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aligned {
    /// Alignment to the integer's own size.
    Own,
    /// 8 bytes, whatever its size: it begins a word.
    Word,
    /// Nothing: what it is part of says where it lies.
    Packed,
}

/// An integer type as an alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alias {
    /// Size in bytes.
    pub size: u8,
    /// Whether it may be negative.
    pub signed: bool,
    /// 8, 10 or 16.
    pub base: u8,
    /// Where it may lie.
    pub aligned: Aligned,
}

impl Alias {
    /// An integer in decimal digits.
    pub const fn new(size: u8, signed: bool) -> Self {
        Self {
            size,
            signed,
            base: 10,
            aligned: Aligned::Own,
        }
    }

    /// Declares it.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn declare(self, out: &mut dyn Write) -> fmt::Result {
        let bits = u32::from(self.size) * 8;
        let align = match self.aligned {
            Aligned::Own => bits,
            Aligned::Word => 64,
            Aligned::Packed => 8,
        };
        writeln!(
            out,
            "typealias integer {{ size = {bits}; align = {align}; signed = {}; base = {}; }} := {self};",
            self.signed, self.base
        )
    }
}

impl fmt::Display for Alias {
    /// The name: `uint32_hex_t`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.signed { "" } else { "u" };
        let base = match self.base {
            16 => "_hex",
            8 => "_oct",
            _ => "",
        };
        let aligned = match self.aligned {
            Aligned::Own => "",
            Aligned::Word => "_word",
            Aligned::Packed => "_packed",
        };
        write!(f, "{sign}int{}{base}{aligned}_t", u32::from(self.size) * 8)
    }
}

/// The name of a floating-point number's type.
pub const fn float(size: u8) -> &'static str {
    if size == 4 { "float32_t" } else { "float64_t" }
}

/// Declares addresses, characters and, where they are used, floating-point numbers.
///
/// # Errors
/// Errors of the writer.
pub fn other_types(out: &mut dyn Write, floats: bool) -> fmt::Result {
    out.write_str(
        "typealias integer { size = 64; align = 64; signed = false; base = 16; } := addr_t;\n\
         typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := char_t;\n",
    )?;
    if floats {
        out.write_str(
            "typealias floating_point { exp_dig = 8; mant_dig = 24; align = 32; } := float32_t;\n\
             typealias floating_point { exp_dig = 11; mant_dig = 53; align = 64; } := float64_t;\n",
        )?;
    }
    out.write_str("\n")
}

/// The `trace` block.
///
/// # Errors
/// Errors of the writer.
pub fn trace(out: &mut dyn Write, uuid: &dyn fmt::Display) -> fmt::Result {
    writeln!(
        out,
        "trace {{\n    major = 1;\n    minor = 8;\n    uuid = \"{uuid}\";\n    byte_order = le;"
    )?;
    out.write_str("    packet.header := struct {\n")?;
    for (name, bits) in HEADER {
        match bits {
            128 => writeln!(out, "        uint8_t {name}[16];")?,
            _ => writeln!(out, "        uint{bits}_t {name};")?,
        }
    }
    out.write_str("    };\n};\n\n")
}

/// Origin of a trace, for `env` in its metadata.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names of entries")]
pub struct Origin<'a> {
    /// `kernel`, or `process`.
    pub domain: &'a str,
    pub tracer_version: &'a str,
    pub hostname: &'a str,
    pub kernel_release: &'a str,
    pub machine: &'a str,
    pub command: &'a str,
    /// Name of the session; empty where there is none.
    pub session: &'a str,
    /// Empty: not known.
    pub boot: &'a str,
}

/// Opens the `env` block, which ends with `};`.
///
/// # Errors
/// Errors of the writer.
pub fn env(out: &mut dyn Write, origin: &Origin<'_>) -> fmt::Result {
    writeln!(
        out,
        "env {{\n    domain = \"{}\";\n    sysname = \"Linux\";\n    {TRACER}",
        origin.domain
    )?;
    for (key, value) in [
        ("tracer_version", origin.tracer_version),
        ("hostname", origin.hostname),
        ("kernel_release", origin.kernel_release),
        ("machine", origin.machine),
        ("command", origin.command),
    ] {
        writeln!(out, "    {key} = {};", Quoted(value))?;
    }
    for (key, value) in [("session", origin.session), ("boot_id", origin.boot)] {
        if !value.is_empty() {
            writeln!(out, "    {key} = {};", Quoted(value))?;
        }
    }
    writeln!(out, "    trace_format = {FORMAT};")
}

/// The entry of `env` about a buffer; `mode` is `overwrite` or `discard`.
///
/// # Errors
/// Errors of the writer.
pub fn buffer(out: &mut dyn Write, number: u32, name: &str, mode: &str, bytes: u64) -> fmt::Result {
    writeln!(out, "    buffer_{number} = \"{} {mode} {bytes}\";", Word(name))
}

/// The clock, whose 0 was so many seconds and ns after 1970, and the one stream class.
///
/// # Errors
/// Errors of the writer.
pub fn stream(out: &mut dyn Write, seconds: u64, nanoseconds: u32) -> fmt::Result {
    writeln!(
        out,
        "clock {{\n    name = monotonic;\n    description = \"CLOCK_MONOTONIC\";\n    freq = 1000000000;\n    \
         offset_s = {seconds};\n    offset = {nanoseconds};\n}};\n"
    )?;
    for (bits, align) in [(48, 8), (64, 64)] {
        writeln!(
            out,
            "typealias integer {{ size = {bits}; align = {align}; signed = false; map = clock.monotonic.value; }} := time{bits}_t;"
        )?;
    }
    out.write_str("\nstream {\n    id = 0;\n    packet.context := struct {\n")?;
    for (name, bits) in CONTEXT {
        let ty = if name.starts_with("timestamp") {
            "time"
        } else {
            "uint"
        };
        writeln!(out, "        {ty}{bits}_t {name};")?;
    }
    out.write_str(
        "    };\n    event.header := struct {\n        uint16_t id;\n        time48_t timestamp;\n    } align(64);\n    \
         event.context := struct {\n        uint32_t _pid;\n        uint32_t _tid;\n    };\n};\n",
    )
}

/// Opens an event's block, up to its fields, each of which is a [`field`].
///
/// # Errors
/// Errors of the writer.
pub fn event(out: &mut dyn Write, number: u16, name: &str) -> fmt::Result {
    write!(
        out,
        "\nevent {{\n    name = {};\n    id = {number};\n    stream_id = 0;\n    fields := struct {{\n",
        Quoted(name)
    )
}

/// Declares a field of an event: its type, its name (readers strip the underscore), and what stands behind that.
///
/// # Errors
/// Errors of the writer.
pub fn field(
    out: &mut dyn Write,
    ty: &dyn fmt::Display,
    name: &str,
    behind: &dyn fmt::Display,
) -> fmt::Result {
    writeln!(out, "        {ty} _{name}{behind};")
}

/// Closes an event's block; `padded` where its last field may leave the record's length no multiple of 8 bytes. A reader would take the padding before the end of the
/// content for one more event (babeltrace2 2.0.4 does), so the fields must be said to reach over it: by an empty aligned structure.
///
/// # Errors
/// Errors of the writer.
pub fn event_end(out: &mut dyn Write, padded: bool) -> fmt::Result {
    if padded {
        field(out, &"struct { } align(64)", END, &"")?;
    }
    out.write_str("    };\n};\n")
}

/// A string literal of TSDL.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => {
                    f.write_char('\\')?;
                    f.write_char(c)?;
                }
                '\n' => f.write_str("\\n")?,
                c if (c as u32) < 0x20 || c == '\x7f' => write!(f, "\\{:03o}", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// A word of `env`'s hints, in which only a small set of characters stands for itself; an empty one is `%`.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a>(pub &'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_char('%');
        }
        for byte in self.0.bytes() {
            match byte {
                b'a'..=b'z'
                | b'A'..=b'Z'
                | b'0'..=b'9'
                | b'_'
                | b'-'
                | b'+'
                | b'.'
                | b'/'
                | b'|'
                | b'<'
                | b'>' => f.write_char(char::from(byte))?,
                _ => write!(f, "%{byte:02x}")?,
            }
        }
        Ok(())
    }
}

/// Names that TSDL can hold for fields named `names` in reading order; `true` stands with the variable ones, whose counts are
/// called `_NAME_length`. Both directions compute this, so a name that is no identifier, or stands twice, survives.
///
/// Names that differ in leading underscores only count as the same: babeltrace2 2.0.4 takes `__q` and `_q` in one struct
/// for duplicates, comparing the one with its underscore stripped to the other as it is.
pub fn identifiers<'a>(names: impl Iterator<Item = (&'a str, bool)>) -> Vec<String> {
    let mut used = BTreeSet::new();
    let key = |name: &str| name.trim_start_matches('_').to_owned();
    let mut all = Vec::new();
    for (name, variable) in names {
        let base = identifier(name);
        let mut number = 1;
        let mut candidate = base.clone();
        while candidate == END
            || used.contains(&key(&candidate))
            || (variable && used.contains(&key(&length_name(&candidate))))
        {
            number += 1;
            candidate = format!("{base}_{number}");
        }
        if variable {
            used.insert(key(&length_name(&candidate)));
        }
        used.insert(key(&candidate));
        all.push(candidate);
    }
    all
}

fn identifier(name: &str) -> String {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let text: String = name.chars().map(|c| if sound(c) { c } else { '_' }).collect();
    if text.is_empty() { "field".into() } else { text }
}

/// Name of a variable field's count.
pub fn length_name(name: &str) -> String {
    format!("_{name}_length")
}

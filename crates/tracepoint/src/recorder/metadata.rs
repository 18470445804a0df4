//! Metadata of a recording: its events described in TSDL, the language of CTF. The same text lies in pages beside the rings, so that an image of the memory can be
//! read by itself.

use super::ring::Page;
use crate::event::Event;
use crate::place::{extent, in_memory_order};
use crate::value::{Field, FieldKind};
use kestrel_layout::packet::{CAPACITY, OF_THREADS, PAGE, metadata_page};
use kestrel_layout::tsdl::{self, Alias, BEGINNING, Origin, Quoted, Word, identifiers, length_name};
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fmt::{self, Write as _};

/// Description of a recording in its metadata.
pub(crate) struct About<'a> {
    pub(crate) uuid: [u8; 16],
    pub(crate) is_overwriting: bool,
    pub(crate) pages: u64,
    /// Seconds and ns from 1970 to the clock's zero.
    pub(crate) clock: (u64, u32),
    /// Events that have numbers.
    pub(crate) events: &'a [&'static Event],
}

/// A UUID, for writing it in the usual form.
struct Uuid([u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The metadata text of a recording.
pub(crate) fn text(about: &About<'_>) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    _ = write(about, &mut out);
    out
}

fn write(about: &About<'_>, out: &mut String) -> fmt::Result {
    write!(out, "{BEGINNING}\n\n")?;
    let mut aliases: BTreeSet<Alias> = [1, 2, 4, 8].map(|size| Alias::new(size, false)).into();
    let mut floats = false;
    for field in about.events.iter().flat_map(|event| event.fields()) {
        match field.kind {
            FieldKind::Integer { size, signed } | FieldKind::Array { size, signed, .. } => {
                aliases.insert(Alias::new(size, signed));
            }
            FieldKind::Float { .. } => floats = true,
            _ => {}
        }
    }
    for alias in aliases {
        alias.declare(out)?;
    }
    tsdl::other_types(out, floats)?;
    tsdl::trace(out, &Uuid(about.uuid))?;
    let [hostname, kernel_release, machine] = system();
    // Absent where /proc is not mounted, as in some containers.
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let origin = Origin {
        domain: "process",
        tracer_version: env!("CARGO_PKG_VERSION"),
        hostname: &hostname,
        kernel_release: &kernel_release,
        machine: &machine,
        command: command.trim_end(),
        session: "",
        boot: "",
    };
    tsdl::env(out, &origin)?;
    let mode = if about.is_overwriting {
        "overwrite"
    } else {
        "discard"
    };
    tsdl::buffer(out, OF_THREADS, "process", mode, about.pages * u64::from(PAGE))?;
    for event in about.events {
        let mut hints = format!("{} ={}", Word("tracepoint"), Word(event.print()));
        let (_, most) = extent(event.fields());
        for field in event.fields() {
            write!(hints, " {}{}", Word(field.name), hint(field, most))?;
        }
        writeln!(out, "    event_{} = {};", event.number(), Quoted(&hints))?;
    }
    out.write_str("};\n\n")?;
    tsdl::stream(out, about.clock.0, about.clock.1)?;
    about.events.iter().try_for_each(|event| declare(event, out))
}

/// Hint for Kestrel's reader about a field, beyond what TSDL can say.
fn hint(field: &Field, most: u32) -> String {
    match field.kind {
        FieldKind::Bool => ":bool".to_owned(),
        FieldKind::String => format!(":string({most})"),
        FieldKind::Bytes => format!(":bytes({most})"),
        _ => String::new(),
    }
}

fn declare(event: &Event, out: &mut String) -> fmt::Result {
    tsdl::event(out, event.number(), &event.to_string())?;
    let fields = event.fields();
    let is_variable = |field: &Field| matches!(field.kind, FieldKind::String | FieldKind::Bytes);
    let names = identifiers(fields.iter().map(|field| (field.name, is_variable(field))));
    for at in in_memory_order(fields) {
        let (field, name) = (&fields[at], &names[at]);
        let one = |out: &mut String, ty: &dyn fmt::Display| tsdl::field(out, ty, name, &"");
        match field.kind {
            FieldKind::Integer { size, signed } => one(out, &Alias::new(size, signed))?,
            FieldKind::Bool => one(out, &Alias::new(1, false))?,
            FieldKind::Float { size } => one(out, &tsdl::float(size))?,
            FieldKind::Text { size } => tsdl::field(out, &"char_t", name, &format_args!("[{size}]"))?,
            FieldKind::Array { size, signed, count } => {
                tsdl::field(out, &Alias::new(size, signed), name, &format_args!("[{count}]"))?;
            }
            FieldKind::String | FieldKind::Bytes => {
                tsdl::field(out, &Alias::new(2, false), &length_name(name), &"")?;
            }
        }
    }
    for (field, name) in fields.iter().zip(&names) {
        if is_variable(field) {
            tsdl::field(out, &"char_t", name, &format_args!("[_{}]", length_name(name)))?;
        }
    }
    let padded = fields.iter().any(is_variable) || !extent(fields).0.is_multiple_of(8);
    tsdl::event_end(out, padded)
}

/// The machine's name, its kernel's release, its architecture.
#[allow(unsafe_code, reason = "a system call")]
fn system() -> [String; 3] {
    // SAFETY: strings, of which no byte at all is one.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: writes the structure.
    unsafe { libc::uname(&mut names) };
    let text = |text: &[libc::c_char]| {
        // SAFETY: the kernel ends each text with a NUL within its array.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        text.to_string_lossy().into_owned()
    };
    [text(&names.nodename), text(&names.release), text(&names.machine)]
}

/// Splits the metadata text into packets of one page each.
pub(crate) fn pages(text: &str, uuid: &[u8; 16]) -> Vec<Page> {
    let parts = text.as_bytes().chunks(CAPACITY as usize);
    let pages = parts.len() as u64;
    let page = |(number, part): (usize, &[u8])| metadata_page(uuid, 1, (number as u64, pages), part);
    parts.enumerate().map(page).collect()
}
